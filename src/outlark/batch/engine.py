"""One unit at a time: a recording, or its scores, becomes annotation files. This is where the model is."""

import hashlib
import os
import pickle
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from filecmp import cmp
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

from sklearn.base import clone

from outlark.annotations import FORMATS, About, Annotation, write_annotations
from outlark.annotations.formats import FOLDER_ABOUT
from outlark.audio.facts import Facts
from outlark.audio.sound import resampled_length
from outlark.batch.analysis import DamagedPartError, Progress, analyse, analyse_part, join_parts, opened
from outlark.batch.task import DECIDE, SCORES, Task, fingerprint, sha256_of
from outlark.batch.unit import Unit, parts_folder
from outlark.detection.scores_file import ScoreKeeper, load_scores
from outlark.detection.stream import Found
from outlark.errors import InputError, ModelFileError, OutlarkError
from outlark.files.io import flushed_later, is_url, sync_folder
from outlark.segments import Segment
from outlark.storage.model_file import load, scoring_sha256
from outlark.version import __version__

#: Annotations written to disk together, and bytes up to which they stay in memory.
TOGETHER, IN_MEMORY = 1000, 2**22
#: Recordings whose files are flushed to disk at the same time.
FLUSHES = 50


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


def outcome(unit: Unit, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The outcome of a unit; nothing that is wrong with one recording may stop the others."""
    path = unit.source.path
    try:
        return {"done": work()}
    except DamagedPartError as error:
        return {"failed": str(error), "damaged": True}
    except OutlarkError as error:
        return {"failed": str(error)}
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return {"failed": f"{where}{error.strerror or error}; free some space, or check that you may write there"}
    except MemoryError:
        return {"failed": f"{path}: not enough memory; use fewer jobs (-j)"}
    except Exception as error:
        return {"failed": f"{path}: {type(error).__name__}: {error}; please report this"}


class Finished(NamedTuple):
    """A unit, its outcome, and the folder with its files."""

    unit: Unit
    what: dict[str, Any]
    folder: Path


def deliver(task: Task, finished: Sequence[Finished]) -> list[dict[str, Any]]:
    """Move the files of units to where they belong; the outcomes, with the names and digests of the files.

    When this returns the files are safely on disk, and the journal may list them. They are flushed at the same time,
    because a file system writes what waits for the disk together.
    """
    with ThreadPoolExecutor(min(FLUSHES, len(finished))) as threads:
        flushed = list(threads.map(partial(_flushed, task), finished))
    outcomes = [_moved(task, one) for one in flushed]
    homes = {_home(task, one.unit) for one in flushed}
    for folder in {folder for home in homes for folder in (home, *home.parents) if folder.is_relative_to(task.output)}:
        sync_folder(folder)
    return outcomes


def _flushed(task: Task, one: Finished) -> Finished:
    """With its files on disk, and their digests by name as "outputs"."""

    def flush() -> dict[str, Any]:
        digests, home = {}, _home(task, one.unit)
        for path in sorted(one.folder.iterdir()):
            if path.name == FOLDER_ABOUT and (home / path.name).exists() and cmp(path, home / path.name, shallow=False):
                continue  # another recording of the folder brought it
            with path.open("rb+") as file:
                digests[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
                os.fsync(file.fileno())
        return {"outputs": digests, **one.what["done"]}

    return one._replace(what=outcome(one.unit, flush)) if "done" in one.what else one


def _moved(task: Task, one: Finished) -> dict[str, Any]:
    """The outcome of a unit once its files are in the output folder."""

    def move() -> dict[str, Any]:
        home, outputs = _home(task, one.unit), {}
        home.mkdir(parents=True, exist_ok=True)
        for name, digest in one.what["done"]["outputs"].items():
            os.replace(one.folder / name, home / name)
            if name != FOLDER_ABOUT:  # not of this recording alone
                outputs[(home / name).relative_to(task.output).as_posix()] = digest
        return {**one.what["done"], "outputs": outputs}

    return outcome(one.unit, move) if "done" in one.what else one.what


def _home(task: Task, unit: Unit) -> Path:
    """The folder for the files of a unit."""
    return Path(task.output, unit.source.name).parent if unit.part is None else parts_folder(task, unit.source.name)


class Engine:
    """A model, ready for the files of a task; OutlarkError if it cannot be read, or the settings do not fit it.

    `scratch` is a folder for unfinished work, of this engine alone, on the disk of the output folder.
    """

    def __init__(self, task: Task, scratch: Path) -> None:
        self.task, self._scratch, self._finished = task, scratch, scratch / "0"
        self._detector = load(task.model)
        if sha256_of(task.model) != task.model_sha256:
            raise ModelFileError(f"{task.model}: was changed during the run; start again")
        self._decisions = clone(self._detector.decisions).set_params(**task.decisions)
        self._detector.set_params(decisions=self._decisions)
        self._settings = self._decisions.get_params()
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

    def work(self, bundle: Sequence[Unit], progress: Callable[[int, float, float], None]) -> list[dict[str, Any]]:
        """Do units one after the other and move their files to the output folder once all are complete.

        Parameters
        ----------
        progress : function
            Gets the number of the unit in the bundle, the seconds of audio analysed in it, and the share of it.

        Returns
        -------
        list of dict
            For each unit ``{"failed": message}`` or ``{"done": …}`` with "outputs": files in the output folder by name,
            with their SHA-256; "seconds": length of the recording or part. For a recording also "segments": how many of
            each verdict; "file": its fingerprint before it was read; and `Facts.for_journal`.
        """
        with self.finished(bundle, progress) as finished:
            return deliver(self.task, finished)

    @contextmanager
    def finished(
        self, bundle: Sequence[Unit], progress: Callable[[int, float, float], None]
    ) -> Iterator[list[Finished]]:
        """The results of units, each with a folder of its files, which is emptied at the end."""
        try:
            yield [self._find(unit, number, partial(progress, number)) for number, unit in enumerate(bundle)]
        finally:
            self._clean()

    def _find(self, unit: Unit, number: int, progress: Progress) -> Finished:
        self._finished = self._scratch / str(number)
        find = self._part if unit.part is not None else self._decide if self.task.verb == DECIDE else self._detect

        def found() -> dict[str, Any]:
            self._finished.mkdir(parents=True, exist_ok=True)
            with Spool(self._scratch) as annotations, flushed_later():  # by `deliver`
                return find(unit, progress, annotations)

        return Finished(unit, outcome(unit, found), self._finished)

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
            "decisions": self._settings,
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
        """Remove unfinished files; the folders stay, because making one takes as long as a short recording."""
        for file in self._scratch.glob("*/*"):
            file.unlink()


def _stem(unit: Unit) -> str:
    """The name of the results without their suffix; `a.wav` and `a.flac` may be in one folder."""
    return Path(unit.source.name).name.removesuffix(SCORES)
