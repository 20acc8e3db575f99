"""One unit at a time: a recording, or its scores, becomes annotation files. This is where the model is."""

import hashlib
import os
import pickle
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from sklearn.base import clone

from outlark.annotations import FORMATS, About, Annotation, write_annotations
from outlark.annotations.provenance import FOLDER_ABOUT
from outlark.audio.recorder_metadata import Facts
from outlark.audio.sound import resampled_length
from outlark.batch.analysis import Progress, analyse, analyse_part, join_parts, opened
from outlark.batch.task import DECIDE, SCORES, Task, fingerprint, sha256_of
from outlark.batch.unit import Unit, parts_folder
from outlark.detection.scores_file import ScoreKeeper, load_scores
from outlark.detection.stream import Found
from outlark.errors import InputError, ModelFileError
from outlark.files.aside import flushed_later, sync_folders
from outlark.files.places import is_url
from outlark.segments import Segment
from outlark.storage.model_file import load, scoring_sha256
from outlark.version import __version__

#: Annotations written to disk together, and bytes up to which they stay in memory.
TOGETHER, IN_MEMORY = 1000, 2**22


class Spool(Collection[Annotation]):
    """Annotations in order, on disk if there are many; `finish` sets what is done to each when it is read.

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
        self.finish: Callable[[Annotation], Annotation] = lambda annotation: annotation

    def extend(self, annotations: Iterable[Annotation]) -> None:
        self._last.extend(annotations)
        if len(self._last) >= TOGETHER:
            pickle.dump(self._last, self._file, protocol=pickle.HIGHEST_PROTOCOL)
            self._n += len(self._last)
            self._last = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[Annotation]:
        return (self.finish(annotation) for batch in self._batches() for annotation in batch)

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


def deliver(finished: Path, task: Task, unit: Unit) -> dict[str, str]:
    """Move all files of a folder to where those of the unit belong; their names in the output folder, and digests.

    When this returns they are safe, and the journal may list them.
    """
    output, name = Path(task.output), unit.source.name
    folder = Path(output, name).parent if unit.part is None else parts_folder(task, name)
    folder.mkdir(parents=True, exist_ok=True)
    delivered = {}
    for file in sorted(finished.iterdir()):
        with file.open("rb+") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
            os.fsync(opened.fileno())
        os.replace(file, folder / file.name)
        if file.name != FOLDER_ABOUT:  # not of this recording alone
            delivered[(folder / file.name).relative_to(output).as_posix()] = digest
    sync_folders(folder, output)
    return delivered


def deliver_bytes(files: Mapping[str, bytes], scratch: Path, task: Task, unit: Unit) -> dict[str, str]:
    """The same for files by name, which came from elsewhere; `scratch` is deleted first."""
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    for name, blob in files.items():
        (scratch / name).write_bytes(blob)
    return deliver(scratch, task, unit)


class Engine:
    """A model, ready for the files of a task; OutlarkError if it cannot be read, or the settings do not fit it.

    `scratch` is a folder for unfinished work, of this engine alone, on the disk of the output folder.
    """

    def __init__(self, task: Task, scratch: Path) -> None:
        self.task, self._scratch, self._finished = task, scratch, scratch / "finished"
        self._detector = load(task.model)
        if sha256_of(task.model) != task.model_sha256:
            raise ModelFileError(f"{task.model}: was changed during the run; start again")
        self._decisions = clone(self._detector.decisions).set_params(**task.decisions)
        self._detector.set_params(decisions=self._decisions)
        self._thresholds = self._set_thresholds()
        # settings that do not fit, and missing packages, show now and not with every recording
        self._detector.try_out()
        stage = self._detector.second_stage_
        if stage is not None:
            if task.keep_scores or task.verb == DECIDE:
                raise InputError(
                    f"{task.model}: a model with an embedding needs the audio to decide, so scores cannot be kept for "
                    "later; omit --keep-scores, and run detect again to try other options"
                )
            stage.try_out(self._detector.sample_rate_)
        self._scoring = scoring_sha256(self._detector) if task.keep_scores or task.verb == DECIDE else None
        self._try_formats()

    @property
    def splits(self) -> bool:
        """Whether recordings can be split."""
        return self.task.verb != DECIDE and self._detector.grain is not None

    def work(self, unit: Unit, progress: Progress) -> dict[str, Any]:
        """Do a unit and move its files to the output folder once all are complete.

        Returns
        -------
        dict
            "outputs": files in the output folder by name, with their SHA-256; "seconds": length of the recording or
            part. For a recording also "segments": how many of each verdict; "file": its fingerprint before it was read;
            and `Facts.for_journal`.
        """
        with self.finished(unit, progress) as (done, folder):
            return {"outputs": deliver(folder, self.task, unit), **done}

    @contextmanager
    def finished(self, unit: Unit, progress: Progress) -> Iterator[tuple[dict[str, Any], Path]]:
        """The result of `work`, and a folder with the files, which is emptied at the end."""
        self._finished.mkdir(parents=True, exist_ok=True)
        self._clean()
        try:
            find = self._part if unit.part is not None else self._decide if self.task.verb == DECIDE else self._detect
            with Spool(self._scratch) as annotations, flushed_later():  # by `deliver`
                done = find(unit, progress, annotations)
            yield done, self._finished
        finally:
            self._clean()

    def _part(self, unit: Unit, progress: Progress, annotations: Spool) -> dict[str, Any]:
        assert unit.part is not None
        audio = opened(unit.source.path, self.task.channel)
        path = self._finished / f"{unit.part.number}.npz"
        return {"seconds": analyse_part(self._detector, audio, unit.part, path, progress)}

    def _detect(self, unit: Unit, progress: Progress, annotations: Spool) -> dict[str, Any]:
        task, source, audio = self.task, unit.source, opened(unit.source.path, self.task.channel)
        before = unit.before if unit.parts else fingerprint(source.path)
        where = None if is_url(source.path) else str(source.path)
        whose: dict[str, Any] = {"recording": source.name, "path": where, "channel": task.channel}
        whose |= {"model_sha256": task.model_sha256, "scoring_sha256": self._scoring}
        keeper = ScoreKeeper(self._detector.layout_, audio.sample_rate, **whose) if task.keep_scores else None

        def take(found: Found) -> None:
            annotations.extend(self._annotations(found.segments, source.name, task.channel))
            if keeper is not None:
                keeper.push(found.scores)

        if unit.parts:
            n, facts = join_parts(self._detector, audio, unit, take, progress)
        else:
            n, facts = analyse(self._detector, audio, take, progress, before)
        if keeper is not None:
            n_model = resampled_length(n, audio.sample_rate, self._detector.sample_rate_)
            path = self._finished / (_stem(unit) + SCORES)
            keeper.save(path, n_samples=n, n_model_samples=n_model, facts=facts.as_dict())
        seconds = n / audio.sample_rate
        written = self._written(unit, annotations, facts, task.channel, {source.name: where})
        return {"file": before, "seconds": seconds, **written}

    def _decide(self, unit: Unit, progress: Progress, annotations: Spool) -> dict[str, Any]:
        source, before = unit.source, fingerprint(unit.source.path)
        kept = load_scores(source.path, self.task.model_sha256, self._scoring)
        name = kept.recording or source.name
        annotations.extend(self._annotations(kept.decide(self._detector), name, kept.channel))
        facts = Facts.of_dict(kept.facts).and_also(kept.remark_on_edges(self._detector))
        seconds = kept.n_samples / kept.sample_rate
        written = self._written(unit, annotations, facts, kept.channel, {name: kept.path})
        return {"file": before, "seconds": seconds, **written}

    def _written(
        self, unit: Unit, annotations: Spool, facts: Facts, channel: int | None, places: Mapping[str, str | None]
    ) -> dict[str, Any]:
        """Write all annotation files; what the journal says about them.

        `places` says where the recording is, if that is known, for programs that open it.
        """
        annotations.finish = facts.on
        about, paths = self._about(facts, channel), {name: place for name, place in places.items() if place is not None}
        for name in self.task.formats:
            target = self._finished / (_stem(unit) + FORMATS[name].suffix)
            write_annotations(target, annotations, format=name, about=about, paths=paths)
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

    def _annotations(self, segments: Iterable[Segment], recording: str, channel: int | None) -> Iterator[Annotation]:
        for segment in segments:
            if segment.verdict in self.task.verdicts:
                yield replace(Annotation.from_segment(segment, recording), channel=channel)

    def _about(self, facts: Facts, channel: int | None) -> About:
        """Provenance: everything that the content of an annotation file depends on."""
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
        """Remove unfinished files; the folder stays, because making it takes as long as a short recording."""
        for file in self._finished.iterdir():
            file.unlink()


def _stem(unit: Unit) -> str:
    """The name of the results without their suffix; `a.wav` and `a.flac` may be in one folder."""
    return Path(unit.source.name).name.removesuffix(SCORES)
