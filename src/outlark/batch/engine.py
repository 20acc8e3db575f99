"""One unit at a time: a recording, a part of it, or its scores become files. This is where the model is."""

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
from outlark.audio.facts import Bandwidth, Facts, Quality, remark_on_bandwidth
from outlark.audio.recording import Recording
from outlark.audio.sound import resampled_length
from outlark.batch.journal import fingerprint, sha256_of
from outlark.batch.task import DECIDE, SCORES_SUFFIX, Fingerprint, Task, Unit
from outlark.detection.detector import BLOCK_SAMPLES, NoteDetector
from outlark.detection.scores_file import ScoreKeeper, load_scores
from outlark.detection.stream import Found
from outlark.errors import AudioError, InputError, ModelFileError, OutlarkError
from outlark.files.io import flushed_later, is_url, sync_folder
from outlark.model_file import load, scoring_sha256
from outlark.segments import Segment
from outlark.version import __version__

#: Gets the seconds of audio analysed so far, and the share of the unit.
Progress = Callable[[float, float], None]
#: Gets the findings, in order.
Take = Callable[[Found], None]
#: Annotations written to disk together, and bytes up to which they stay in memory.
SPOOLED_TOGETHER, SPOOL_BYTES = 1000, 2**22
#: Recordings whose files are flushed to disk at the same time.
FLUSHES = 50


class Engine:
    """A model, ready for the files of a task; OutlarkError if it cannot be read, or the settings do not fit it.

    `scratch` is a folder for unfinished work, of this engine alone, on the disk of the output folder.
    """

    def __init__(self, task: Task, scratch: Path) -> None:
        self.task, self._scratch, self._folder = task, scratch, scratch / "0"
        self._detector = load(task.model)
        if sha256_of(task.model) != task.model_sha256:
            raise ModelFileError(f"{task.model}: was changed during the run; start again")
        decisions = clone(self._detector.decisions).set_params(**task.decisions)
        self._detector.set_params(decisions=decisions)
        self._settings = {"decisions": decisions.get_params(), "channel": None, "verdicts": list(task.verdicts)}
        self._model = self._detector.model_
        self._set_thresholds(task.calibrated)
        self._try_out(task.keep_scores or task.verb == DECIDE)

    def _set_thresholds(self, calibrated: Sequence[float | None] | None) -> None:
        """Those set by hand, then those fitted to recordings, then those of the model."""
        labels = self._model.classes.tolist()
        none = (None,) * len(labels)
        both = zip(labels, self.task.thresholds or none, calibrated or none, strict=True)
        first = ((label, fitted if by_hand is None else by_hand) for label, by_hand, fitted in both)
        chosen = {label: value for label, value in first if value is not None}
        self._detector.model_ = self._model
        self._settings.pop("thresholds", None)
        if chosen:
            self._detector.set_thresholds(chosen)
            self._settings["thresholds"] = {str(label): value for label, value in chosen.items()}

    def _try_out(self, scores: bool) -> None:
        """Settings that do not fit, and missing packages, show now and not with every recording."""
        self._detector.try_out()
        stage = self._detector.second_stage_
        if stage is not None:
            if scores:
                raise InputError(
                    f"{self.task.model}: a model with an embedding needs the audio to decide, so scores cannot be kept "
                    "for later; omit --keep-scores, and run detect again to try other options"
                )
            stage.try_out(self._detector.sample_rate_)
        self._scoring = scoring_sha256(self._detector) if scores else None
        self._folder.mkdir(parents=True, exist_ok=True)
        for name in self.task.formats:
            write_annotations(self._folder / FORMATS[name].suffix, [], format=name)
        self._clean()

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
    ) -> Iterator[list["FinishedUnit"]]:
        """The results of units, each with a folder of its files, which is emptied at the end."""
        try:
            yield [self._find(unit, number, partial(progress, number)) for number, unit in enumerate(bundle)]
        finally:
            self._clean()

    def _clean(self) -> None:
        """Remove unfinished files; the folders stay, because making one takes as long as a short recording."""
        for file in self._scratch.glob("*/*"):
            file.unlink()

    def _find(self, unit: Unit, number: int, progress: Progress) -> "FinishedUnit":
        self._folder = self._scratch / str(number)
        find = self._part if unit.part is not None else self._decide if self.task.verb == DECIDE else self._detect

        def found() -> dict[str, Any]:
            self._folder.mkdir(parents=True, exist_ok=True)
            with Spool(self._scratch) as annotations, flushed_later():  # by `deliver`
                return find(unit, progress, annotations)

        return FinishedUnit(unit, outcome(unit, found), self._folder)

    def _part(self, unit: Unit, progress: Progress, annotations: "Spool") -> dict[str, Any]:
        from outlark.batch.parts import analyse_part

        audio = opened(unit.source.path, self.task.channel)
        return {"seconds": analyse_part(self._detector, audio, unit, self._folder, progress)}

    def _detect(self, unit: Unit, progress: Progress, annotations: "Spool") -> dict[str, Any]:
        task, source, audio = self.task, unit.source, opened(unit.source.path, self.task.channel)
        before = unit.before if unit.parts else fingerprint(source.path)
        where = None if is_url(source.path) else str(source.path)
        whose: dict[str, Any] = {"recording": source.name, "path": where, "channel": task.channel}
        whose |= {"model_sha256": task.model_sha256, "scoring_sha256": self._scoring, "calibrated": task.calibrated}
        keeper = ScoreKeeper(self._detector.layout_, audio.sample_rate, **whose) if task.keep_scores else None

        def take(found: Found) -> None:
            annotations.extend(self._annotations(found.segments, source.name, task.channel))
            if keeper is not None:
                keeper.push(found.scores)

        if unit.parts:
            from outlark.batch.parts import join_parts

            n, facts = join_parts(self._detector, audio, unit, take, progress)
        else:
            n, facts = analyse(self._detector, audio, take, progress, before)
        if keeper is not None:
            n_model = resampled_length(n, audio.sample_rate, self._detector.sample_rate_)
            path = self._folder / (_stem(unit) + SCORES_SUFFIX)
            keeper.save(path, n_samples=n, n_model_samples=n_model, facts=facts.as_dict())
        written = self._written(unit, annotations, facts, task.channel, {source.name: where})
        return {"file": before, "seconds": n / audio.sample_rate, **written}

    def _decide(self, unit: Unit, progress: Progress, annotations: "Spool") -> dict[str, Any]:
        source, before = unit.source, fingerprint(unit.source.path)
        kept = load_scores(source.path, self.task.model_sha256, self._scoring)
        name = kept.recording or source.name
        # of another model only the scores are the same
        as_kept = self.task.calibrated is None and kept.model_sha256 == self.task.model_sha256
        self._set_thresholds(kept.calibrated if as_kept else self.task.calibrated)
        annotations.extend(self._annotations(kept.decide(self._detector), name, kept.channel))
        facts = Facts.of_dict(kept.facts).and_also(kept.remark_on_edges(self._detector))
        written = self._written(unit, annotations, facts, kept.channel, {name: kept.path})
        return {"file": before, "seconds": kept.n_samples / kept.sample_rate, **written}

    def _annotations(self, segments: Iterable[Segment], recording: str, channel: int | None) -> Iterator[Annotation]:
        for segment in segments:
            if segment.verdict in self.task.verdicts:
                yield replace(Annotation.from_segment(segment, recording), channel=channel)

    def _written(
        self, unit: Unit, annotations: "Spool", facts: Facts, channel: int | None, places: Mapping[str, str | None]
    ) -> dict[str, Any]:
        """Write all annotation files; what the journal says about them.

        `places` says where the recording is, if that is known, for programs that open it.
        """
        annotations.finish = facts.on
        settings = {**self._settings, "channel": "mix" if channel is None else channel}
        whose = {"version": __version__, "model_sha256": self.task.model_sha256}
        about = About(**whose, settings=settings, recording=facts.as_dict())  # all that the content depends on
        paths = {name: place for name, place in places.items() if place is not None}
        for name in self.task.formats:
            target = self._folder / (_stem(unit) + FORMATS[name].suffix)
            write_annotations(target, annotations, format=name, about=about, paths=paths)
        counts = Counter(str(annotation.verdict) for annotation in annotations)
        return {"segments": counts, **facts.for_journal()}


def _stem(unit: Unit) -> str:
    """The name of the results without their suffix; `a.wav` and `a.flac` may be in one folder."""
    return Path(unit.source.name).name.removesuffix(SCORES_SUFFIX)


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
        self._file = tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES, dir=str(folder))  # noqa: SIM115
        self._last: list[Annotation] = []
        self._n = 0
        self.finish: Callable[[Annotation], Annotation] = lambda annotation: annotation

    def extend(self, annotations: Iterable[Annotation]) -> None:
        self._last.extend(annotations)
        if len(self._last) >= SPOOLED_TOGETHER:
            pickle.dump(self._last, self._file, protocol=pickle.HIGHEST_PROTOCOL)
            self._n += len(self._last)
            self._last = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[Annotation]:
        at, left = 0, self._n
        while left:
            self._file.seek(at)  # others may have read meanwhile
            batch = pickle.load(self._file)
            at, left = self._file.tell(), left - len(batch)
            yield from map(self.finish, batch)
        self._file.seek(0, 2)
        yield from map(self.finish, self._last)

    def __len__(self) -> int:
        return self._n + len(self._last)

    def __contains__(self, annotation: object) -> bool:
        return any(annotation == one for one in self)


# ------------------------------------------------------------- files of results


class DamagedPartError(OutlarkError):
    """The file of a part of a recording is missing or damaged."""


class FinishedUnit(NamedTuple):
    """A unit, its outcome, and the folder with its files."""

    unit: Unit
    what: dict[str, Any]
    folder: Path


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


def deliver(task: Task, finished: Sequence[FinishedUnit]) -> list[dict[str, Any]]:
    """Move the files of units to where they belong; the outcomes, with the names and digests of the files.

    When this returns the files are safely on disk, and the journal may list them. They are flushed at the same time,
    because a file system writes what waits for the disk together.
    """
    homes = [home_of(task, one.unit) for one in finished]
    with ThreadPoolExecutor(min(FLUSHES, len(finished))) as threads:
        flushed = list(threads.map(_flushed, finished, homes))
    outcomes = [_moved(task, one, home) for one, home in zip(flushed, homes, strict=True)]
    folders = {folder for home in homes for folder in (home, *home.parents)}
    for folder in folders:
        if folder.is_relative_to(task.output):
            sync_folder(folder)
    return outcomes


def home_of(task: Task, unit: Unit) -> Path:
    """The folder for the files of a unit."""
    return Path(task.output, unit.source.name).parent if unit.part is None else parts_folder(task, unit.source.name)


def parts_folder(task: Task, recording: str) -> Path:
    """Where the parts of a recording go; its own name may hold anything."""
    name = hashlib.sha256(recording.encode("utf-8", errors="surrogatepass")).hexdigest()[:16]
    return task.work_folder / "parts" / name


def _flushed(one: FinishedUnit, home: Path) -> FinishedUnit:
    """With its files on disk, and their digests by name as "outputs"."""

    def flush() -> dict[str, Any]:
        digests = {}
        for path in sorted(one.folder.iterdir()):
            if path.name == FOLDER_ABOUT and (home / path.name).exists() and cmp(path, home / path.name, shallow=False):
                continue  # another recording of the folder brought it
            with path.open("rb+") as file:
                digests[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
                os.fsync(file.fileno())
        return {"outputs": digests, **one.what["done"]}

    return one._replace(what=outcome(one.unit, flush)) if "done" in one.what else one


def _moved(task: Task, one: FinishedUnit, home: Path) -> dict[str, Any]:
    """The outcome of a unit once its files are in the output folder."""

    def move() -> dict[str, Any]:
        outputs = {}
        home.mkdir(parents=True, exist_ok=True)
        for name, digest in one.what["done"]["outputs"].items():
            os.replace(one.folder / name, home / name)
            if name != FOLDER_ABOUT:  # not of this recording alone
                outputs[(home / name).relative_to(task.output).as_posix()] = digest
        return {**one.what["done"], "outputs": outputs}

    return outcome(one.unit, move) if "done" in one.what else one.what


# ------------------------------------------------------------------- recordings


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


def analyse(
    detector: NoteDetector, audio: Recording, take: Take, progress: Progress, before: Fingerprint
) -> tuple[int, Facts]:
    """A whole recording, whose fingerprint was `before`: its number of samples, and what was noticed about it."""
    facts, stream = audio.facts, detector.stream(audio.sample_rate)
    bandwidth, quality = Bandwidth(audio.sample_rate), Quality(audio)
    for block in audio.blocks(BLOCK_SAMPLES, heard=quality.push):
        take(stream.push(block))
        bandwidth.push(block)
        progress(stream.n_samples / audio.sample_rate, min(1.0, stream.n_samples / max(1, audio.n_samples)))
    take(stream.finish())
    if not stream.n_samples:
        raise AudioError(f"{audio.path} holds no sound, only a header; get another copy if there is one")
    facts = judged(facts, audio, detector, bandwidth, quality)
    return stream.n_samples, changed_since(before, facts, audio, stream.n_samples)


def judged(facts: Facts, audio: Recording, detector: NoteDetector, bandwidth: Bandwidth, quality: Quality) -> Facts:
    """With what was noticed while the recording was analysed."""
    facts = replace(facts, quality=quality.remarks, counts=not quality.is_spoilt)
    if not detector.front_end_.is_sound:
        return facts
    up_to_hz = detector.front_end_.heard_hz[1]
    return facts.and_also(remark_on_bandwidth(audio.sample_rate, bandwidth.ends_hz(), up_to_hz))


def changed_since(before: Fingerprint, facts: Facts, audio: Recording, n_samples: int) -> Facts:
    """The facts of a recording that may have changed while it was read."""
    after = fingerprint(audio.path)
    if after == before:
        return facts
    sizes = [0 if known is None else known["size"] for known in (before, after)]
    how = "grew" if sizes[1] > sizes[0] else "shrank" if sizes[1] < sizes[0] else "changed"
    message = (
        f"{how} while it was read: {sizes[0]} bytes before, {sizes[1]} after, {n_samples / audio.sample_rate:.3f} s of "
        "sound were processed; run the same command again once the recording is complete"
    )
    return replace(facts, partial=message)
