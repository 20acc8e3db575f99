"""One unit at a time: a recording, or the scores of one, becomes tables. This is where the model is."""

import hashlib
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from sklearn.base import clone

from outlark.annotations import FORMATS, About, Annotation, write_annotations
from outlark.batch.facts import Facts
from outlark.batch.hearing import Progress, Spool, hear, hear_part, join_parts, opened
from outlark.batch.identity import fingerprint
from outlark.batch.task import DECIDE, SCORES, Task, sha256_of
from outlark.batch.unit import Unit, parts_folder
from outlark.detection.scores_file import ScoreKeeper, load_scores
from outlark.detection.stream import Found
from outlark.errors import InputError, ModelFileError
from outlark.files.aside import sync_folders
from outlark.segments import Segment
from outlark.storage.model_file import load
from outlark.version import __version__


def deliver(finished: Path, task: Task, unit: Unit) -> dict[str, str]:
    """Move all files of a folder to where those of a unit belong; their names in the output folder, and digests.

    The journal may say that they are there as soon as this returns.
    """
    output = Path(task.output)
    folder = Path(output, unit.source.name).parent
    if unit.part is not None:
        folder = task.workshop / "parts" / parts_folder(unit.source.name)
    folder.mkdir(parents=True, exist_ok=True)
    delivered = {}
    for file in sorted(finished.iterdir()):
        with file.open("rb+") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
            os.fsync(opened.fileno())
        os.replace(file, folder / file.name)
        delivered[(folder / file.name).relative_to(output).as_posix()] = digest
    sync_folders(folder, output)
    return delivered


def deliver_bytes(files: Mapping[str, bytes], scratch: Path, task: Task, unit: Unit) -> dict[str, str]:
    """The same for files that came from elsewhere, by name; `scratch` is a folder of one's own for a moment."""
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    for name, blob in files.items():
        (scratch / name).write_bytes(blob)
    return deliver(scratch, task, unit)


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
        self._detector.try_out()
        stage = self._detector.second_stage_
        if stage is not None:
            if task.keep_scores or task.verb == DECIDE:
                raise InputError(
                    f"{task.model}: a model with an embedding needs the audio to decide, so scores cannot be kept for "
                    "later; omit --keep-scores, and run detect again to try other options"
                )
            stage.try_out(self._detector.sample_rate_)
        self._try_formats()

    @property
    def splits(self) -> bool:
        """Whether parts of a recording can be worked on by themselves."""
        return self.task.verb != DECIDE and self._detector.grain is not None

    def work(self, unit: Unit, progress: Progress) -> dict[str, Any]:
        """Do a unit; its files come to the output folder when all of them are complete.

        Returns
        -------
        dict
            "outputs": the files in the output folder by name, with their SHA-256. For a part, "seconds": how long it
            is. For a recording: "segments": how many of each verdict were written; "seconds": its length; "file": its
            fingerprint before it was read; "partial": why not all of it was analysed, or None; "remarks": what else is
            odd about it; "began", "expansion" and "site": when it was made, and where, as far as that is known.
        """
        with self.finished(unit, progress) as (done, folder):
            return {"outputs": deliver(folder, self.task, unit), **done}

    @contextmanager
    def finished(self, unit: Unit, progress: Progress) -> Iterator[tuple[dict[str, Any], Path]]:
        """What `work` says of a unit, and a folder with its files, which is gone at the end."""
        self._clean()
        self._finished.mkdir(parents=True)
        try:
            find = self._part if unit.part is not None else self._decide if self.task.verb == DECIDE else self._detect
            with Spool(self._scratch) as annotations:
                done = find(unit, progress, annotations)
            yield done, self._finished
        finally:
            self._clean()

    def _part(self, unit: Unit, progress: Progress, annotations: Spool) -> dict[str, Any]:
        assert unit.part is not None
        audio = opened(unit.source.path, self.task.channel)
        path = self._finished / f"{unit.part.number}.npz"
        return {"seconds": hear_part(self._detector, audio, unit.part, path, progress)}

    def _detect(self, unit: Unit, progress: Progress, annotations: Spool) -> dict[str, Any]:
        task, source, audio = self.task, unit.source, opened(unit.source.path, self.task.channel)
        before = unit.before if unit.parts else fingerprint(source.path)
        whose: dict[str, Any] = {"recording": source.name, "channel": task.channel, "model_sha256": task.model_sha256}
        keeper = ScoreKeeper(self._detector.layout_, audio.sample_rate, **whose) if task.keep_scores else None

        def take(found: Found) -> None:
            annotations.extend(self._marks(found.segments, source.name, task.channel))
            if keeper is not None:
                keeper.push(found.scores)

        if unit.parts:
            heard = join_parts(self._detector, audio, unit, take, progress)
        else:
            heard = hear(self._detector, audio, take, progress, before)
        if keeper is not None:
            heard.save_scores(keeper, self._finished / (_stem(unit) + SCORES), self._detector.sample_rate_)
        return {"file": before, "seconds": heard.seconds, **self._written(unit, annotations, heard.facts, task.channel)}

    def _decide(self, unit: Unit, progress: Progress, annotations: Spool) -> dict[str, Any]:
        source, before = unit.source, fingerprint(unit.source.path)
        kept = load_scores(source.path, self.task.model_sha256)
        annotations.extend(self._marks(kept.decide(self._detector), kept.recording or source.name, kept.channel))
        facts = Facts.of_dict(kept.facts).and_also(kept.remark_on_edges(self._detector))
        seconds = kept.n_samples / kept.sample_rate
        return {"file": before, "seconds": seconds, **self._written(unit, annotations, facts, kept.channel)}

    def _written(self, unit: Unit, annotations: Spool, facts: Facts, channel: int | None) -> dict[str, Any]:
        """Write all tables; what there is to say of them."""
        annotations.finish(facts.on)
        about = self._about(facts, channel)
        for name in self.task.formats:
            write_annotations(
                self._finished / (_stem(unit) + FORMATS[name].suffix), annotations, format=name, about=about
            )
        counts = Counter(str(annotation.verdict) for annotation in annotations)
        return {"segments": counts, **facts.for_journal()}

    def _set_thresholds(self) -> dict[str, float]:
        """Set those of the task, and return them by name."""
        labels = self._detector.classes_.tolist()
        given = zip(labels, self.task.thresholds or [None] * len(labels), strict=True)
        chosen = {label: value for label, value in given if value is not None}
        if chosen:
            self._detector.set_thresholds(chosen)
        return {str(label): value for label, value in chosen.items()}

    def _marks(self, segments: Iterable[Segment], recording: str, channel: int | None) -> Iterator[Annotation]:
        for segment in segments:
            if segment.verdict in self.task.verdicts:
                yield replace(Annotation.from_segment(segment, recording), channel=channel)

    def _about(self, facts: Facts, channel: int | None) -> About:
        """What a table tells of its making: all that its content depends on."""
        settings = {
            "decisions": self._decisions.get_params(),
            "channel": "mix" if channel is None else channel,
            "verdicts": list(self.task.verdicts),
        }
        if self._thresholds:
            settings["thresholds"] = self._thresholds
        return About(
            version=__version__,
            model_sha256=self.task.model_sha256,
            settings=settings,
            recording=facts.as_dict(),
        )

    def _try_formats(self) -> None:
        self._finished.mkdir(parents=True, exist_ok=True)
        for name in self.task.formats:
            write_annotations(self._finished / FORMATS[name].suffix, [], format=name)
        self._clean()

    def _clean(self) -> None:
        shutil.rmtree(self._scratch, ignore_errors=True)


def _stem(unit: Unit) -> str:
    """What the results of a file are called, up to their suffix: `a.wav` and `a.flac` may lie beside each other."""
    return Path(unit.source.name).name.removesuffix(SCORES)
