"""Runs of models over the recordings of a project: the one that is shown, and the one that is being made.

A new run is made beside the one that is shown, which people go on reviewing, and takes its place when it is complete.
This is an action like any other: undo returns to the run before, whose results are therefore kept. Whatever stops the
work on a new run, it vanishes and nothing else changes. If nothing is shown yet, a new run is shown from its start.
"""

import json
import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from outlark.batch.journal import LockedError, lock, sha256_of
from outlark.detection.detector import NoteDetector
from outlark.errors import InputError
from outlark.model_file import save
from outlark.review.clusters import delete_clusters
from outlark.review.project import RUN_IN_PROGRESS, RUN_SETTING, RUN_SHOWN, Project, ProjectRecording
from outlark.review.store import Row, insert

#: The number of no run: that of verdicts on detections that were replaced before the verdict came.
NO_RUN = 0


@contextmanager
def alone(project: Project) -> Iterator[None]:
    """While no other process makes a run of this project; the system ends this with the process, however that ends."""
    try:
        with lock(project.folder / "training.lock"):
            yield
    except LockedError:
        raise InputError("this project is being trained by another outlark review; wait for it, or cancel it") from None


def begin(
    project: Project, detector: NoteDetector, examples: Sequence[Row], health: Mapping[str, Any], remarks: Sequence[str]
) -> int:
    """A new run, in which nothing has been searched yet; `examples` are the annotations that its model has learnt."""
    labels = [str(label) for label in detector.classes_]
    priors = dict(zip(labels, map(float, detector.layout_.thresholds), strict=True))
    ids = project.class_ids()
    health = {"priors": priors, "class_ids": {label: ids[label] for label in labels if label in ids}, **health}
    before = project.run()
    row = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"), "classes": json.dumps(labels),
        "thresholds": json.dumps(priors), "health": json.dumps(health), "remarks": json.dumps(list(remarks)),
        "examples": json.dumps([[e["id"], e["class_id"], e["t0"], e["t1"]] for e in examples]),
        "state": RUN_SHOWN if before is None else RUN_IN_PROGRESS,
    }  # fmt: skip
    with project.store.writing() as db:
        run_id = insert(db, "run", row)
        name = f"models/run-{run_id}.outlark"
        save(detector, project.folder / name)
        db.execute(
            "UPDATE run SET model = ?, sha256 = ? WHERE id = ?", (name, sha256_of(project.folder / name), run_id)
        )
    found = "SELECT 1 FROM detection WHERE run_id = ? LIMIT 1"
    if before is not None and not before["scanned"] and project.store.value(found, before["id"]) is None:
        show(project, run_id)  # there is nothing to go on with meanwhile
    return run_id


def show(project: Project, run_id: int, kind: str = "train again") -> None:
    """Show this run from now on: an action that can be undone. The results that undo returns to are kept."""
    before = project.run()
    if before is None or before["id"] == run_id:
        return
    with project.store.action(kind) as action:
        project.set(action, RUN_SETTING, run_id)
        with project.store.writing() as db:
            db.execute("UPDATE run SET state = ? WHERE id = ?", (RUN_SHOWN, run_id))
    _forget_but(project, [run_id, before["id"]])


def _forget_but(project: Project, kept: Sequence[int]) -> None:
    """Delete the results of all other runs that their models can find again."""
    old = f"SELECT id FROM run WHERE id NOT IN ({', '.join('?' * len(kept))}) AND model IS NOT NULL"
    for row in project.store.rows(old, *kept):
        _delete_results(project, row["id"], "UPDATE run SET scanned = '[]' WHERE id = ?")


def discard(project: Project, run_id: int) -> None:
    """Delete a run that was not completed, unless it is shown."""
    run = project.run(run_id)
    if run is None or run["id"] != run_id or run["state"] != RUN_IN_PROGRESS:
        return
    _delete_results(project, run_id, "DELETE FROM run WHERE id = ?")
    if run["model"] is not None:
        (project.folder / run["model"]).unlink(missing_ok=True)


def _delete_results(project: Project, run_id: int, change_run: str) -> None:
    with project.store.writing() as db:
        for table in ("detection", "candidate"):
            db.execute(f"DELETE FROM {table} WHERE run_id = ?", (run_id,))
        delete_clusters(db, run_id)
        db.execute(change_run, (run_id,))
    shutil.rmtree(project.folder / "cache" / f"run-{run_id}", ignore_errors=True)


def delete_found(db: sqlite3.Connection, run_id: int, recording_id: int) -> None:
    """Delete what a run has found in a recording; verdicts that are on their way to it say what they are about."""
    db.execute("DELETE FROM detection WHERE run_id = ? AND recording_id = ?", (run_id, recording_id))


def mark_searched(
    db: sqlite3.Connection, run_id: int, recording: ProjectRecording, remarks: Sequence[str], *, scores: bool = True
) -> None:
    """A run has searched a recording, with these remarks on it; without `scores`, it is still to be searched."""
    scanned, heard = map(json.loads, db.execute("SELECT scanned, heard FROM run WHERE id = ?", (run_id,)).fetchone())
    scanned = sorted({*scanned, recording.id} if scores else {*scanned} - {recording.id})
    heard = {k: v for k, v in {**heard, str(recording.id): remarks}.items() if v}
    db.execute("UPDATE run SET scanned = ?, heard = ? WHERE id = ?", (json.dumps(scanned), json.dumps(heard), run_id))


def sweep(project: Project) -> None:
    """Delete runs that no process will complete, because it was killed."""
    try:
        with lock(project.folder / "training.lock"):
            for row in project.store.rows("SELECT id FROM run WHERE state = ?", RUN_IN_PROGRESS):
                discard(project, row["id"])
    except LockedError:
        pass  # another process is at work
