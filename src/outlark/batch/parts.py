"""Long recordings in parts: the scores of each are kept in a file, and decisions are made from all of them at the end.

The results are identical, bit for bit (docs/decisions/014-one-engine.md).
"""

import shutil
import sys
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from outlark.audio.facts import Bandwidth, Facts, Quality
from outlark.audio.recording import Recording
from outlark.batch.engine import DamagedPartError, Progress, Take, changed_since, judged, parts_folder
from outlark.batch.journal import Journal, fingerprint
from outlark.batch.task import RecordingPart, Source, Task, Unit
from outlark.detection.detector import BLOCK_SAMPLES, NoteDetector
from outlark.detection.scores import ScoreBlock, joined_scores
from outlark.detection.scores_file import block_arrays, block_of
from outlark.detection.stream import Found, PartStream, WholeStream, first_frame

#: Frames kept together in the file of a part, about a minute: as arrays for each frame they take much more memory.
PART_FRAMES = 2**15


class LongRecording:
    """Which parts of a recording are done, and what comes next; `before` is its fingerprint when work on it began."""

    def __init__(self, task: Task, source: Source, n_parts: int, length_s: float) -> None:
        self.source, self.n_parts = source, n_parts
        self.before = fingerprint(source.path)
        self._task, self._length_s = task, length_s
        self._files: dict[int, str] = {}
        self._messages: dict[int, str] = {}
        self._waiting = list(range(n_parts))  # numbers of the parts that are not under way yet
        self._n_under_way = 0

    @property
    def message(self) -> str | None:
        """Why it failed, from the first part that did."""
        return self._messages[min(self._messages)] if self._messages else None

    @property
    def under_way(self) -> bool:
        return self._n_under_way > 0 or bool(self._wanted())

    def recall(self, entries: Mapping[int, Mapping[str, Any]], identity: Mapping[str, Any]) -> int:
        """Take over the parts that an earlier run did in the same way; how many."""
        same = {"file": self.before, "of": self.n_parts, "length_s": self._length_s, "identity": identity}
        for number, entry in entries.items():
            (file,) = entry["outputs"]
            if all(entry[key] == value for key, value in same.items()) and Path(self._task.output, file).exists():
                self._files[number] = file
        self._waiting = [number for number in self._waiting if number not in self._files]
        return len(self._files)

    def units(self) -> Iterator[Unit]:
        """The parts that are left to do; the whole if none is."""
        if not self._waiting:
            yield self.whole()
        while self._wanted():
            self._n_under_way += 1
            part = RecordingPart(self._waiting.pop(0), self.n_parts, self._length_s)
            yield Unit(self.source, part, before=self.before)

    def ended(self, part: RecordingPart, what: Mapping[str, Any]) -> None:
        """A part has succeeded or failed."""
        self._n_under_way -= 1
        if "failed" in what:
            self._messages[part.number] = what["failed"]
        else:
            (self._files[part.number],) = what["done"]["outputs"]

    def whole(self) -> Unit:
        """What follows when all parts are done."""
        paths = (str(Path(self._task.output, self._files[number])) for number in range(self.n_parts))
        return Unit(self.source, parts=tuple(paths), before=self.before)

    def delete_files(self) -> None:
        shutil.rmtree(parts_folder(self._task, self.source.name), ignore_errors=True)
        _delete_if_empty(self._task)

    def _wanted(self) -> list[int]:
        """Parts worth doing: none after one that has failed."""
        first_bad = min(self._messages, default=self.n_parts)
        return [number for number in self._waiting if number < first_bad]


def delete_unlisted_parts(task: Task, journal: Journal) -> None:
    """Delete files of parts that the journal does not list."""
    listed = {parts_folder(task, name) for name in journal.parts}
    for path in (task.work_folder / "parts").iterdir():
        if path not in listed:
            shutil.rmtree(path, ignore_errors=True)
    _delete_if_empty(task)


def _delete_if_empty(task: Task) -> None:
    folder = task.work_folder / "parts"
    if folder.exists() and not any(folder.iterdir()):
        folder.rmdir()


# --------------------------------------------------------------------- analysis


def analyse_part(detector: NoteDetector, audio: Recording, unit: Unit, folder: Path, progress: Progress) -> float:
    """Write the scores of a part to a file of the folder; its length in seconds."""
    assert unit.part is not None
    first, stop = (None if at_s is None else first_frame(detector, at_s) for at_s in unit.part.seconds)
    assert first is not None
    stream = PartStream(detector, audio.sample_rate, first, stop)
    start, end = (_sample(detector, frame, audio.sample_rate) for frame in (first, stop))
    bandwidth = Bandwidth(audio.sample_rate, audio.n_samples, part=(start, end), position=stream.first_sample)
    quality = Quality(audio, part=(start, end), position=stream.first_sample)
    expected, n_samples = max(1, min(end, audio.n_samples) - start), -1

    def scores() -> Iterator[ScoreBlock]:
        nonlocal n_samples
        for block in audio.blocks(BLOCK_SAMPLES, first=stream.first_sample, heard=quality.push):
            yield stream.push(block)
            bandwidth.push(block)
            done = min(max(0, stream.n_samples - start), expected)
            progress(done / audio.sample_rate, done / expected)
            if stream.complete:
                return
        yield stream.finish()
        n_samples = stream.n_samples  # here the recording ended

    packed = [block_arrays(block) for block in _by_minute(scores())]
    of_blocks: dict[str, Any] = {
        f"{i}.{name}": array for i, arrays in enumerate(packed) for name, array in arrays.items()
    }
    np.savez(
        folder / f"{unit.part.number}.npz",
        **of_blocks,
        n_blocks=len(packed),
        n_samples=n_samples,
        spectra=bandwidth.spectra,
        quality=quality.counts,
        second_at=np.array(list(stream.second), dtype=np.int64).reshape(-1, 2),
        second=np.array(list(stream.second.values())),
    )
    return (min(end, stream.n_samples) - start) / audio.sample_rate


def join_parts(
    detector: NoteDetector, audio: Recording, unit: Unit, take: Take, progress: Progress
) -> tuple[int, Facts]:
    """A whole recording from the files that `analyse_part` wrote; as `analyse`."""
    second: dict[tuple[int, int], np.ndarray] = {}
    spectra, counts, paths, n_samples = list[np.ndarray](), list[np.ndarray](), list[str](), -1
    for path in unit.parts:
        with _opened(path) as arrays:
            n_samples = int(arrays["n_samples"])
            places = ((start, end) for start, end in arrays["second_at"].tolist())
            second |= dict(zip(places, arrays["second"], strict=True))
            spectra.append(arrays["spectra"])
            counts.append(arrays["quality"])
        paths.append(path)
        if n_samples >= 0:
            break  # the recording ended here: it may have become shorter since
    whole = WholeStream(detector, audio.sample_rate, second, lambda first: audio.blocks(BLOCK_SAMPLES, first=first))
    for number, path in enumerate(paths):
        for block in _blocks(path, len(detector.classes_)):
            take(Found(block, whole.push(block)))
        progress(0.0, number / len(paths))
    take(Found(detector.score_stream(audio.sample_rate).none(), whole.finish(n_samples)))
    bandwidth, quality = Bandwidth.of_spectra(audio.sample_rate, spectra), Quality.of_parts(audio, counts)
    facts = judged(audio.facts, audio, detector, bandwidth, quality)
    return n_samples, changed_since(unit.before, facts, audio, n_samples)


def _sample(detector: NoteDetector, frame: int | None, rate: int) -> int:
    """The sample of the recording at which a frame starts."""
    if frame is None:
        return sys.maxsize
    return frame * detector.layout_.hop_samples * rate // detector.sample_rate_


def _by_minute(blocks: Iterable[ScoreBlock]) -> Iterator[ScoreBlock]:
    waiting: list[ScoreBlock] = []
    for block in blocks:
        if len(block):
            waiting.append(block)
        if sum(map(len, waiting)) >= PART_FRAMES:
            yield joined_scores(waiting)
            waiting = []
    if waiting:
        yield joined_scores(waiting)


def _blocks(path: str, n_classes: int) -> Iterator[ScoreBlock]:
    """The scores in the file of a part, about a minute at a time."""
    with _opened(path) as arrays:
        for number in range(int(arrays["n_blocks"])):
            names = [name for name in arrays.files if name.startswith(f"{number}.")]
            yield block_of({name.partition(".")[2]: arrays[name] for name in names}, n_classes)


@contextmanager
def _opened(path: str) -> Iterator[Any]:
    """The arrays in the file of a part."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            yield arrays
    except (OSError, ValueError, KeyError, IndexError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise DamagedPartError(
            f"{path}: a part of a recording that can no longer be read ({error!s:.200}); give the same command again, "
            "and its recording is worked on from its start"
        ) from error
