"""From the arguments of `outlark review` to a project: recordings, results of a detect run, or the demonstration.

Results become a run of the page, which follows them when `detect` is resumed or repeated.
"""

import json
import os
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from outlark.annotations import FORMATS, Annotation, read_annotations
from outlark.annotations.formats import WITH_LABELS
from outlark.audio.facts import Facts
from outlark.audio.sound_files import parts_in_common
from outlark.batch.journal import JOURNAL, LINE_DONE, LINE_FAILED, Journal, file_sha256, fingerprint, sha256_of
from outlark.batch.task import Source, common_folder, find
from outlark.data.demo_recordings import write_sound
from outlark.errors import InputError, OutlarkError, Problem
from outlark.files.io import cache_folder
from outlark.model_file import load
from outlark.plain_text import writable
from outlark.review import identity, runs, training
from outlark.review.project import (
    PROJECT_FILE,
    PROJECT_FOLDER,
    RUN_SHOWN,
    Project,
    ProjectRecording,
    insert_detections,
)
from outlark.review.store import Row, insert
from outlark.segments import Segment

#: Recordings of the demonstration.
DEMO_NAMES = ("demo_20240512_053000.wav", "demo_20240512_061500.wav")
#: How the remarks of a run from results begin.
FROM_RESULTS = "from the results in"


@dataclass(frozen=True)
class Opened:
    """A project, and the recordings that cannot be opened."""

    project: Project
    title: str
    problems: list[Problem]


@dataclass(frozen=True)
class DetectRun:
    """An output folder of `outlark detect`, and the lines of its journal: finished recordings by name, and failures."""

    folder: Path
    done: Mapping[str, Mapping[str, Any]]
    failed: Sequence[Problem]

    @classmethod
    def read(cls, folder: Path) -> "DetectRun":
        """The recordings are where they are now, if they were moved together with the results."""
        entries, done, failed = Journal(folder).entries, {}, []
        for name, entry in entries.items():
            if entry.get("state") == LINE_DONE:
                done[name] = {**entry, "path": str(_moved_along(Path(entry["path"]), folder, entry["file"]))}
            elif entry.get("state") == LINE_FAILED:
                failed.append(Problem(name, f"detect could not search it: {entry.get('message', '')}"))
        if not done:
            raise InputError(
                f"{folder} holds no finished results; run 'outlark detect' again, or review the recordings"
            )
        return cls(folder, done, failed)

    @property
    def identity(self) -> Mapping[str, Any]:
        """The model and the settings, which are the same for all recordings of a run."""
        identity: Mapping[str, Any] = next(iter(self.done.values()))["identity"]
        return identity

    @property
    def sha256(self) -> str | None:
        """Of the model."""
        return self.identity.get("model_sha256")

    def thresholds(self, labels: Sequence[str]) -> dict[str, float]:
        """As set for the run or fitted to its recordings, else 0: annotation files do not hold them."""
        found = dict.fromkeys(labels, 0.0)
        for name in ("calibrated", "thresholds"):
            given = self.identity.get(name) or []
            if len(given) == len(labels):
                found |= {label: float(t) for label, t in zip(labels, given, strict=True) if t is not None}
        return found

    def table(self, entry: Mapping[str, Any]) -> Path | None:
        """The most complete annotation file of a recording."""
        names = [name for format in WITH_LABELS for name in entry["outputs"] if name.endswith(FORMATS[format].suffix)]
        return next((self.folder / name for name in names if (self.folder / name).is_file()), None)

    def model_nearby(self) -> Path | None:
        """The model that made the results, if it is in their folder or beside it."""
        files = [*sorted(self.folder.glob("*.outlark")), *sorted(self.folder.absolute().parent.glob("*.outlark"))]
        return next((path for path in files if path.is_file() and sha256_of(path) == self.sha256), None)


def open_project(
    paths: Sequence[str | Path],
    project: Path | None = None,
    model: Path | None = None,
    audio: Sequence[Path] = (),
) -> Opened:
    """The project for these paths; without paths, the demonstration.

    Paths are recordings, folders of them, or one output folder of `outlark detect`; for the latter, `model` is the
    model that made the results, and `audio` are folders with the recordings that it was trained on. The project is kept
    in `project`, by default a folder "outlark-review" beside the recordings. Its own folder alone opens a project, too.
    """
    kept = Path(paths[0]) if len(paths) == 1 else project if not paths else None
    if kept is not None and (kept / PROJECT_FILE).is_file():
        return _opened(kept.name, kept, [])
    if not paths:
        folder = (cache_folder() / "demo") if project is None else project
        return _opened("Demonstration", folder / PROJECT_FOLDER, _demo(folder))
    found = [Path(path) for path in paths if (Path(path) / JOURNAL).is_file()]
    if found:
        if len(paths) > 1:
            raise InputError(f"{found[0]} holds the results of a run; review it on its own")
        return _results(found[0], project, model, audio)
    if model is not None:
        raise InputError("--model goes with the results of a detect run; give their folder")
    sources = find(paths)
    problems = list(sources.failures)
    files = [(_here(source), source.name) for source in sources.files]
    files = [(path, name) for path, name in files if PROJECT_FOLDER not in path.parts]
    base = common_folder([Path(path) for path in paths])
    title = base.name if len(files) != 1 else files[0][1]
    return _opened(title, project or base / PROJECT_FOLDER, files, problems)


def _here(source: Source) -> Path:
    if isinstance(source.path, str):
        raise InputError(f"{source.path} is not on this computer; the review page plays local files: copy it first")
    return source.path


def _results(folder: Path, project: Path | None, model: Path | None, audio: Sequence[Path]) -> Opened:
    """An output folder of `outlark detect`: recordings and detections."""
    run = DetectRun.read(folder)
    files = [(Path(entry["path"]), name) for name, entry in run.done.items()]
    opened = _opened(folder.name, project or folder / PROJECT_FOLDER, files)
    opened.problems.extend([*run.failed, *_import_results(opened.project, run, model, audio)])
    return opened


def _moved_along(path: Path, folder: Path, print: Mapping[str, Any]) -> Path:
    """Where a recording of a run is now, if it was moved together with the results; else where it was."""
    if path.exists():
        return path
    ends = [Path(*path.parts[-n:]) for n in range(1, len(path.parts))]
    near = (above / end for above in folder.absolute().parents for end in reversed(ends))
    same = identity.content(print)
    return next((one for one in near if one.is_file() and identity.content(fingerprint(one) or print) == same), path)


def _opened(title: str, folder: Path, files: Sequence[tuple[Path, str]], problems: Sequence[Problem] = ()) -> Opened:
    project = Project(folder)
    runs.sweep(project)
    found = [*problems, *project.remarks, *identity.register(project.store, folder, files)]
    if not project.recordings():
        project.close()
        raise InputError(f"no recording can be opened: {found[0].message}" if found else "no recordings given")
    run = project.run()
    if run is not None and run["state"] == RUN_SHOWN and run["model"] is not None:
        training.group(project, run["id"])  # what a killed process did not get to
    return Opened(project, writable(title), [Problem(writable(p.where), writable(p.message)) for p in found])


def _demo(folder: Path) -> list[tuple[Path, str]]:
    """The recordings of the demonstration, written if they are missing."""
    for seed, name in enumerate(DEMO_NAMES):
        write_sound(folder / name, seed)
    return [(folder / name, name) for name in DEMO_NAMES]


# ------------------------------------------------------------ results of detect


def _import_results(project: Project, run: DetectRun, model: Path | None, audio: Sequence[Path]) -> list[Problem]:
    """Store the annotation files of a run as a run of the page; returns those that could not be read.

    Only files that have changed since they were stored are read; what is from other folders stays. Results of another
    model, or with other settings, become a run of their own, which is shown from then on. With `model`, the recordings
    have to be searched again, which provides the scores. Without it, a model beside the results is used for retraining
    only.
    """
    identity = json.dumps(run.identity, sort_keys=True)
    known, here = _known(project, identity), str(run.folder.absolute())
    entries = {recording: run.done[name] for name, recording in _recordings(project, run).items()}
    tables = {one: table for one, entry in entries.items() if (table := run.table(entry)) is not None}
    digests = {str(recording.id): [here, file_sha256(table)] for recording, table in tables.items()}
    before: dict[str, list[str]] = {} if known is None else known["health"].get("results", {}).get("tables", {})
    others = {number: kept for number, kept in before.items() if kept[0] != here and number not in digests}
    if known is not None and {**others, **digests} == before:
        _show_results(project, known["id"])
        return []
    same = {one for one in tables if digests[str(one.id)][-1] == before.get(str(one.id), [""])[-1]}
    read, problems = _read({one: table for one, table in tables.items() if one not in same})
    labels = sorted({note.label for notes in read.values() for note in notes if note.label is not None})
    _add_classes(project, labels)
    run_id = _new_run(project, run, labels, model, audio) if known is None else known["id"]
    gone = [one for one in project.recordings() if str(one.id) in {*before} - {*others} - {*digests}]
    stored = others | {str(one.id): digests[str(one.id)] for one in {*read} | same}
    found = {one: read.get(one, []) for one in (*read, *gone)}
    _store(project, run_id, found, entries, labels, {"identity": identity, "tables": stored})
    _show_results(project, run_id, new=known is None)
    return problems


def _recordings(project: Project, run: DetectRun) -> dict[str, ProjectRecording]:
    """Name in the results → its recording: the one with its bytes, else the one where it was.

    Recordings of other folders may have the same name. Of copies it is the one where it was, or the nearest.
    """
    recordings = {recording.id: recording for recording in project.recordings()}
    at = {recording.path: recording for recording in recordings.values()}
    alike = defaultdict(list)
    for row in project.store.rows("SELECT * FROM recording"):
        alike[identity.row_content(row)].append(recordings[row["id"]])
    found = {}
    for name, entry in run.done.items():
        path = Path(os.path.realpath(entry["path"]))
        same, here = alike.get(identity.content(entry["file"]), []), at.get(path)
        if same and here not in same:
            here = max(same, key=lambda recording: parts_in_common(path, recording.path))
        if here is not None:
            found[name] = here
    return found


def _show_results(project: Project, run_id: int, *, new: bool = False) -> None:
    """Show these results, unless the page has trained a model since: then those of that model stay."""
    shown = project.run()
    if new or (shown is not None and any(said.startswith(FROM_RESULTS) for said in shown["remarks"])):
        runs.show(project, run_id, "results of detect")


def _known(project: Project, identity: str) -> Row | None:
    """The run that holds results of this model with these settings, or None."""
    every = [project.run(row["id"]) for row in project.store.rows("SELECT id FROM run ORDER BY id DESC")]
    same = (run for run in every if run and run["health"].get("results", {}).get("identity") == identity)
    return next(same, None)


def _read(tables: Mapping[ProjectRecording, Path]) -> tuple[dict[ProjectRecording, list[Annotation]], list[Problem]]:
    """The annotations in the file of each recording, and which could not be read."""
    read, problems = {}, []
    for recording, table in tables.items():
        try:
            read[recording] = list(read_annotations(table).annotations)
        except OutlarkError as error:
            problems.append(Problem(recording.name, str(error)))
    return read, problems


def _new_run(project: Project, run: DetectRun, labels: list[str], model: Path | None, audio: Sequence[Path]) -> int:
    """A run without results yet; its number."""
    thresholds, kept, given = run.thresholds(labels), None, None
    nearby = model or run.model_nearby()
    if nearby is not None:
        given, of_model = _model(project, nearby, run, audio)
        if model is not None:
            kept, thresholds = given["file"], of_model
        _add_classes(project, sorted(of_model))
    row = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"), "model": kept, "sha256": run.sha256,
        "classes": json.dumps(sorted(thresholds)), "thresholds": json.dumps(thresholds), "examples": "[]",
        "health": json.dumps({"priors": thresholds, "notes": {}, "given": given}),
        "remarks": json.dumps([f"{FROM_RESULTS} {run.folder}"]), "state": RUN_SHOWN,
    }  # fmt: skip
    with project.store.writing() as db:
        return insert(db, "run", row)


def _store(
    project: Project, run_id: int, found: Mapping[ProjectRecording, Sequence[Annotation]],
    entries: Mapping[ProjectRecording, Mapping[str, Any]], labels: Sequence[str], results: Mapping[str, Any],
) -> None:  # fmt: skip
    """Replace what a run holds of these recordings, and remember which files that was; verdicts stay as they are."""
    run, ids = project.run(run_id), project.class_ids()
    assert run is not None
    more = dict.fromkeys(set(labels) - set(run["classes"]), 0.0) if run["model"] is None else {}
    health = {**run["health"], "priors": {**run["health"]["priors"], **more}, "results": results}
    with project.store.writing() as db:
        for recording, annotations in found.items():
            runs.delete_found(db, run_id, recording.id)
            insert_detections(db, run_id, recording, ids, _segments(annotations, recording))
            entry = entries.get(recording, {})
            noticed = Facts(partial=entry.get("partial"), remarks=tuple(entry.get("remarks") or ())).all_remarks
            runs.mark_searched(db, run_id, recording, noticed, scores=bool(entry) and run["model"] is None)
        db.execute(
            "UPDATE run SET health = ?, classes = ?, thresholds = ? WHERE id = ?",
            (json.dumps(health), json.dumps(sorted({*run["classes"], *more})),
             json.dumps({**run["thresholds"], **more}), run_id),
        )  # fmt: skip


def _model(
    project: Project, path: Path, run: DetectRun, audio: Sequence[Path]
) -> tuple[dict[str, Any], dict[str, float]]:
    """The model of the results, copied into the project, for training it again; and its thresholds.

    "file" is the copy, "path" where it was given, "examples" how many it has of each class.
    """
    if sha256_of(path) != run.sha256:
        raise InputError(f"{path} is not the model that made these results; give that one, or none")
    detector = load(path)
    target = project.folder / "models" / "given.outlark"
    shutil.copyfile(path, target)
    pairs = zip(detector.classes_, detector.layout_.thresholds, strict=True)
    given = {
        "file": f"models/{target.name}", "path": str(path.absolute()), "name": path.name,
        "audio": [str(one.absolute()) for one in audio],
        "examples": dict(Counter(str(note["label"]) for note in detector.model_.training)),
    }  # fmt: skip
    return given, {str(label): float(threshold) for label, threshold in pairs}


def _add_classes(project: Project, labels: list[str]) -> None:
    known = project.class_ids()
    with project.store.action("classes of the results") as action:
        for label in labels:
            if label not in known:
                project.add_class(action, label)


def _segments(annotations: Iterable[Annotation], recording: ProjectRecording) -> Iterator[Segment]:
    """Of annotations that last, as far as the recording reaches."""
    for note in annotations:
        t0, t1 = (min(recording.n_samples, round(t * recording.sample_rate)) for t in (note.start_s, note.end_s))
        if t0 < t1:
            yield Segment(
                start=t0, end=t1, sample_rate=recording.sample_rate, label=note.label, verdict=note.implied_verdict,
                score=note.score or 0.0, runner_up=note.runner_up, runner_up_score=note.runner_up_score or 0.0,
                reason=note.reason, low_hz=note.low_hz, high_hz=note.high_hz,
            )  # fmt: skip
