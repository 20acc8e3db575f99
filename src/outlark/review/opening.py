"""From the arguments of `outlark review` to a project: recordings, results of a detect run, or the demonstration."""

import json
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from outlark.annotations import Annotation, read_annotations
from outlark.batch.journal import DONE, NAME, Journal
from outlark.batch.sources import Source, common_folder, find
from outlark.batch.task import WORKSHOP, sha256_of
from outlark.data.demo_recordings import write_sound
from outlark.errors import InputError, OutlarkError
from outlark.files.places import cache_folder
from outlark.review.project import FOLDER, Project, Recording, insert_detections
from outlark.storage.model_file import load
from outlark.verdict_names import KNOWN, SILENCE, UNKNOWN

#: Recordings of the demonstration.
DEMO = ("demo_20240512_053000.wav", "demo_20240512_061500.wav")
#: Suffixes of annotation files, the most complete formats first.
ENDINGS = (".jsonl", ".parquet", ".outlark.csv", ".selections.txt", ".birdnet.csv", ".kaleidoscope.csv", ".labels.txt")


@dataclass(frozen=True)
class Opened:
    """A project, and the recordings that cannot be opened, each with "name" and "message"."""

    project: Project
    title: str
    problems: list[dict[str, str]]


def open_project(
    paths: Sequence[str | Path],
    project: Path | None = None,
    model: Path | None = None,
    audio: Sequence[Path] = (),
) -> Opened:
    """The project for these paths; without paths, the demonstration.

    Paths are recordings, folders of them, or one output folder of `outlark detect`; for the latter, `model` is the
    model that made the results, and `audio` are folders with the recordings that it was trained on. The project is kept
    in `project`, by default a folder "outlark-review" beside the recordings.
    """
    if not paths:
        folder = (cache_folder() / "demo") if project is None else project
        return _opened("Demonstration", folder / FOLDER, [(path, path.name) for path in make_demo(folder)])
    found = [Path(path) for path in paths if (Path(path) / WORKSHOP / NAME).is_file()]
    if found:
        if len(paths) > 1:
            raise InputError(f"{found[0]} holds the results of a run; review it on its own")
        return _results(found[0], project, model, audio)
    if model is not None:
        raise InputError("--model goes with the results of a detect run; give their folder")
    sources = find(paths)
    problems = [{"name": failure.name, "message": failure.message} for failure in sources.failures]
    files = [(_here(source), source.name) for source in sources.files]
    files = [(path, name) for path, name in files if FOLDER not in path.parts]
    base = common_folder([Path(path) for path in paths])
    title = base.name if len(files) != 1 else files[0][1]
    return _opened(title, project or base / FOLDER, files, problems)


def _here(source: Source) -> Path:
    if isinstance(source.path, str):
        raise InputError(f"{source.path} is not on this computer; the review page plays local files: copy it first")
    return source.path


def _results(folder: Path, project: Path | None, model: Path | None, audio: Sequence[Path]) -> Opened:
    """An output folder of `outlark detect`: recordings and detections."""
    entries = Journal(folder / WORKSHOP / NAME).entries
    done = {name: entry for name, entry in entries.items() if entry.get("state") == DONE}
    if not done:
        raise InputError(f"{folder} holds no finished results; run 'outlark detect' again, or review the recordings")
    opened = _opened(folder.name, project or folder / FOLDER, [(Path(e["path"]), name) for name, e in done.items()])
    if opened.project.run() is None:
        opened.problems.extend(import_found(opened.project, folder, done, model, audio))
    return opened


def _opened(
    title: str, folder: Path, files: Sequence[tuple[Path, str]], problems: Sequence[dict[str, str]] = ()
) -> Opened:
    opened, found = Project(folder), list(problems)
    for path, name in files:
        try:
            opened.add(path, name)
        except (OutlarkError, OSError) as error:
            found.append({"name": name, "message": str(error)})
    if not opened.recordings():
        opened.close()
        raise InputError(f"no recording can be opened: {found[0]['message']}" if found else "no recordings given")
    return Opened(opened, title, found)


def import_found(
    project: Project,
    folder: Path,
    done: Mapping[str, Mapping[str, Any]],
    model: Path | None = None,
    audio: Sequence[Path] = (),
) -> list[dict[str, str]]:
    """Store the annotation files of a run as a run of the page; returns those that could not be read.

    With `model`, the recordings have to be searched again, which provides the scores. Without it, a model beside the
    results is used for retraining only.
    """
    problems: list[dict[str, str]] = []
    recordings = {recording.name: recording for recording in project.recordings()}
    tables: list[tuple[Recording, list[Annotation]]] = []
    for name, entry in done.items():
        table = _table(folder, entry["outputs"])
        if name not in recordings or table is None:
            continue
        try:
            tables.append((recordings[name], list(read_annotations(table).annotations)))
        except OutlarkError as error:
            problems.append({"name": name, "message": str(error)})
    labels = sorted(
        {annotation.label for _, annotations in tables for annotation in annotations if annotation.label is not None}
    )
    _add_classes(project, labels)
    thresholds, kept, given = _thresholds(done, labels), None, None
    nearby = model or _model_nearby(folder, done)
    if nearby is not None:
        given, of_model = _model(project, nearby, done, audio)
        if model is not None:
            kept, thresholds = given["file"], of_model
            labels = sorted(thresholds)
        _add_classes(project, sorted(of_model))
    with project.store.writing() as db:
        cursor = db.execute(
            "INSERT INTO run (at, model, sha256, classes, thresholds, examples, health, remarks, scanned) "
            "VALUES (?, ?, ?, ?, ?, '[]', ?, ?, ?)",
            (
                datetime.now(UTC).isoformat(timespec="seconds"), kept, _sha256(done), json.dumps(labels),
                json.dumps(thresholds), json.dumps({"priors": thresholds, "notes": {}, "given": given}),
                json.dumps([f"from the results in {folder}"]), json.dumps([] if kept else [r.id for r, _ in tables]),
            ),
        )  # fmt: skip
        ids = project.class_ids()
        rows = [
            _row(int(cursor.lastrowid or 0), recording, annotation, ids)
            for recording, annotations in tables
            for annotation in annotations
        ]
        insert_detections(db, [row for row in rows if row is not None])
    return problems


def _model_nearby(folder: Path, done: Mapping[str, Mapping[str, Any]]) -> Path | None:
    """The model that made the results, if it is in their folder or beside it."""
    files = [*sorted(folder.glob("*.outlark")), *sorted(folder.absolute().parent.glob("*.outlark"))]
    return next((path for path in files if path.is_file() and sha256_of(path) == _sha256(done)), None)


def _model(
    project: Project, path: Path, done: Mapping[str, Mapping[str, Any]], audio: Sequence[Path]
) -> tuple[dict[str, Any], dict[str, float]]:
    """The model, copied into the project (see `training.given_model`), and its thresholds."""
    if sha256_of(path) != _sha256(done):
        raise InputError(f"{path} is not the model that made these results; give that one, or none")
    detector = load(path)
    target = project.folder / "models" / "given.outlark"
    shutil.copyfile(path, target)
    pairs = zip(detector.classes_, detector.layout_.thresholds, strict=True)
    given = {
        "file": f"models/{target.name}", "path": str(path.absolute()), "name": path.name,
        "audio": [str(one.absolute()) for one in audio],
        "examples": dict(Counter(str(note["label"]) for note in detector.training_)),
    }  # fmt: skip
    return given, {str(label): float(threshold) for label, threshold in pairs}


def _table(folder: Path, outputs: Mapping[str, str]) -> Path | None:
    for ending in ENDINGS:
        for name in outputs:
            if name.endswith(ending) and (folder / name).is_file():
                return folder / name
    return None


def _add_classes(project: Project, labels: list[str]) -> None:
    known = project.class_ids()
    new = [label for label in labels if label not in known]
    if new:
        with project.store.action("classes of the results") as action:
            for number, label in enumerate(new, start=len(known)):
                action.insert("class", name=label, colour=number % 8)


def _thresholds(done: Mapping[str, Mapping[str, Any]], labels: list[str]) -> dict[str, float]:
    """As set for the run, else 0: annotation files do not hold them."""
    given = next((entry["identity"].get("thresholds") for entry in done.values()), None)
    if given is not None and len(given) == len(labels):
        return dict(zip(labels, map(float, given), strict=True))
    return dict.fromkeys(labels, 0.0)


def _sha256(done: Mapping[str, Mapping[str, Any]]) -> str | None:
    return next((entry["identity"].get("model_sha256") for entry in done.values()), None)


def _row(run_id: int, recording: Recording, annotation: Annotation, ids: Mapping[str, int]) -> tuple[Any, ...] | None:
    verdict = annotation.verdict or (UNKNOWN if annotation.label is None else KNOWN)
    t0, t1 = (
        min(recording.n_samples, round(t * recording.sample_rate)) for t in (annotation.start_s, annotation.end_s)
    )
    if verdict == SILENCE or t1 <= t0:
        return None
    label = None if annotation.label is None else ids[annotation.label]
    return (run_id, recording.id, label, verdict, t0, t1, annotation.score or 0.0, annotation.runner_up,
            annotation.runner_up_score, annotation.reason, annotation.low_hz, annotation.high_hz)  # fmt: skip


def make_demo(folder: Path) -> list[Path]:
    """The recordings of the demonstration, written if they are missing."""
    paths = [folder / name for name in DEMO]
    for seed, path in enumerate(paths):
        write_sound(path, seed)
    return paths
