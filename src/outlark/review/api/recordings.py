"""Requests about recordings: spectrograms, scores, audio, exports, and recordings dropped on the page."""

import errno
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

import numpy as np
from fastapi import APIRouter, Header, HTTPException, Query, Request, Response
from fastapi import Path as InPath
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from outlark.audio.sound_files import is_sound
from outlark.plain_text import visible, writable
from outlark.review import media
from outlark.review.api import Id, Seconds, Small
from outlark.review.exporting import SCOPES, export, writable_formats
from outlark.review.project import Project, Recording
from outlark.review.tiles import BINS, COLUMNS, DB_PER_STEP, FACTOR, LOWEST_DB, ROWS, columns_of, curve_tile

#: What the id and version of a recording identify never changes.
FOREVER = {"cache-control": "private, max-age=31536000, immutable"}
NOT_YET = {"cache-control": "no-store"}
BINARY = "application/octet-stream"
#: Columns of a thumbnail.
MOST_COLUMNS = 512
#: Largest upload, and what stays free on the disk, in bytes.
MOST_BYTES, SPARE_BYTES = 4 * 2**30, 2**26


def found(project: Project, number: int) -> Recording:
    """The recording, or 404."""
    recording = project.recording(number)
    if recording is None:
        raise HTTPException(404, f"there is no recording {number}")
    return recording


def router(project: Project) -> APIRouter:
    """Requests about recordings."""
    routes = APIRouter()
    for part in (_drawn_routes, _sound_routes, _file_routes):
        routes.include_router(part(project))
    return routes


def _drawn_routes(project: Project) -> APIRouter:
    routes = APIRouter(prefix="/api/recordings/{recording_id}", tags=["recordings"])

    @routes.get("")
    def about(recording_id: Id) -> dict[str, object]:
        """Length, levels of the spectrogram, clock, colours."""
        recording = found(project, recording_id)
        pyramid = project.pyramid(recording)
        levels, facts = pyramid.levels, recording.facts
        listed = [
            {"hop": hop, "edge": levels.edge(k), "columns": levels.columns(k)} for k, hop in enumerate(levels.hops)
        ]
        low, high = pyramid.colour_range()
        return {
            "id": recording.id, "name": recording.name, "sample_rate": recording.sample_rate,
            "n_samples": recording.n_samples, "version": recording.key, "levels": listed, "whole": pyramid.whole,
            "built": pyramid.done / max(1, levels.columns(5)), "error": pyramid.error, "low": low, "high": high,
            "rows": ROWS, "tile_columns": COLUMNS, "lowest_db": LOWEST_DB, "db_per_step": DB_PER_STEP,
            "began": facts.began, "expansion": facts.expansion, "remarks": list(facts.all_remarks),
            "missing": writable(f"{recording.path} no longer exists; put it back") if recording.missing else None,
        }  # fmt: skip

    @routes.get("/tiles/{level}/{number}", response_class=Response)
    def tile(recording_id: Id, level: Small, number: Small) -> Response:
        """Bytes of the spectrogram, column after column, low frequencies first."""
        pyramid = project.pyramid(found(project, recording_id))
        if level >= len(pyramid.levels.hops) or number >= pyramid.levels.tiles(level):
            raise HTTPException(404, "there is no such tile")
        content, final = pyramid.tile(level, number)
        headers = FOREVER if final else {**NOT_YET, "x-incomplete": "1"}
        return Response(content, media_type=BINARY, headers=headers)

    @routes.get("/block", response_class=Response)
    def block(
        recording_id: Id, t0: Seconds, t1: Seconds, columns: Annotated[int, Query(ge=2, le=MOST_COLUMNS)] = 96
    ) -> Response:
        """A thumbnail: this many columns between two times."""
        recording = found(project, recording_id)
        if not t0 < t1 <= t0 + 60:
            raise HTTPException(422, "t1 must be later than t0, by up to 60 s")
        window = project.pyramid(recording).levels.window
        hop = max(1, round((t1 - t0) * recording.sample_rate / columns))
        first = round(t0 * recording.sample_rate / hop)
        content = columns_of(project.sound(recording), window, hop, first, columns).tobytes()
        return Response(content, media_type=BINARY, headers=FOREVER)

    @routes.get("/scores/{run_id}/{level}/{number}", response_class=Response)
    def scores(recording_id: Id, run_id: Id, level: Small, number: Small) -> Response:
        """Least and largest score of each bin and class, float32 (bins, classes, 2)."""
        recording = found(project, recording_id)
        bins = curve_tile(project.run_folder(run_id, recording), level, number)
        if bins is None:
            raise HTTPException(404, "there are no scores here; train first")
        return Response(bins.astype("<f4").tobytes(), media_type=BINARY, headers=FOREVER)

    @routes.get("/score_levels/{run_id}")
    def score_levels(recording_id: Id, run_id: Id) -> dict[str, object]:
        """How many levels of scores there are."""
        folder = project.run_folder(run_id, found(project, recording_id))
        n = len(list(folder.glob("*.npy")))
        if not n:
            return {"levels": 0}
        shape = np.load(folder / "0.npy", mmap_mode="r").shape
        spans = json.loads((folder / "spans.json").read_text())
        return {"levels": n, "factor": FACTOR, "bins": BINS, "frames": shape[0], "classes": shape[1], **spans}

    return routes


def _sound_routes(project: Project) -> APIRouter:
    routes = APIRouter(prefix="/api/recordings/{recording_id}", tags=["recordings"])

    @routes.get("/audio", response_class=Response)
    def audio(recording_id: Id, range: Annotated[str | None, Header(max_length=200)] = None) -> Response:
        """The recording as a WAV, or a range of it."""
        recording = found(project, recording_id)
        total = media.HEADER_BYTES + 2 * recording.n_samples
        first, stop = 0, total
        if range is not None:
            part = _range(range, total)
            if part is None:
                return Response(status_code=416, headers={"content-range": f"bytes */{total}"})
            first, stop = part
        sound = project.sound(recording)
        headers = {"accept-ranges": "bytes", "content-length": str(stop - first), "cache-control": "private"}
        if range is not None:
            headers["content-range"] = f"bytes {first}-{stop - 1}/{total}"
        content: Iterator[bytes] = media.wav_bytes(sound, recording.n_samples, first, stop)
        return StreamingResponse(content, 200 if range is None else 206, headers, "audio/wav")

    @routes.get("/clip", response_class=Response)
    def clip(recording_id: Id, t0: Seconds, t1: Seconds) -> Response:
        """Up to 30 s as a WAV."""
        recording = found(project, recording_id)
        if not t0 < t1:
            raise HTTPException(422, "t1 must be later than t0")
        content = media.clip(project.sound(recording), t0, t1)
        return Response(content, media_type="audio/wav", headers=NOT_YET)

    return routes


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


def _file_routes(project: Project) -> APIRouter:
    """Exports and uploads."""
    routes = APIRouter(prefix="/api", tags=["files"])

    @routes.get("/formats")
    def formats() -> dict[str, Any]:
        return {"formats": writable_formats(), "scopes": SCOPES}

    @routes.get("/export", response_class=Response)
    def exported(
        format: Annotated[str, Query(max_length=40)] = "raven",
        scope: Literal["corrected", "decided", "reviewed"] = "corrected",
        recording: Annotated[int | None, Query(ge=0, le=2**53)] = None,
    ) -> Response:
        """An annotation file, or an archive of them for all recordings."""
        chosen = project.recordings() if recording is None else [found(project, recording)]
        name, content = export(project, format=format, scope=scope, recordings=chosen)
        disposition = f"attachment; filename*=UTF-8''{quote(name)}"
        headers = {"content-disposition": disposition, "cache-control": "no-store"}
        return Response(content, media_type="application/octet-stream", headers=headers)

    @routes.put("/uploads/{name}", status_code=201)
    async def upload(name: Annotated[str, InPath(max_length=255)], request: Request) -> dict[str, Any]:
        """A recording, as the body; it is checked before it becomes part of the project."""
        check_name(name)
        folder = project.folder / "uploads"
        length = int(request.headers.get("content-length", "0"))
        _check_room(folder, name, length)
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

    return routes


def _check_room(folder: Path, name: str, length: int) -> None:
    if length > MOST_BYTES:
        raise HTTPException(413, f"{name} has {length} bytes, more than {MOST_BYTES}; open its folder instead")
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


def check_name(name: str) -> None:
    """Refuse anything but a plain name of a sound file."""
    plain = (
        re.fullmatch(r"[^/\\:*?\"<>|\x00-\x1f]+", name) and not name.startswith((".", "-")) and visible(name) == name
    )
    if not plain or Path(name).name != name or not is_sound(name) or len(name.encode()) > 200:
        raise HTTPException(422, f"{name!r:.80} is not the name of a sound file; rename it to something like night.wav")
