"""A recording, a part of one, or a recording from its parts, through the detector."""

import json
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from outlark.audio.bandwidth import Bandwidth, remark_on_bandwidth
from outlark.audio.facts import Facts, Quality
from outlark.audio.recording import Recording
from outlark.batch.task import Print, fingerprint
from outlark.batch.unit import Part, Unit
from outlark.detection.detector import BLOCK_SAMPLES, NoteDetector
from outlark.detection.scores import ScoreBlock, joined_scores
from outlark.detection.scores_file import block_arrays, block_of
from outlark.detection.stream import Found, PartStream, WholeStream, first_frame
from outlark.errors import AudioError, OutlarkError

#: Gets the seconds of audio analysed so far, and the share of the unit.
Progress = Callable[[float, float], None]
#: Gets the findings, in order.
Take = Callable[[Found], None]
#: Frames kept together in the file of a part, about a minute.
FRAMES = 2**15
_ABOUT = "about.json"


class Analysed(NamedTuple):
    """An analysed recording: its number of samples, at its own rate, and what was noticed about it."""

    n_samples: int
    facts: Facts


def opened(path: Path | str, channel: int | None) -> Recording:
    """The recording; channels are counted from 1."""
    audio = Recording(path)
    if channel is None:
        return audio
    if channel > audio.channels:
        raise AudioError(
            f"{path}: has {audio.channels} channel{'s' if audio.channels > 1 else ''}, but channel {channel} was asked "
            f"for; give mix, or a number from 1 to {audio.channels}"
        )
    return Recording(path, channel - 1)


def analyse(detector: NoteDetector, audio: Recording, take: Take, progress: Progress, before: Print) -> Analysed:
    """A whole recording; `before` is its fingerprint when work on it started."""
    facts = audio.facts
    stream = detector.stream(audio.sample_rate)
    bandwidth, quality = Bandwidth(audio.sample_rate), Quality(audio)
    for block in audio.blocks(BLOCK_SAMPLES, heard=quality.push):
        take(stream.push(block))
        bandwidth.push(block)
        progress(stream.n_samples / audio.sample_rate, min(1.0, stream.n_samples / max(1, audio.n_samples)))
    take(stream.finish())
    if not stream.n_samples:
        raise AudioError(f"{audio.path} holds no sound, only a header; get another copy if there is one")
    heard = Heard(stream.n_samples, bandwidth, quality)
    return Analysed(stream.n_samples, _judged(facts, heard, detector, before, audio))


def analyse_part(detector: NoteDetector, audio: Recording, part: Part, path: Path, progress: Progress) -> float:
    """Write the scores of a part to a file; its length in seconds."""
    first, stop = _frames(detector, part)
    stream = PartStream(detector, audio.sample_rate, first, stop)
    start, end = (_sample(detector, frame, audio.sample_rate) for frame in (first, stop))
    bandwidth = Bandwidth(audio.sample_rate, audio.n_samples, part=(start, end), position=stream.first_sample)
    quality = Quality(audio, part=(start, end), position=stream.first_sample)
    expected = max(1, min(end, audio.n_samples) - start)
    with PartWriter(path) as writer:
        for block in audio.blocks(BLOCK_SAMPLES, first=stream.first_sample, heard=quality.push):
            writer.add(stream.push(block))
            bandwidth.push(block)
            done = min(max(0, stream.n_samples - start), expected)
            progress(done / audio.sample_rate, done / expected)
            if stream.complete:
                n_samples = None
                break
        else:
            writer.add(stream.finish())
            n_samples = stream.n_samples
        about = {"sample_rate": audio.sample_rate, "n_samples": n_samples}
        writer.finish(about, stream.second, bandwidth.spectra, quality.counts)
    return (min(end, stream.n_samples) - start) / audio.sample_rate


def join_parts(detector: NoteDetector, audio: Recording, unit: Unit, take: Take, progress: Progress) -> Analysed:
    """A whole recording from the files that `analyse_part` wrote."""
    parts = _up_to_the_end(PartFile(path) for path in unit.parts)
    second: dict[tuple[int, int], np.ndarray] = {}
    spectra, counts = list[np.ndarray](), list[np.ndarray]()
    for part in parts:
        rest = part.rest()
        second |= rest.second
        spectra.append(rest.spectra)
        counts.append(rest.quality)
    whole = WholeStream(detector, audio.sample_rate, second, lambda first: audio.blocks(BLOCK_SAMPLES, first=first))
    for number, part in enumerate(parts):
        for block in part.blocks(len(detector.classes_)):
            take(Found(block, whole.push(block)))
        progress(0.0, number / len(parts))
    n_samples = parts[-1].about["n_samples"]
    take(Found(detector.score_stream(audio.sample_rate).none(), whole.finish(n_samples)))
    heard = Heard(n_samples, Bandwidth.of_spectra(audio.sample_rate, spectra), Quality.of_parts(audio, counts))
    return Analysed(n_samples, _judged(audio.facts, heard, detector, unit.before, audio))


class Heard(NamedTuple):
    """What was noticed while a recording was analysed."""

    n_samples: int
    bandwidth: Bandwidth
    quality: Quality


def _judged(facts: Facts, heard: Heard, detector: NoteDetector, before: Print, audio: Recording) -> Facts:
    """With what was noticed while the recording was analysed."""
    facts = replace(facts, quality=heard.quality.remarks, counts=not heard.quality.is_spoilt)
    front_end = detector.front_end_
    if front_end.is_sound:
        ends_hz, up_to_hz = heard.bandwidth.ends_hz(), front_end.heard_hz[1]
        facts = facts.and_also(remark_on_bandwidth(audio.sample_rate, ends_hz, up_to_hz))
    after = fingerprint(audio.path)
    if after != before:
        facts = replace(facts, partial=_changed(before, after, heard.n_samples / audio.sample_rate))
    return facts


def _changed(before: Print, after: Print, seconds: float) -> str:
    sizes = [0 if known is None else known["size"] for known in (before, after)]
    how = "grew" if sizes[1] > sizes[0] else "shrank" if sizes[1] < sizes[0] else "changed"
    return (
        f"{how} while it was read: {sizes[0]} bytes before, {sizes[1]} after, {seconds:.3f} s of sound were processed; "
        "run the same command again once the recording is complete"
    )


def _frames(detector: NoteDetector, part: Part) -> tuple[int, int | None]:
    """First frame of a part, and the one after its last."""
    start_s, end_s = part.seconds
    return first_frame(detector, start_s), None if end_s is None else first_frame(detector, end_s)


def _sample(detector: NoteDetector, frame: int | None, rate: int) -> int:
    """The sample of the recording at which a frame starts."""
    if frame is None:
        return sys.maxsize
    return frame * detector.layout_.hop_samples * rate // detector.sample_rate_


# ------------------------------------------------------------ files of parts


class DamagedPartError(OutlarkError):
    """The file of a part is missing or damaged."""


class PartWriter:
    """Writes the scores of a part block by block, as a zip file of arrays (NumPy's ``.npz``); a context manager."""

    def __init__(self, path: Path) -> None:
        self._zip = zipfile.ZipFile(path, "w")
        self._waiting: list[ScoreBlock] = []
        self._n_waiting = self._n_blocks = 0

    def add(self, block: ScoreBlock) -> None:
        """The next scores."""
        if len(block):
            self._waiting.append(block)
            self._n_waiting += len(block)
        if self._n_waiting >= FRAMES:
            self._write()

    def finish(
        self,
        about: Mapping[str, Any],
        second: dict[tuple[int, int], np.ndarray],
        spectra: np.ndarray,
        quality: np.ndarray,
    ) -> None:
        """After the last scores: results of the second stage, spectra for the bandwidth, and counts of the quality."""
        if self._waiting:
            self._write()
        self._add("spectra", spectra)
        self._add("quality", quality)
        self._add("second_at", np.array(list(second), dtype=np.int64).reshape(-1, 2))
        self._add("second", np.array(list(second.values())))
        self._zip.writestr(zipfile.ZipInfo(_ABOUT), json.dumps({**about, "blocks": self._n_blocks}))

    def _write(self) -> None:
        for name, array in block_arrays(joined_scores(self._waiting)).items():
            self._add(f"{self._n_blocks}.{name}", array)
        self._waiting, self._n_waiting = [], 0
        self._n_blocks += 1

    def _add(self, name: str, array: np.ndarray) -> None:
        # a ZipInfo has no time, so that the same scores give the same bytes
        with self._zip.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as file:
            np.lib.format.write_array(file, array, allow_pickle=False)

    def __enter__(self) -> "PartWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()


class Rest(NamedTuple):
    """Of a part: results of the second stage by candidate, spectra for the bandwidth, and counts of the quality."""

    second: dict[tuple[int, int], np.ndarray]
    spectra: np.ndarray
    quality: np.ndarray


class PartFile:
    """What a `PartWriter` wrote; reading raises DamagedPartError."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        with self._opened() as arrays:
            self.about: dict[str, Any] = json.loads(arrays.zip.read(_ABOUT))

    def blocks(self, n_classes: int) -> Iterator[ScoreBlock]:
        """The scores, about a minute at a time."""
        with self._opened() as arrays:
            of_block: list[dict[str, str]] = [{} for _ in range(self.about["blocks"])]
            for name in arrays.files:
                number, _, column = name.partition(".")
                if number.isdecimal():
                    of_block[int(number)][column] = name
            for names in of_block:
                yield block_of({column: arrays[name] for column, name in names.items()}, n_classes)

    def rest(self) -> "Rest":
        """What `PartWriter.finish` wrote."""
        with self._opened() as arrays:
            places = ((start, end) for start, end in arrays["second_at"].tolist())
            second = dict(zip(places, arrays["second"], strict=True))
            return Rest(second, arrays["spectra"], arrays["quality"])

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        try:
            with np.load(self._path, allow_pickle=False) as arrays:
                yield arrays
        except (OSError, ValueError, KeyError, IndexError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise DamagedPartError(
                f"{self._path}: a part of a recording that can no longer be read ({error!s:.200}); give the same "
                "command again, and its recording is worked on from its start"
            ) from error


def _up_to_the_end(parts: Iterable[PartFile]) -> list[PartFile]:
    """Parts up to the one in which the recording ended: it may have become shorter since."""
    found: list[PartFile] = []
    for part in parts:
        found.append(part)
        if part.about["n_samples"] is not None:
            break
    return found
