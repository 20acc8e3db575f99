"""A recording, a part of one, or a recording from its parts, goes through the detector."""

import pickle
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np

from outlark.annotations import Annotation
from outlark.audio.resampling import resampled_length
from outlark.audio.sound import AudioFile
from outlark.batch.facts import Facts
from outlark.batch.identity import Print, fingerprint
from outlark.batch.part_file import PartFile, PartWriter
from outlark.batch.unit import Part, Unit
from outlark.detection.detector import BLOCK, NoteDetector
from outlark.detection.scores_file import ScoreKeeper
from outlark.detection.stream import Found, PartStream, WholeStream, first_frame
from outlark.errors import AudioError
from outlark.features.bandwidth import Bandwidth, listens_up_to, remark_on_bandwidth

#: Annotations that are put aside together, and bytes up to which they stay in memory.
TOGETHER, IN_MEMORY = 1000, 2**22


class Spool(Collection[Annotation]):
    """Annotations in order, for a ``with`` block; `finish` says what is to be done to each before it is given out.

    Examples
    --------
    >>> with Spool(Path(tempfile.gettempdir())) as spool:
    ...     spool.extend([Annotation(start_s=i, end_s=i + 1) for i in range(3)])
    ...     [annotation.start_s for annotation in spool], len(spool)
    ([0.0, 1.0, 2.0], 3)
    """

    def __init__(self, folder: Path) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY, dir=str(folder))  # noqa: SIM115
        self._last: list[Annotation] = []
        self._n = 0
        self._finish: Callable[[Annotation], Annotation] | None = None

    def extend(self, annotations: Iterable[Annotation]) -> None:
        """The next annotations."""
        self._last.extend(annotations)
        if len(self._last) >= TOGETHER:
            pickle.dump(self._last, self._file, protocol=pickle.HIGHEST_PROTOCOL)
            self._n += len(self._last)
            self._last = []

    def finish(self, change: Callable[[Annotation], Annotation]) -> None:
        """There will be no more."""
        self._finish = change

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[Annotation]:
        given = (annotation for batch in self._batches() for annotation in batch)
        return given if self._finish is None else map(self._finish, given)

    def __len__(self) -> int:
        return self._n + len(self._last)

    def __contains__(self, annotation: object) -> bool:
        return any(annotation == one for one in self)

    def _batches(self) -> Iterator[list[Annotation]]:
        at, left = 0, self._n
        while left:
            self._file.seek(at)  # others may have read meanwhile
            batch = pickle.load(self._file)
            at, left = self._file.tell(), left - len(batch)
            yield batch
        self._file.seek(0, 2)
        yield self._last


#: Called with the seconds of sound that are done, and the share of the unit.
Progress = Callable[[float, float], None]
#: Gets what is found, in order.
Take = Callable[[Found], None]


@dataclass(frozen=True)
class Heard:
    """A recording that was heard: its length, in samples at its own rate, and what there is to say of it as a whole."""

    n_samples: int
    sample_rate: int
    facts: Facts

    @property
    def seconds(self) -> float:
        return self.n_samples / self.sample_rate

    def save_scores(self, keeper: ScoreKeeper, path: Path, model_rate: int) -> None:
        """Write the scores that were kept."""
        n_model_samples = resampled_length(self.n_samples, self.sample_rate, model_rate)
        facts = self.facts.as_dict()
        keeper.save(path, n_samples=self.n_samples, n_model_samples=n_model_samples, facts=facts)


def hear(detector: NoteDetector, audio: AudioFile, take: Take, progress: Progress, before: Print) -> Heard:
    """A whole recording, which was so when it was begun."""
    facts = Facts.of_file(audio.path)
    stream = detector.stream(audio.sample_rate)
    bandwidth = Bandwidth(audio.sample_rate)
    for block in audio.blocks(BLOCK):
        take(stream.push(block))
        bandwidth.push(block)
        progress(stream.n_samples / audio.sample_rate, min(1.0, stream.n_samples / max(1, audio.n_samples)))
    take(stream.finish())
    heard = Heard(stream.n_samples, audio.sample_rate, facts)
    return _judged(heard, detector, bandwidth, before, audio)


def hear_part(detector: NoteDetector, audio: AudioFile, part: Part, path: Path, progress: Progress) -> float:
    """The scores of a part, to a file; how many seconds it lasts."""
    first, stop = _frames(detector, part)
    stream = PartStream(detector, audio.sample_rate, first, stop)
    begin, end = (_sample(detector, frame, audio.sample_rate) for frame in (first, stop))
    bandwidth = Bandwidth(audio.sample_rate, audio.n_samples, part=(begin, end), position=stream.first_sample)
    expected = max(1, min(end, audio.n_samples) - begin)
    with PartWriter(path) as writer:
        for block in audio.blocks(BLOCK, first=stream.first_sample):
            writer.add(stream.push(block))
            bandwidth.push(block)
            done = min(max(0, stream.n_samples - begin), expected)
            progress(done / audio.sample_rate, done / expected)
            if stream.complete:
                n_samples = None
                break
        else:
            writer.add(stream.finish())
            n_samples = stream.n_samples
        about = {"sample_rate": audio.sample_rate, "n_samples": n_samples}
        writer.finish(about, stream.second, bandwidth.spectra)
    return (min(end, stream.n_samples) - begin) / audio.sample_rate


def join_parts(detector: NoteDetector, audio: AudioFile, unit: Unit, take: Take, progress: Progress) -> Heard:
    """A whole recording from what `hear_part` has written of its parts."""
    parts = _up_to_the_end([PartFile(path) for path in unit.parts])
    second: dict[tuple[int, int], np.ndarray] = {}
    spectra: list[np.ndarray] = []
    for part in parts:
        of_part, powers = part.rest()
        second |= of_part
        spectra.append(powers)
    whole = WholeStream(detector, audio.sample_rate, second, lambda first: audio.blocks(BLOCK, first=first))
    for number, part in enumerate(parts):
        for block in part.blocks(len(detector.classes_)):
            take(Found(block, whole.push(block)))
        progress(0.0, number / len(parts))
    n_samples = parts[-1].about["n_samples"]
    take(Found(detector.score_stream(audio.sample_rate).none(), whole.finish(n_samples)))
    heard = Heard(n_samples, audio.sample_rate, Facts.of_file(audio.path))
    bandwidth = Bandwidth.of_spectra(audio.sample_rate, spectra)
    return _judged(heard, detector, bandwidth, unit.before, audio)


def opened(path: Path | str, channel: int | None) -> AudioFile:
    """The recording; the channel counted from 1."""
    audio = AudioFile(path)
    if channel is None:
        return audio
    if channel > audio.channels:
        raise AudioError(
            f"{path}: has {audio.channels} channel{'s' if audio.channels > 1 else ''}, but channel {channel} was asked "
            f"for; give mix, or a number from 1 to {audio.channels}"
        )
    return AudioFile(path, channel - 1)


def _judged(heard: Heard, detector: NoteDetector, bandwidth: Bandwidth, before: Print, audio: AudioFile) -> Heard:
    """With what is odd about the recording now that it was heard."""
    facts, listens_hz = heard.facts, listens_up_to(detector.front_end_)
    if listens_hz is not None:
        facts = facts.and_also(remark_on_bandwidth(audio.sample_rate, bandwidth.ends_hz(), listens_hz))
    after = fingerprint(audio.path)
    if after != before:
        facts = replace(facts, partial=_changed(before, after, heard.seconds))
    return replace(heard, facts=facts)


def _changed(before: Print, after: Print, seconds: float) -> str:
    """That a recording is not what it was when it was opened."""
    sizes = [0 if known is None else known["size"] for known in (before, after)]
    how = "grew" if sizes[1] > sizes[0] else "shrank" if sizes[1] < sizes[0] else "changed"
    return (
        f"{how} while it was read: {sizes[0]} bytes before, {sizes[1]} after, {seconds:.3f} s of sound were processed; "
        "run the same command again once the recording is complete"
    )


def _frames(detector: NoteDetector, part: Part) -> tuple[int, int | None]:
    """First frame of a part, and the one after its last."""
    begin_s, end_s = part.seconds
    return first_frame(detector, begin_s), None if end_s is None else first_frame(detector, end_s)


def _sample(detector: NoteDetector, frame: int | None, rate: int) -> int:
    """The sample of the recording at which a frame begins."""
    if frame is None:
        return sys.maxsize
    return frame * detector.layout_.hop_samples * rate // detector.sample_rate_


def _up_to_the_end(parts: Iterable[PartFile]) -> list[PartFile]:
    """Parts up to the one in which the recording ended: it may have become shorter meanwhile."""
    found: list[PartFile] = []
    for part in parts:
        found.append(part)
        if part.about["n_samples"] is not None:
            break
    return found
