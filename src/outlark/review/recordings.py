"""Requests about recordings: spectrograms, scores, sound as a WAV by byte range, and files dropped on the page."""

import errno
import json
import os
import re
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
from fastapi import APIRouter, Header, HTTPException, Query, Request, Response
from fastapi import Path as InPath
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from outlark.audio.recording import Recording
from outlark.audio.sound import DECODED_AT_ONCE
from outlark.audio.sound_files import is_sound
from outlark.plain_text import visible, writable
from outlark.review import tiles
from outlark.review.project import Answer, Asked, Current, Id, Seconds

#: What the id and version of a recording identify never changes.
FOREVER = {"cache-control": "private, max-age=31536000, immutable"}
NOT_CACHED = {"cache-control": "no-store"}
BINARY = "application/octet-stream"
MAX_THUMBNAIL_COLUMNS = 512
WAV_HEADER_BYTES = 44
LONGEST_CLIP_S = 30.0
#: Largest upload, and what stays free on the disk, in bytes.
MAX_UPLOAD_BYTES, SPARE_BYTES = 4 * 2**30, 2**26
TileNumber = Annotated[int, InPath(ge=0, le=2**31)]
of_recording = APIRouter(prefix="/api/recordings/{recording_id}", tags=["recordings"])
routes = APIRouter(tags=["recordings"])


@of_recording.get("")
def about(recording: Asked, project: Current) -> Answer:
    """Length, levels of the spectrogram, clock, colours."""
    pyramid, facts = project.pyramid(recording), recording.facts
    levels, (low, high) = pyramid.levels, pyramid.colour_range()
    listed = [{"hop": hop, "edge": levels.edge(k), "columns": levels.columns(k)} for k, hop in enumerate(levels.hops)]
    return {
        "id": recording.id, "name": recording.name, "sample_rate": recording.sample_rate,
        "n_samples": recording.n_samples, "version": recording.key, "levels": listed, "whole": pyramid.whole,
        "built": pyramid.done / max(1, levels.columns(tiles.FIRST_STORED_LEVEL)), "error": pyramid.error,
        "low": low, "high": high, "rows": tiles.TILE_ROWS, "tile_columns": tiles.TILE_COLUMNS,
        "began": facts.began, "expansion": facts.expansion, "remarks": list(facts.all_remarks),
        "missing": writable(f"{recording.path} no longer exists; put it back") if recording.missing else None,
    }  # fmt: skip


@of_recording.get("/tiles/{level}/{number}", response_class=Response)
def tile(recording: Asked, project: Current, level: TileNumber, number: TileNumber) -> Response:
    """Bytes of the spectrogram, column after column, low frequencies first."""
    pyramid = project.pyramid(recording)
    if level >= len(pyramid.levels.hops) or number >= pyramid.levels.tiles(level):
        raise HTTPException(404, "there is no such tile")
    content, final = pyramid.tile(level, number)
    return Response(content, media_type=BINARY, headers=FOREVER if final else {**NOT_CACHED, "x-incomplete": "1"})


@of_recording.get("/block", response_class=Response)
def block(
    recording: Asked, project: Current, t0: Seconds, t1: Seconds,
    columns: Annotated[int, Query(ge=2, le=MAX_THUMBNAIL_COLUMNS)] = 96,
) -> Response:  # fmt: skip
    """A thumbnail: this many columns between two times."""
    if not t0 < t1 <= t0 + 60:
        raise HTTPException(422, "t1 must be later than t0, by up to 60 s")
    window = project.pyramid(recording).levels.window
    hop = max(1, round((t1 - t0) * recording.sample_rate / columns))
    first = round(t0 * recording.sample_rate / hop)
    content = tiles.columns_of(recording.sound, window, hop, first, columns).tobytes()
    return Response(content, media_type=BINARY, headers=FOREVER)


@of_recording.get("/scores/{run_id}/{level}/{number}", response_class=Response)
def scores(recording: Asked, project: Current, run_id: Id, level: TileNumber, number: TileNumber) -> Response:
    """Least and largest score of each bin and class, float32 (bins, classes, 2)."""
    bins = tiles.curve_tile(project.run_folder(run_id, recording), level, number)
    if bins is None:
        raise HTTPException(404, "there are no scores here; train first")
    return Response(bins.astype("<f4").tobytes(), media_type=BINARY, headers=FOREVER)


@of_recording.get("/score_levels/{run_id}")
def score_levels(recording: Asked, project: Current, run_id: Id) -> Answer:
    """How many levels of scores there are."""
    folder = project.run_folder(run_id, recording)
    n = len(list(folder.glob("*.npy")))
    if not n:
        return {"levels": 0}
    frames, classes, _ = np.load(folder / "0.npy", mmap_mode="r").shape
    spans = json.loads((folder / "spans.json").read_text())
    sizes = {"factor": tiles.CURVE_FACTOR, "bins": tiles.CURVE_BINS, "frames": frames, "classes": classes}
    return {"levels": n, **sizes, **spans}


@of_recording.get("/audio", response_class=Response)
def audio(recording: Asked, range: Annotated[str | None, Header(max_length=200)] = None) -> Response:
    """The recording as a WAV, or a range of it."""
    total = WAV_HEADER_BYTES + 2 * recording.n_samples
    part = (0, total) if range is None else _range(range, total)
    if part is None:
        return Response(status_code=416, headers={"content-range": f"bytes */{total}"})
    first, stop = part
    headers = {"accept-ranges": "bytes", "content-length": str(stop - first), "cache-control": "private"}
    if range is not None:
        headers["content-range"] = f"bytes {first}-{stop - 1}/{total}"
    content = wav_bytes(recording.sound, recording.n_samples, first, stop)
    return StreamingResponse(content, 200 if range is None else 206, headers, "audio/wav")


def _range(text: str, total: int) -> tuple[int, int] | None:
    """First byte, and the one after the last, of a request for one range; None for any other.

    >>> _range("bytes=0-", 100), _range("bytes=-10", 100), _range("bytes=100-", 100), _range("bytes=0-1,5-6", 100)
    ((0, 100), (90, 100), None, None)
    """
    wanted = re.fullmatch(r"bytes=(\d{0,18})-(\d{0,18})", text.strip())
    if wanted is None or wanted.groups() == ("", ""):
        return None
    first, last = wanted.groups()
    if not first:
        return (max(0, total - int(last)), total) if int(last) else None
    stop = min(total, int(last) + 1) if last else total
    return (int(first), stop) if int(first) < stop else None


@of_recording.get("/clip", response_class=Response)
def clip(recording: Asked, t0: Seconds, t1: Seconds) -> Response:
    """Up to 30 s as a WAV."""
    if not t0 < t1:
        raise HTTPException(422, "t1 must be later than t0")
    return Response(wav_clip(recording.sound, t0, t1), media_type="audio/wav", headers=NOT_CACHED)


def wav_bytes(sound: Recording, n_samples: int, first: int, stop: int) -> Iterator[bytes]:
    """Bytes first … stop - 1 of the recording as a mono WAV of 16 bits with this many samples."""
    if first < WAV_HEADER_BYTES:
        yield _wav_header(n_samples, sound.sample_rate)[first:stop]
    at = max(first, WAV_HEADER_BYTES)
    while at < stop:
        sample, skip = divmod(at - WAV_HEADER_BYTES, 2)
        until = min(sample + DECODED_AT_ONCE, n_samples)
        samples = sound.part(sample, until)
        # silence where the file is shorter than its header says
        block = _pcm(np.concatenate([samples, np.zeros(until - sample - len(samples))]))[skip : skip + stop - at]
        yield block
        at += len(block)


def wav_clip(sound: Recording, start_s: float, end_s: float) -> bytes:
    """An excerpt as a WAV, as loud as the recording."""
    rate = sound.sample_rate
    samples = sound.part(round(start_s * rate), round(min(end_s, start_s + LONGEST_CLIP_S) * rate))
    return _wav_header(len(samples), rate) + _pcm(samples)


def _wav_header(n_samples: int, sample_rate: int) -> bytes:
    size = 2 * n_samples
    form = struct.pack("<IHHIIHH", 16, 1, 1, sample_rate, 2 * sample_rate, 2, 16)
    return struct.pack("<4sI4s4s", b"RIFF", 36 + size, b"WAVE", b"fmt ") + form + struct.pack("<4sI", b"data", size)


def _pcm(samples: np.ndarray) -> bytes:
    return np.clip(np.rint(samples * 32768.0), -32768, 32767).astype("<i2").tobytes()


# ------------------------------------------------------------ uploads


@routes.put("/api/uploads/{name}", status_code=201)
async def upload(name: Annotated[str, InPath(max_length=255)], request: Request, project: Current) -> Answer:
    """A recording, as the body; it is checked before it becomes part of the project."""
    folder, length = project.folder / "uploads", int(request.headers.get("content-length", "0"))
    _check_upload(folder, name, length)
    part, target = folder / f".{os.urandom(8).hex()}.part", folder / name
    try:
        await _receive(request, part, name, length)
        os.replace(part, target)
        try:
            recording = await run_in_threadpool(project.add, target, name)
        except BaseException:
            target.unlink(missing_ok=True)
            raise
    except OSError as error:
        code = 507 if error.errno == errno.ENOSPC else 500
        raise HTTPException(code, f"{name} cannot be stored ({error.strerror}); free some space") from None
    finally:
        part.unlink(missing_ok=True)
    return {"id": recording.id, "name": recording.name}


def _check_upload(folder: Path, name: str, length: int) -> None:
    """Refuse anything but a plain name of a sound file, for which there is room."""
    plain = re.fullmatch(r"[^/\\:*?\"<>|\x00-\x1f.-][^/\\:*?\"<>|\x00-\x1f]*", name) and visible(name) == name
    if not plain or not is_sound(name) or len(name.encode()) > 200:
        raise HTTPException(422, f"{name!r:.80} is not the name of a sound file; rename it to something like night.wav")
    if length > MAX_UPLOAD_BYTES:
        raise HTTPException(413, f"{name} has {length} bytes, more than {MAX_UPLOAD_BYTES}; open its folder instead")
    if length + SPARE_BYTES > shutil.disk_usage(folder).free:
        raise HTTPException(507, f"there is no room for {name} ({length} bytes) on the disk; free some space")
    if (folder / name).exists():
        raise HTTPException(409, f"there is a recording {name} already; rename the file")


async def _receive(request: Request, path: Path, name: str, length: int) -> None:
    received = 0
    with path.open("xb") as file:
        async for chunk in request.stream():
            received += len(chunk)
            if received > length:
                raise HTTPException(413, f"{name} is longer than announced")
            file.write(chunk)
    if received != length or not length:
        raise HTTPException(400, f"{name} was cut short on its way: {received} of {length} bytes; try again")


routes.include_router(of_recording)
