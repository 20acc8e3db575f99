"""What to review, in which order, what has been reviewed, and how good the model is according to that."""

import hashlib
import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query

from outlark.errors import InputError
from outlark.metrics.windows import wilson
from outlark.review.project import EMPTY_RUN, LARGEST_INTEGER, Answer, Asked, Current, Project, Run
from outlark.review.store import Row
from outlark.segments import Span

PENDING, CONFIRMED, REJECTED, RELABELLED, UNSURE = "pending", "confirmed", "rejected", "relabelled", "unsure"
routes = APIRouter(prefix="/api", tags=["results"])


def statuses(detections: Sequence[Row], annotations: Sequence[Row]) -> dict[int, str]:
    """The status of each detection of a recording, by id, from its annotations.

    A verdict is thus kept when a new model finds the same note again.

    >>> found = [{"id": 7, "t0": 0, "t1": 100, "class_id": 1}]
    >>> statuses(found, [{"t0": 5, "t1": 100, "class_id": 1, "role": "truth"}])
    {7: 'confirmed'}
    >>> statuses(found, [{"t0": 80, "t1": 180, "class_id": 1, "role": "truth"}])
    {7: 'pending'}
    """
    ordered = sorted(annotations, key=lambda a: a["t0"])
    starts = [a["t0"] for a in ordered]
    longest = max((a["t1"] - a["t0"] for a in ordered), default=0)
    found = {}
    for detection in detections:
        near = ordered[bisect_left(starts, detection["t0"] - longest) : bisect_left(starts, detection["t1"])]
        said = [_said(detection, a) for a in near if same_note(detection, a)]
        found[detection["id"]] = next((s for s in (CONFIRMED, RELABELLED, REJECTED, UNSURE) if s in said), PENDING)
    return found


def same_note(one: Row, other: Row) -> bool:
    """Whether two rows are of the same note, an annotation and a detection for example."""
    return Span(one["t0"], one["t1"]).is_same_note(Span(other["t0"], other["t1"]))


def _said(detection: Row, annotation: Row) -> str:
    same = detection["class_id"] == annotation["class_id"]
    if annotation["role"] == "unsure":
        return UNSURE
    if annotation["role"] == "negative":
        return REJECTED if same else PENDING
    return CONFIRMED if same else RELABELLED


@routes.get("/queue")
def queue(
    project: Current,
    order: Literal["uncertain", "random", "time"] = "uncertain",
    of: Annotated[str, Query(pattern=r"^(known|unknown|[0-9]{1,15})$")] = "known",
    limit: Annotated[int, Query(ge=1, le=20000)] = 500,
    after: Annotated[int | None, Query(ge=0, le=LARGEST_INTEGER)] = None,
    through: Annotated[int | None, Query(ge=0, le=LARGEST_INTEGER)] = None,
    run: Run = None,
) -> Answer:
    """A page of the detections in the order of review, over all recordings; counts are of all.

    It begins after the detection `after`, and reaches beyond `through` if that is not null; `more` says whether
    anything follows. The order does not depend on verdicts, so that pages fit together while they are being reviewed.
    """
    shown = project.run(run) or EMPTY_RUN
    rows = with_statuses(project, _found(project, shown, of))
    thresholds = {number: shown["thresholds"].get(name, 1.0) for number, name in project.class_names().items()}
    lowest = min((t for t in thresholds.values() if t > 0), default=1.0)  # for unknown sounds
    places = {recording.id: number for number, recording in enumerate(project.recordings())}
    for row in rows:
        row["ratio"] = row["score"] / (thresholds.get(row["class_id"]) or lowest)
        row["place"] = places.get(row["recording_id"], 0)
    rows.sort(key=lambda row: (ORDERS[order](row), row["id"]))
    at = {row["id"]: number for number, row in enumerate(rows)}
    if after is not None and after not in at:
        raise InputError("the queue has changed since; reload the page")
    first = 0 if after is None else at[after] + 1
    last = max(first, at.get(through, 0)) + limit
    reviewed = sum(row["status"] != PENDING for row in rows)
    return {"items": rows[first:last], "total": len(rows), "reviewed": reviewed, "more": last < len(rows)}


def _found(project: Project, run: Row, of: str) -> list[Row]:
    query = "SELECT * FROM detection WHERE run_id = ?"
    if of == "known":
        # notes of a class that was deleted since are of no class that could be confirmed
        return project.store.rows(f"{query} AND class_id IN (SELECT id FROM class)", run["id"])
    if of == "unknown":
        return project.store.rows(f"{query} AND class_id IS NULL", run["id"])
    return project.store.rows(f"{query} AND class_id = ?", run["id"], int(of))


def _random_key(row: Row) -> tuple[Any, ...]:
    """Random, but the same order every time."""
    text = f"{row['run_id']} {row['recording_id']} {row['t0']} {row['t1']}"
    return (hashlib.sha256(text.encode()).digest(),)


#: Sort keys of the orders of review.
ORDERS: dict[str, Callable[[Row], tuple[Any, ...]]] = {
    "uncertain": lambda row: (abs(math.log(max(row["ratio"], 1e-9))), row["place"], row["t0"]),
    "random": _random_key,
    "time": lambda row: (row["place"], row["t0"], row["t1"]),
}


@routes.get("/recordings/{recording_id}/detections")
def detections(recording: Asked, project: Current, run: Run = None) -> list[Answer]:
    shown = project.run(run) or EMPTY_RUN
    query = "SELECT * FROM detection WHERE run_id = ? AND recording_id = ? ORDER BY t0"
    return with_statuses(project, project.store.rows(query, shown["id"], recording.id))


@routes.get("/recordings/{recording_id}/candidates")
def candidates(recording: Asked, project: Current, run: Run = None) -> list[list[float]]:
    """What lower thresholds would find: class, start, end, score."""
    shown = project.run(run) or EMPTY_RUN
    query = "SELECT class_id, t0, t1, score FROM candidate WHERE run_id = ? AND recording_id = ? ORDER BY t0"
    return [list(row.values()) for row in project.store.rows(query, shown["id"], recording.id)]


def with_statuses(project: Project, detections: Sequence[Row]) -> list[Row]:
    """The rows, with the status of each."""
    of_recording: dict[int, list[Row]] = {}
    for row in detections:
        of_recording.setdefault(row["recording_id"], []).append(row)
    said: dict[int, str] = {}
    for number, rows in of_recording.items():
        annotations = project.store.rows(
            "SELECT * FROM annotation WHERE recording_id = ? AND t0 < ? AND t1 > ?",
            number, max(row["t1"] for row in rows), min(row["t0"] for row in rows),
        )  # fmt: skip
        said |= statuses(rows, annotations)
    return [{**row, "status": said[row["id"]]} for row in detections]


def precision(project: Project, run: Row) -> dict[str, Row]:
    """Class id → share of right detections among those reviewed in random order, with its 95 % limits.

    Only what was found by this run and still reaches the threshold counts; "cannot tell" is not a verdict.
    """
    found = {}
    for class_id, name in project.class_names().items():
        least = run["thresholds"].get(name, 0.0)
        own = [r for r in _randomly_judged(project, run, class_id) if r["score"] >= least]
        if own:
            found[str(class_id)] = _share("right", sum(r["verdict"] == "confirm" for r in own), len(own))
    return found


def missed(project: Project, run: Row) -> Row | None:
    """How many of the unknown sounds reviewed in random order were notes of a class that the model missed."""
    rows = _randomly_judged(project, run, None)
    return _share("missed", sum(r["new_class_id"] is not None for r in rows), len(rows)) if rows else None


def _randomly_judged(project: Project, run: Row, class_id: int | None) -> list[Row]:
    """Verdicts in random order on what is still among the results of a run: those may have been replaced since."""
    return project.store.rows(
        "SELECT * FROM review r WHERE run_id = ? AND queue = 'random' AND class_id IS ? AND verdict != 'unsure' AND "
        "EXISTS (SELECT 1 FROM detection d WHERE d.run_id = r.run_id AND d.recording_id = r.recording_id "
        "AND d.t0 = r.t0 AND d.t1 = r.t1)",
        run["id"], class_id,
    )  # fmt: skip


def _share(name: str, n: int, of: int) -> Row:
    low, high = wilson(n, of)
    return {name: n, "n": of, "low": low, "high": high}
