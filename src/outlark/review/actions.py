"""Actions of people on the page: annotate, review, name and promote classes, move thresholds, undo."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from outlark.errors import InputError
from outlark.review.project import RUN, Project, Recording, clean_name
from outlark.review.queues import same_note, with_statuses
from outlark.review.runs import NONE
from outlark.review.store import Action, Applied, Row

#: Origins of annotations from verdicts; a second verdict replaces them.
OF_REVIEWS = ("confirmed", "rejected", "relabelled", "unsure")
SHORTEST_SAMPLES = 16
PLACE = ("recording_id", "t0", "t1")
COLOURS = 8


class Gone(InputError):
    """There is nothing with the requested id."""


def once(project: Project, key: str | None, change: Callable[[], Row]) -> Row:
    """The outcome of a change with the revision before it: a page that knows another one has missed something.

    A change whose key is stored already is not made again: {"again": True}.
    """
    try:
        with project.store.once(key):
            before = project.store.revision()
            return {**change(), "before": before}
    except Applied:
        return {"again": True}


def annotate(
    project: Project, recording: Recording, class_id: int | None, t0: int, t1: int,
    low_hz: float | None = None, high_hz: float | None = None, role: str = "example",
) -> Row:  # fmt: skip
    """Annotate a note by hand."""
    t0, t1 = _span(recording, t0, t1)
    _class(project, class_id)
    with project.store.action("annotate") as action:
        action.insert(
            "annotation", recording_id=recording.id, class_id=class_id, t0=t0, t1=t1, low_hz=low_hz, high_hz=high_hz,
            role="truth" if class_id is None and role == "example" else role, origin="drawn",
        )  # fmt: skip
    return outcome(project, action.changes, "annotate")


def change(project: Project, annotation_id: int, values: Mapping[str, Any]) -> Row:
    """Move the edges of an annotation, or change its class."""
    row = _row(project, "annotation", annotation_id)
    recording = project.recording(row["recording_id"])
    assert recording is not None
    t0, t1 = _span(recording, values.get("t0", row["t0"]), values.get("t1", row["t1"]))
    new: dict[str, Any] = {"t0": t0, "t1": t1}
    if "class_id" in values:
        _class(project, values["class_id"])
        new["class_id"] = values["class_id"]
        new["role"] = "truth" if values["class_id"] is None else "example"
    with project.store.action("change") as action:
        action.update("annotation", annotation_id, **new)
    return outcome(project, action.changes, "change")


def remove(project: Project, annotation_id: int) -> Row:
    _row(project, "annotation", annotation_id)
    with project.store.action("delete") as action:
        action.delete("annotation", annotation_id)
    return outcome(project, action.changes, "delete")


def judge(
    project: Project, detection_id: int, verdict: str, class_id: int | None, queue: str, found: Row | None = None
) -> Row:
    """A verdict on a detection becomes an annotation, and replaces an earlier verdict.

    It is stored for the place in `found`, as the page showed it, if the detection has been replaced since.
    """
    found = _judged(project, detection_id, found)
    own = found["class_id"]
    if verdict == "relabel" and class_id is not None and class_id == own:
        verdict = "confirm"  # precision counts it as right
    label, role, origin = _meaning(project, own, verdict, class_id)
    near = project.store.rows(
        f"SELECT * FROM annotation WHERE recording_id = ? AND t0 < ? AND t1 > ? AND origin IN {OF_REVIEWS}",
        found["recording_id"], found["t1"], found["t0"],
    )  # fmt: skip
    place = {name: found[name] for name in PLACE}
    with project.store.action(f"review: {verdict}") as action:
        for before in near:
            if same_note(found, before):
                action.delete("annotation", before["id"])
        _forget_reviews(project, action, found)
        action.insert("annotation", **place, class_id=label, role=role, origin=origin)
        action.insert(
            "review", **place, run_id=found["run_id"], class_id=own, score=found["score"], verdict=verdict,
            new_class_id=label if origin == "relabelled" else None, queue=queue,
        )  # fmt: skip
    return outcome(project, action.changes, f"review: {verdict}")


def _judged(project: Project, detection_id: int, shown: Row | None) -> Row:
    """The detection that a verdict is about, else what the page showed of it, as a detection of no run."""
    if shown is None:
        return _row(project, "detection", detection_id)
    row = project.store.row("SELECT * FROM detection WHERE id = ?", detection_id)
    if row is not None and all(row[name] == shown[name] for name in (*PLACE, "class_id")):
        return row
    recording = project.recording(shown["recording_id"])
    if recording is None:
        raise Gone(f"there is no recording {shown['recording_id']} any more; reload the page")
    t0, t1 = _span(recording, shown["t0"], shown["t1"])
    return {**shown, "t0": t0, "t1": t1, "run_id": NONE}


def judge_all(project: Project, verdicts: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Verdicts in the order given, each an action of its own; {"error": …} for those that fail."""
    outcomes: list[Row] = []
    for verdict in verdicts:
        given = dict(verdict)
        key = given.pop("key", None)
        try:
            outcomes.append(once(project, key, partial(judge, project, **given)))
        except InputError as error:
            outcomes.append({"error": str(error)})
    return outcomes


def promote(project: Project, cluster_id: int, name: str, keep: Sequence[int] | None, k: int) -> Row:
    """Make a class of a group of unknown sounds: its k most central ones become examples."""
    _row(project, "cluster", cluster_id)
    members = project.store.rows("SELECT * FROM member WHERE cluster_id = ? ORDER BY distance, id", cluster_id)
    kept = [m for m in members if keep is None or m["id"] in set(keep)][:k]
    if not kept:
        raise InputError("no sound of the group is kept; keep at least one")
    name = clean_name(name, [row["name"] for row in project.classes()])
    with project.store.action(f"new class {name} from unknown sounds") as action:
        class_id = action.insert("class", name=name, colour=_next_colour(project))
        for member in kept:
            place = {key: member[key] for key in PLACE}
            action.insert("annotation", **place, class_id=class_id, role="example", origin="cluster")
    return outcome(project, action.changes, "promote")


def new_class(project: Project, name: str) -> Row:
    """A class without examples."""
    name = clean_name(name, [row["name"] for row in project.classes()])
    with project.store.action(f"new class {name}") as action:
        action.insert("class", name=name, colour=_next_colour(project))
    return outcome(project, action.changes, "new class")


def rename_class(project: Project, class_id: int, name: str) -> Row:
    row = _row(project, "class", class_id)
    name = clean_name(name, [other["name"] for other in project.classes() if other["id"] != class_id])
    with project.store.action(f"rename {row['name']}") as action:
        action.update("class", class_id, name=name)
    return outcome(project, action.changes, "rename")


def remove_class(project: Project, class_id: int) -> Row:
    """Delete a class and its annotations."""
    row = _row(project, "class", class_id)
    with project.store.action(f"delete class {row['name']}") as action:
        for annotation in project.store.rows("SELECT id FROM annotation WHERE class_id = ?", class_id):
            action.delete("annotation", annotation["id"])
        action.delete("class", class_id)
    return outcome(project, action.changes, "delete class")


def set_thresholds(project: Project, values: Mapping[int, float]) -> Row:
    """Set the thresholds of classes; `training.decide_again` then applies them."""
    run = project.run()
    if run is None:
        raise InputError("there is no model yet; train one first")
    names = {row["id"]: row["name"] for row in project.classes()}
    unknown = [number for number in values if names.get(number) not in run["classes"]]
    if unknown:
        raise InputError(f"the model does not know the class {names.get(unknown[0], unknown[0])!r}; train first")
    key = f"thresholds {run['id']}"
    wanted = json.dumps(project.wanted_thresholds(run) | {names[n]: float(v) for n, v in values.items()})
    known = project.store.row("SELECT id FROM setting WHERE name = ?", key)
    with project.store.action("move threshold") as action:
        if known is None:
            action.insert("setting", name=key, value=wanted)
        else:
            action.update("setting", known["id"], value=wanted)
    return outcome(project, action.changes, "move threshold")


def turn(project: Project, *, back: bool, of: str | None = None) -> Row:
    """Undo (the change with the key `of`) or redo; `kind` is None when there is nothing to undo or redo."""
    event = project.store.undo(of) if back else project.store.redo()
    if event is None:
        return {**outcome(project, [], None), "undone": back}
    changes = event["changes"]
    if back:
        changes = [{**c, "before": c["after"], "after": c["before"]} for c in changes[::-1]]
    return {**outcome(project, changes, event["kind"]), "undone": back}


def outcome(project: Project, changes: Sequence[Row], kind: str | None) -> Row:
    """What the page has to redraw after an action."""
    spans = [row for c in changes if c["table"] == "annotation" for row in (c["before"], c["after"]) if row]
    settled: dict[tuple[str, int], Row | None] = {(c["table"], c["id"]): c["after"] for c in changes}
    annotations = {number: row for (table, number), row in settled.items() if table == "annotation"}
    settings = {(c["after"] or c["before"])["name"] for c in changes if c["table"] == "setting"}
    return {
        "kind": kind,
        "annotations": [row for row in annotations.values() if row is not None],
        "removed": [number for number, row in annotations.items() if row is None],
        "classes": [c["after"] or c["before"] for c in changes if c["table"] == "class"],
        "place": _place(changes),
        "thresholds": bool(settings - {RUN}),
        "run": RUN in settings,
        "statuses": _statuses_near(project, spans),
        "revision": project.store.revision(),
    }


def _place(changes: Sequence[Row]) -> Row | None:
    """Where a verdict was given, or an annotation changed; None for changes of several."""
    rows = {(c["table"], c["id"]): c["after"] or c["before"] for c in changes}
    reviews = [row for (table, _), row in rows.items() if table == "review"]
    annotations = [row for (table, _), row in rows.items() if table == "annotation"]
    if not reviews and len(annotations) != 1:
        return None
    return {name: (reviews or annotations)[-1][name] for name in PLACE}


def _statuses_near(project: Project, spans: Sequence[Row]) -> dict[str, str]:
    """Detection id → status, for those that overlap the spans."""
    found: dict[int, Row] = {}
    for place in {(span["recording_id"], span["t1"], span["t0"]) for span in spans}:
        rows = project.store.rows(
            "SELECT * FROM detection WHERE run_id IN (SELECT id FROM run) AND recording_id = ? AND t0 < ? AND t1 > ?",
            *place,
        )
        found |= {row["id"]: row for row in rows}
    return {str(row["id"]): row["status"] for row in with_statuses(project, list(found.values()))}


def _forget_reviews(project: Project, action: Action, found: Row) -> None:
    """Delete earlier verdicts on a detection."""
    earlier = project.store.rows(
        "SELECT id FROM review WHERE run_id = ? AND recording_id = ? AND t0 = ? AND t1 = ?",
        found["run_id"], found["recording_id"], found["t0"], found["t1"],
    )  # fmt: skip
    for review in earlier:
        action.delete("review", review["id"])


def _meaning(project: Project, own: int | None, verdict: str, class_id: int | None) -> tuple[int | None, str, str]:
    """Class, role and origin of the annotation that a verdict makes."""
    if verdict == "relabel":
        if class_id is None:
            raise InputError("relabel needs the class of the note")
        _class(project, class_id)
        return class_id, "truth", "relabelled"
    if verdict == "unknown":
        return None, "truth", "relabelled" if own is not None else "confirmed"
    if verdict == "confirm":
        _class(project, own)  # it may have been deleted since the model was trained
    return own, {"confirm": "truth", "reject": "negative", "unsure": "unsure"}[verdict], {
        "confirm": "confirmed", "reject": "rejected", "unsure": "unsure"
    }[verdict]  # fmt: skip


def _span(recording: Recording, t0: int, t1: int) -> tuple[int, int]:
    t0, t1 = max(0, t0), min(recording.n_samples, t1)
    if t1 - t0 < SHORTEST_SAMPLES:
        raise InputError(f"samples {t0} to {t1} are too short for a note; annotate at least {SHORTEST_SAMPLES} samples")
    return t0, t1


def _class(project: Project, class_id: int | None) -> None:
    if class_id is not None:
        _row(project, "class", class_id)


def _row(project: Project, table: str, number: int) -> Row:
    row = project.store.row(f'SELECT * FROM "{table}" WHERE id = ?', number)
    if row is None:
        raise Gone(f"there is no {table} {number}; it may have been removed or replaced: reload the page")
    return row


def _next_colour(project: Project) -> int:
    used = [row["colour"] for row in project.classes()]
    return min(range(COLOURS), key=lambda colour: (used.count(colour), colour))
