"""The results of a run of `outlark detect` as a project: what the tables say becomes detections to review."""

import json
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from outlark.annotations import Mark, read_table
from outlark.batch.task import sha256_of
from outlark.errors import InputError, OutlarkError
from outlark.review.project import Project, Recording
from outlark.storage.model_file import load
from outlark.verdict_names import KNOWN, SILENCE, UNKNOWN

#: Endings of tables, those that keep most first.
ENDINGS = (".jsonl", ".parquet", ".outlark.csv", ".selections.txt", ".birdnet.csv", ".kaleidoscope.csv", ".labels.txt")


def import_found(
    project: Project,
    folder: Path,
    done: Mapping[str, Mapping[str, Any]],
    model: Path | None = None,
    audio: Sequence[Path] = (),
) -> list[dict[str, str]]:
    """Store what the annotation files of a run say as a run of the page; return what could not be read.

    With the model, the recordings are still to be searched: only then are there scores to be seen. Without it, it is
    looked for beside the results. A model that is found is the one that corrections are fed back to.
    """
    problems: list[dict[str, str]] = []
    recordings = {recording.name: recording for recording in project.recordings()}
    tables: list[tuple[Recording, list[Mark]]] = []
    for name, entry in done.items():
        table = _table(folder, entry["outputs"])
        if name not in recordings or table is None:
            continue
        try:
            tables.append((recordings[name], list(read_table(table).marks)))
        except OutlarkError as error:
            problems.append({"name": name, "message": str(error)})
    labels = sorted({mark.label for _, marks in tables for mark in marks if mark.label is not None})
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
        rows = [_row(int(cursor.lastrowid or 0), recording, mark, ids) for recording, marks in tables for mark in marks]
        db.executemany(
            "INSERT INTO detection (run_id, recording_id, class_id, verdict, t0, t1, score, runner_up, "
            "runner_up_score, reason, low_hz, high_hz) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [row for row in rows if row is not None],
        )
    return problems


def _model_nearby(folder: Path, done: Mapping[str, Mapping[str, Any]]) -> Path | None:
    """The model that made the results, if it is in their folder or beside it."""
    files = [*sorted(folder.glob("*.outlark")), *sorted(folder.absolute().parent.glob("*.outlark"))]
    return next((path for path in files if path.is_file() and sha256_of(path) == _sha256(done)), None)


def _model(
    project: Project, path: Path, done: Mapping[str, Mapping[str, Any]], audio: Sequence[Path]
) -> tuple[dict[str, Any], dict[str, float]]:
    """What is known of the model, which is copied into the project (`training.given_model`), and its thresholds."""
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
    """Not in tables: 0 where a run did not set them."""
    given = next((entry["identity"].get("thresholds") for entry in done.values()), None)
    if given is not None and len(given) == len(labels):
        return dict(zip(labels, map(float, given), strict=True))
    return dict.fromkeys(labels, 0.0)


def _sha256(done: Mapping[str, Mapping[str, Any]]) -> str | None:
    return next((entry["identity"].get("model_sha256") for entry in done.values()), None)


def _row(run_id: int, recording: Recording, mark: Mark, ids: Mapping[str, int]) -> tuple[Any, ...] | None:
    verdict = mark.verdict or (UNKNOWN if mark.label is None else KNOWN)
    t0, t1 = (min(recording.n_samples, round(t * recording.sample_rate)) for t in (mark.start_s, mark.end_s))
    if verdict == SILENCE or t1 <= t0:
        return None
    label = None if mark.label is None else ids[mark.label]
    return (run_id, recording.id, label, verdict, t0, t1, mark.score or 0.0, mark.runner_up, mark.runner_up_score,
            mark.reason, mark.low_hz, mark.high_hz)  # fmt: skip
