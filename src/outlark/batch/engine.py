"""One file at a time: a recording, or the scores of one, becomes tables. This is where the model is."""

import hashlib
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import soundfile
from sklearn.base import clone

from outlark.aside import sync_folders
from outlark.batch.facts import Facts
from outlark.batch.fingerprint import Print, fingerprint
from outlark.batch.sources import Source
from outlark.batch.task import DECIDE, SCORES, Task, sha256_of
from outlark.errors import AudioError, InputError, ModelFileError
from outlark.field.bandwidth import Bandwidth, listens_up_to, remark_on_bandwidth
from outlark.model_file import load
from outlark.notes.audio import AudioFile, for_decoder
from outlark.notes.detector import BLOCK
from outlark.notes.formats import FORMATS, About, Mark, write_table
from outlark.notes.live import Found
from outlark.notes.scores_file import ScoreKeeper, load_scores
from outlark.notes.segments import Segment
from outlark.notes.state import state_of
from outlark.version import __version__

#: Called with the seconds of sound that are done, and the share of the file.
Progress = Callable[[float, float], None]


class Heard(NamedTuple):
    """What came of one file: the marks to write, the length of the recording, its channel, and what else to say."""

    marks: list[Mark]
    seconds: float
    channel: int | None
    facts: Facts


class Engine:
    """A model that is ready for the files of a task.

    Parameters
    ----------
    task : Task
    scratch : Path
        A folder of its own, for what is not finished; on the disk of the output folder.

    Raises
    ------
    OutlarkError
        When the model cannot be read, or the settings do not fit it.
    """

    def __init__(self, task: Task, scratch: Path) -> None:
        self.task, self._scratch, self._finished = task, scratch, scratch / "finished"
        self._detector = load(task.model)
        if sha256_of(task.model) != task.model_sha256:
            raise ModelFileError(f"{task.model}: was changed during the run; start again")
        self._decisions = clone(self._detector.decisions).set_params(**task.decisions)
        self._detector.set_params(decisions=self._decisions)
        self._thresholds = self._set_thresholds()
        # what does not fit, or needs a package that is not there, shows now and not with every recording
        state_of(self._detector)
        stage = self._detector.second_stage_
        if stage is not None:
            if task.keep_scores or task.verb == DECIDE:
                raise InputError(
                    f"{task.model}: a model with an embedding has to hear the candidates: scores cannot be kept and "
                    "decided on later; leave --keep-scores out, and detect again with other options"
                )
            stage.try_out(self._detector.sample_rate_)
        self._try_formats()

    def work(self, source: Source, progress: Progress) -> dict[str, Any]:
        """Write all tables of a file; they come to the output folder when all of them are complete.

        Returns
        -------
        dict
            "outputs": the files in the output folder by name, with their SHA-256; "segments": how many of each verdict
            were written; "seconds": length of the recording; "file": its fingerprint before it was read; "partial":
            why not all of it was analysed, or None; "remarks": what else is odd about it.
        """
        self._clean()
        self._finished.mkdir(parents=True)
        try:
            before = fingerprint(source.path)
            find = self._decide if self.task.verb == DECIDE else self._detect
            heard = find(source, before, progress)
            about = self._about(heard)
            marks = [heard.facts.on(mark) for mark in heard.marks]
            for name in self.task.formats:
                table = self._finished / (_stem(source) + FORMATS[name].suffix)
                write_table(table, marks, format=name, about=about)
            counts = Counter(str(mark.verdict) for mark in marks)
            said = {"partial": heard.facts.partial, "remarks": list(heard.facts.remarks)}
            done = {"segments": counts, "seconds": heard.seconds, "file": before, **said}
            return {"outputs": self._deliver(source), **done}
        finally:
            self._clean()

    def _detect(self, source: Source, before: Print, progress: Progress) -> Heard:
        task, audio = self.task, opened(source.path, self.task.channel)
        facts = Facts.of_file(source.path)
        told = soundfile.info(for_decoder(source.path)).frames  # a guess for MP3, good enough to tell how far
        expected = max(1, told)
        stream = self._detector.stream(audio.sample_rate)
        whose: dict[str, Any] = {"recording": source.name, "channel": task.channel, "model_sha256": task.model_sha256}
        keeper = ScoreKeeper(self._detector.layout_, audio.sample_rate, **whose) if task.keep_scores else None
        marks: list[Mark] = []

        def take(found: Found) -> None:
            marks.extend(self._marks(found.segments, source.name, task.channel))
            if keeper is not None:
                keeper.push(found.scores)

        bandwidth = Bandwidth(audio.sample_rate)
        for block in audio.blocks(BLOCK):
            take(stream.push(block))
            bandwidth.push(block)
            progress(stream.n_samples / audio.sample_rate, min(1.0, stream.n_samples / expected))
        take(stream.finish())
        seconds = stream.n_samples / audio.sample_rate
        listens_hz = listens_up_to(self._detector.front_end_)
        if listens_hz is not None:
            facts = facts.and_also(remark_on_bandwidth(audio.sample_rate, bandwidth.ends_hz(), listens_hz))
        after = fingerprint(source.path)
        if after != before:
            facts = replace(facts, partial=_changed(before, after, seconds))
        if keeper is not None:
            path, facts_kept = self._finished / (_stem(source) + SCORES), facts.as_dict()
            keeper.save(path, n_samples=stream.n_samples, n_model_samples=stream.n_model_samples, facts=facts_kept)
        return Heard(marks, seconds, task.channel, facts)

    def _decide(self, source: Source, before: Print, progress: Progress) -> Heard:
        kept = load_scores(source.path, self.task.model_sha256)
        facts = Facts.of_dict(kept.facts).and_also(kept.remark_on_edges(self._detector))
        marks = self._marks(kept.decide(self._detector), kept.recording or source.name, kept.channel)
        return Heard(list(marks), kept.n_samples / kept.sample_rate, kept.channel, facts)

    def _set_thresholds(self) -> dict[str, float]:
        """Set those of the task, and return them by name."""
        labels = self._detector.classes_.tolist()
        given = zip(labels, self.task.thresholds or [None] * len(labels), strict=True)
        chosen = {label: value for label, value in given if value is not None}
        if chosen:
            self._detector.set_thresholds(chosen)
        return {str(label): value for label, value in chosen.items()}

    def _marks(self, segments: Iterable[Segment], recording: str, channel: int | None) -> Iterator[Mark]:
        for segment in segments:
            if segment.verdict in self.task.verdicts:
                yield replace(Mark.from_segment(segment, recording), channel=channel)

    def _about(self, heard: Heard) -> About:
        """What a table tells of its making: all that its content depends on."""
        settings = {
            "decisions": self._decisions.get_params(),
            "channel": "mix" if heard.channel is None else heard.channel,
            "verdicts": list(self.task.verdicts),
        }
        if self._thresholds:
            settings["thresholds"] = self._thresholds
        return About(
            version=__version__,
            model_sha256=self.task.model_sha256,
            settings=settings,
            recording=heard.facts.as_dict(),
        )

    def _try_formats(self) -> None:
        self._finished.mkdir(parents=True, exist_ok=True)
        for name in self.task.formats:
            write_table(self._finished / FORMATS[name].suffix, [], format=name)
        self._clean()

    def _deliver(self, source: Source) -> dict[str, str]:
        """Move what is finished to where it belongs, once it is safe on the disk; names and digests."""
        folder = Path(self.task.output, source.name).parent
        folder.mkdir(parents=True, exist_ok=True)
        delivered = {}
        for file in sorted(self._finished.iterdir()):
            with file.open("rb+") as opened:
                digest = hashlib.file_digest(opened, "sha256").hexdigest()
                os.fsync(opened.fileno())
            os.replace(file, folder / file.name)
            delivered[(folder / file.name).relative_to(self.task.output).as_posix()] = digest
        sync_folders(folder, Path(self.task.output))  # the journal will say that they are there
        return delivered

    def _clean(self) -> None:
        shutil.rmtree(self._scratch, ignore_errors=True)


def opened(path: Path, channel: int | None) -> AudioFile:
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


def _changed(before: Print, after: Print, seconds: float) -> str:
    """That a recording is not what it was when it was opened."""
    sizes = [0 if known is None else known["size"] for known in (before, after)]
    how = "grew" if sizes[1] > sizes[0] else "shrank" if sizes[1] < sizes[0] else "changed"
    return (
        f"{how} while it was read: {sizes[0]} bytes before, {sizes[1]} after, {seconds:.3f} s of sound were heard; "
        "give the same command again when nobody writes to it any more"
    )


def _stem(source: Source) -> str:
    """What the results of a file are called, up to their suffix: `a.wav` and `a.flac` may lie beside each other."""
    return Path(source.name).name.removesuffix(SCORES)
