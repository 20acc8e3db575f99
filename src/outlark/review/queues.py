"""What to review, in which order, what has been reviewed, and how good the model is according to that."""

import hashlib
import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any

from outlark.errors import InputError
from outlark.metrics.windows import wilson
from outlark.review.project import Project
from outlark.review.store import Row
from outlark.segments import Span

#: What was judged is still among the results: they may have been replaced since.
STILL_FOUND = (
    "EXISTS (SELECT 1 FROM detection d WHERE d.run_id = review.run_id AND d.recording_id = review.recording_id "
    "AND d.t0 = review.t0 AND d.t1 = review.t1)"
)
PENDING, CONFIRMED, REJECTED, RELABELLED, UNSURE = "pending", "confirmed", "rejected", "relabelled", "unsure"


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


def queue(
    project: Project,
    *,
    order: str,
    of: str,
    limit: int,
    after: int | None = None,
    through: int | None = None,
    run: int | None = None,
) -> dict[str, Any]:
    """A page of the detections in the order of review, over all recordings; counts are of all.

    It begins after the detection `after`, and reaches beyond `through` if that is not null; `more` says whether
    anything follows. The order does not depend on verdicts, so that pages fit together while they are being reviewed.
    """
    shown = project.run(run)
    if shown is None:
        return {"items": [], "total": 0, "reviewed": 0, "more": False}
    rows = with_statuses(project, _found(project, shown, of))
    key = {"uncertain": _uncertainty, "random": _shuffled, "time": _time}[order]
    thresholds = {row["id"]: shown["thresholds"].get(row["name"], 1.0) for row in project.classes()}
    names = {recording.id: number for number, recording in enumerate(project.recordings())}
    for row in rows:
        row["ratio"] = row["score"] / _threshold(row, thresholds)
        row["place"] = names.get(row["recording_id"], 0)
    rows.sort(key=lambda row: (key(row), row["id"]))
    places = {row["id"]: place for place, row in enumerate(rows)}
    if after is not None and after not in places:
        raise InputError("the queue has changed since; reload the page")
    first = 0 if after is None else places[after] + 1
    last = max(first, places.get(through, 0)) + limit
    reviewed = sum(row["status"] != PENDING for row in rows)
    items = [_item(row) for row in rows[first:last]]
    return {"items": items, "total": len(rows), "reviewed": reviewed, "more": last < len(rows)}


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


def precision(project: Project, run: Row | None) -> dict[str, dict[str, Any]]:
    """Class id → share of right detections among those reviewed in random order, with its 95 % limits.

    Only what was found by this run and still reaches the threshold counts; "cannot tell" is not a verdict.
    """
    if run is None:
        return {}
    names = {row["id"]: row["name"] for row in project.classes()}
    rows = project.store.rows(
        f"SELECT * FROM review WHERE run_id = ? AND queue = 'random' AND {STILL_FOUND}", run["id"]
    )
    found: dict[str, dict[str, Any]] = {}
    for class_id, name in names.items():
        least = run["thresholds"].get(name, 0.0)
        own = [r for r in rows if r["class_id"] == class_id and r["verdict"] != UNSURE and r["score"] >= least]
        right = sum(r["verdict"] == "confirm" for r in own)
        if own:
            low, high = wilson(right, len(own))
            found[str(class_id)] = {"right": right, "n": len(own), "low": low, "high": high}
    return found


def missed(project: Project, run: Row | None) -> dict[str, Any] | None:
    """How many of the unknown sounds reviewed in random order were notes of a class that the model missed."""
    if run is None:
        return None
    rows = project.store.rows(
        "SELECT * FROM review WHERE run_id = ? AND queue = 'random' AND class_id IS NULL AND verdict != 'unsure' "
        f"AND {STILL_FOUND}",
        run["id"],
    )
    if not rows:
        return None
    n = sum(r["new_class_id"] is not None for r in rows)
    low, high = wilson(n, len(rows))
    return {"missed": n, "n": len(rows), "low": low, "high": high}


def _found(project: Project, run: Row, of: str) -> list[Row]:
    query = "SELECT * FROM detection WHERE run_id = ?"
    if of == "known":
        # notes of a class that was deleted since are of no class that could be confirmed
        return project.store.rows(f"{query} AND class_id IN (SELECT id FROM class)", run["id"])
    if of == "unknown":
        return project.store.rows(f"{query} AND class_id IS NULL", run["id"])
    return project.store.rows(f"{query} AND class_id = ?", run["id"], int(of))


def _threshold(row: Row, thresholds: dict[int, float]) -> float:
    """Of its class, or the lowest of all for unknown sounds."""
    own = thresholds.get(row["class_id"], 0.0)
    return own or min((t for t in thresholds.values() if t > 0), default=1.0)


def _uncertainty(row: Row) -> tuple[Any, ...]:
    return abs(math.log(max(row["ratio"], 1e-9))), row["place"], row["t0"]


def _shuffled(row: Row) -> tuple[Any, ...]:
    """Random, but the same order every time."""
    text = f"{row['run_id']} {row['recording_id']} {row['t0']} {row['t1']}"
    return hashlib.sha256(text.encode()).digest(), 0, 0


def _time(row: Row) -> tuple[Any, ...]:
    return row["place"], row["t0"], row["t1"]


def _item(row: Row) -> Row:
    names: Iterable[str] = (
        "id", "recording_id", "class_id", "verdict", "t0", "t1", "score", "ratio", "runner_up", "runner_up_score",
        "reason", "status", "low_hz", "high_hz",
    )  # fmt: skip
    return {name: row[name] for name in names}
