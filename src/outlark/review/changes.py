"""Changes that people make: annotate, judge, name and promote classes, move thresholds, undo. Each is one action."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import Field

from outlark.errors import InputError
from outlark.review.project import (
    RUN_SETTING,
    Answer,
    Asked,
    Body,
    Current,
    Id,
    IdempotencyKey,
    KeyField,
    Number,
    Project,
    ProjectRecording,
    clean_name,
)
from outlark.review.queues import same_note, with_statuses
from outlark.review.runs import NO_RUN
from outlark.review.store import Action, AppliedError, Row

#: Role and origin of the annotation that a verdict makes; a second verdict replaces it.
OF_VERDICT = {
    "confirm": ("truth", "confirmed"), "reject": ("negative", "rejected"), "unsure": ("unsure", "unsure"),
    "relabel": ("truth", "relabelled"), "unknown": ("truth", "relabelled"),
}  # fmt: skip
SHORTEST_SAMPLES = 16
PLACE = ("recording_id", "t0", "t1")
Hertz = Annotated[float, Field(ge=0, le=1e7, allow_inf_nan=False)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
routes = APIRouter(prefix="/api", tags=["changes"])


class NewAnnotation(Body):
    """A note annotated by hand."""

    recording_id: Number
    class_id: Number | None
    t0: Number
    t1: Number
    low_hz: Hertz | None = None
    high_hz: Hertz | None = None
    role: Literal["example", "truth", "negative"] = "example"


class ChangedAnnotation(Body):
    """New values of an annotation."""

    class_id: Number | None = None
    t0: Number | None = None
    t1: Number | None = None


class Judged(Body):
    """What a verdict is about: it is kept also if the detection was replaced before the verdict came."""

    recording_id: Number
    class_id: Number | None
    t0: Number
    t1: Number
    score: float


class Verdict(Body):
    """A person's verdict on a detection."""

    detection_id: Number
    found: Judged | None = None
    verdict: Literal["confirm", "reject", "relabel", "unknown", "unsure"]
    class_id: Number | None = None
    queue: Literal["uncertain", "random", "time"] = "time"
    key: KeyField = None


class VerdictBatch(Body):
    """Verdicts that were given faster than they were sent."""

    verdicts: list[Verdict] = Field(min_length=1, max_length=200)


class Undo(Body):
    """What to undo: the change with this key, or the last one."""

    of: KeyField = None


class NewName(Body):
    """The name of a class."""

    name: Name


class Promotion(Body):
    """A group of unknown sounds that becomes a class: its k most central ones become examples."""

    name: Name
    keep: list[Number] | None = Field(default=None, max_length=5000)
    k: int = Field(default=5, ge=1, le=60)


class Thresholds(Body):
    """Class id → threshold."""

    values: dict[int, Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]] = Field(min_length=1, max_length=1000)


@contextmanager
def changing(project: Project, key: str | None, kind: str) -> Iterator[Action]:
    """A change that is stored once, however often it comes; afterwards, `action.outcome` is what the page redraws.

    "before" is the revision before: a page that knows another one has missed something.
    """
    with project.store.once(key):
        before = project.store.revision()
        with project.store.action(kind) as action:
            yield action
        action.outcome = {**outcome(project, action.changes, action.kind), "before": before}


# ------------------------------------------------------------ annotations


@routes.get("/recordings/{recording_id}/annotations")
def annotations(recording: Asked, project: Current) -> list[Answer]:
    return project.store.rows("SELECT * FROM annotation WHERE recording_id = ? ORDER BY t0, id", recording.id)


@routes.post("/annotations", status_code=201)
def annotate(body: NewAnnotation, project: Current, key: IdempotencyKey = None) -> Answer:
    """Annotate a note by hand."""
    with changing(project, key, "annotate") as action:
        t0, t1 = _span(project.recording(body.recording_id), body.t0, body.t1)
        _check_class(project, body.class_id)
        role = "truth" if body.class_id is None and body.role == "example" else body.role
        action.insert("annotation", **{**body.model_dump(), "t0": t0, "t1": t1, "role": role, "origin": "drawn"})
    return action.outcome


@routes.patch("/annotations/{annotation_id}")
def change(annotation_id: Id, body: ChangedAnnotation, project: Current, key: IdempotencyKey = None) -> Answer:
    """Move the edges of an annotation, or change its class."""
    with changing(project, key, "change") as action:
        row = project.existing("annotation", annotation_id)
        edges = [row[name] if value is None else value for name, value in (("t0", body.t0), ("t1", body.t1))]
        t0, t1 = _span(project.recording(row["recording_id"]), *edges)
        new: dict[str, Any] = {"t0": t0, "t1": t1}
        if "class_id" in body.model_fields_set:
            _check_class(project, body.class_id)
            new |= {"class_id": body.class_id, "role": "truth" if body.class_id is None else "example"}
        action.update("annotation", annotation_id, **new)
    return action.outcome


@routes.delete("/annotations/{annotation_id}")
def remove(annotation_id: Id, project: Current, key: IdempotencyKey = None) -> Answer:
    with changing(project, key, "delete") as action:
        project.existing("annotation", annotation_id)
        action.delete("annotation", annotation_id)
    return action.outcome


def _span(recording: ProjectRecording, t0: int, t1: int) -> tuple[int, int]:
    t0, t1 = max(0, t0), min(recording.n_samples, t1)
    if t1 - t0 < SHORTEST_SAMPLES:
        raise InputError(f"samples {t0} to {t1} are too short for a note; annotate at least {SHORTEST_SAMPLES} samples")
    return t0, t1


def _check_class(project: Project, class_id: int | None) -> None:
    if class_id is not None:
        project.existing("class", class_id)


# ------------------------------------------------------------ verdicts


@routes.post("/reviews", status_code=201)
def judge(body: Verdict, project: Current, key: IdempotencyKey = None) -> Answer:
    """A verdict on a detection becomes an annotation, and replaces an earlier verdict.

    It is stored for the place in `found`, as the page showed it, if the detection has been replaced since.
    """
    with changing(project, key or body.key, "review") as action:
        found = _judged(project, body)
        verdict, label = _meaning(project, body, found["class_id"])
        action.kind = f"review: {verdict}"
        role, origin = OF_VERDICT[verdict]
        origin = "confirmed" if verdict == "unknown" and found["class_id"] is None else origin
        place = {name: found[name] for name in PLACE}
        _forget_verdicts(project, action, found)
        action.insert("annotation", **place, class_id=label, role=role, origin=origin)
        action.insert(
            "review", **place, run_id=found["run_id"], class_id=found["class_id"], score=found["score"],
            verdict=verdict, new_class_id=label if origin == "relabelled" else None, queue=body.queue,
        )  # fmt: skip
    return action.outcome


@routes.post("/reviews/batch", status_code=201)
def judge_all(body: VerdictBatch, project: Current) -> Answer:
    """Verdicts in the order given, each an action of its own; {"error": …} for those that fail."""
    outcomes: list[Row] = []
    for verdict in body.verdicts:
        try:
            outcomes.append(judge(verdict, project))
        except AppliedError:
            outcomes.append({"again": True})
        except InputError as error:
            outcomes.append({"error": str(error)})
    return {"outcomes": outcomes}


def _judged(project: Project, body: Verdict) -> Row:
    """The detection that a verdict is about, else what the page showed of it, as a detection of no run."""
    if body.found is None:
        return project.existing("detection", body.detection_id)
    shown = body.found.model_dump()
    row = project.store.row("SELECT * FROM detection WHERE id = ?", body.detection_id)
    if row is not None and all(row[name] == shown[name] for name in (*PLACE, "class_id")):
        return row
    t0, t1 = _span(project.recording(shown["recording_id"]), shown["t0"], shown["t1"])
    return {**shown, "t0": t0, "t1": t1, "run_id": NO_RUN}


def _meaning(project: Project, body: Verdict, own: int | None) -> tuple[str, int | None]:
    """The verdict, and the class of the annotation that it makes."""
    if body.verdict == "relabel":
        if body.class_id is None:
            raise InputError("relabel needs the class of the note")
        _check_class(project, body.class_id)
        return "confirm" if body.class_id == own else "relabel", body.class_id  # precision counts it as right
    if body.verdict == "confirm":
        _check_class(project, own)  # it may have been deleted since the model was trained
    return body.verdict, None if body.verdict == "unknown" else own


def _forget_verdicts(project: Project, action: Action, found: Row) -> None:
    """Delete earlier verdicts on a detection, and the annotations that they made."""
    origins = tuple({origin for _, origin in OF_VERDICT.values()})
    near = project.store.rows(
        f"SELECT * FROM annotation WHERE recording_id = ? AND t0 < ? AND t1 > ? AND origin IN {origins}",
        found["recording_id"], found["t1"], found["t0"],
    )  # fmt: skip
    for before in near:
        if same_note(found, before):
            action.delete("annotation", before["id"])
    earlier = project.store.rows(
        "SELECT id FROM review WHERE run_id = ? AND recording_id = ? AND t0 = ? AND t1 = ?",
        *(found[name] for name in ("run_id", *PLACE)),
    )
    for review in earlier:
        action.delete("review", review["id"])


# ------------------------------------------------------------ classes


@routes.post("/classes", status_code=201)
def new_class(body: NewName, project: Current, key: IdempotencyKey = None) -> Answer:
    """A class without examples."""
    with changing(project, key, "") as action:
        name = clean_name(body.name, project.class_ids())
        action.kind = f"new class {name}"
        project.add_class(action, name)
    return action.outcome


@routes.patch("/classes/{class_id}")
def rename_class(class_id: Id, body: NewName, project: Current, key: IdempotencyKey = None) -> Answer:
    with changing(project, key, "") as action:
        action.kind = f"rename {project.existing('class', class_id)['name']}"
        others = {name for name, number in project.class_ids().items() if number != class_id}
        action.update("class", class_id, name=clean_name(body.name, others))
    return action.outcome


@routes.delete("/classes/{class_id}")
def remove_class(class_id: Id, project: Current, key: IdempotencyKey = None) -> Answer:
    """Delete a class and its annotations."""
    with changing(project, key, "") as action:
        action.kind = f"delete class {project.existing('class', class_id)['name']}"
        for annotation in project.store.rows("SELECT id FROM annotation WHERE class_id = ?", class_id):
            action.delete("annotation", annotation["id"])
        action.delete("class", class_id)
    return action.outcome


@routes.get("/clusters/{cluster_id}")
def members(cluster_id: Id, project: Current) -> list[Answer]:
    return project.store.rows("SELECT * FROM member WHERE cluster_id = ? ORDER BY distance, id", cluster_id)


@routes.post("/clusters/{cluster_id}/promote", status_code=201)
def promote(cluster_id: Id, body: Promotion, project: Current, key: IdempotencyKey = None) -> Answer:
    """Make a class of a group of unknown sounds."""
    with changing(project, key, "") as action:
        project.existing("cluster", cluster_id)
        kept = [m for m in members(cluster_id, project) if body.keep is None or m["id"] in body.keep][: body.k]
        if not kept:
            raise InputError("no sound of the group is kept; keep at least one")
        name = clean_name(body.name, project.class_ids())
        action.kind = f"new class {name} from unknown sounds"
        class_id = project.add_class(action, name)
        for member in kept:
            place = {name: member[name] for name in PLACE}
            action.insert("annotation", **place, class_id=class_id, role="example", origin="cluster")
    return action.outcome


@routes.put("/thresholds")
def set_thresholds(body: Thresholds, project: Current, key: IdempotencyKey = None) -> Answer:
    """Move thresholds; `decide` applies them."""
    project.jobs.check_idle()
    with changing(project, key, "move threshold") as action:
        run, names = project.run(), project.class_names()
        if run is None:
            raise InputError("there is no model yet; train one first")
        unknown = [number for number in body.values if names.get(number) not in run["classes"]]
        if unknown:
            raise InputError(f"the model does not know the class {names.get(unknown[0], unknown[0])!r}; train first")
        wanted = project.wanted_thresholds(run) | {names[n]: value for n, value in body.values.items()}
        project.set(action, f"thresholds {run['id']}", wanted)
    return action.outcome


# ------------------------------------------------------------ undo, and what the page redraws


@routes.post("/undo")
def undo(project: Current, body: Undo | None = None, key: IdempotencyKey = None) -> Answer:
    return _moved_in_log(project, key, lambda: project.store.undo(None if body is None else body.of), undone=True)


@routes.post("/redo")
def redo(project: Current, key: IdempotencyKey = None) -> Answer:
    return _moved_in_log(project, key, project.store.redo, undone=False)


def _moved_in_log(project: Project, key: str | None, move: Callable[[], Row | None], *, undone: bool) -> Answer:
    """`kind` is None when there was nothing to undo or redo."""
    with project.store.once(key):
        before = project.store.revision()
        event = move() or {"kind": None, "changes": []}
        return {**outcome(project, event["changes"], event["kind"]), "undone": undone, "before": before}


def outcome(project: Project, changes: Sequence[Row], kind: str | None) -> Row:
    """What the page has to redraw after an action."""
    annotations: dict[int, Row | None] = {c["id"]: c["after"] for c in changes if c["table"] == "annotation"}
    settings = {(c["after"] or c["before"])["name"] for c in changes if c["table"] == "setting"}
    return {
        "kind": kind,
        "annotations": [row for row in annotations.values() if row is not None],
        "removed": [number for number, row in annotations.items() if row is None],
        "classes": [c["after"] or c["before"] for c in changes if c["table"] == "class"],
        "place": _place(changes),
        "thresholds": bool(settings - {RUN_SETTING}),
        "run": RUN_SETTING in settings,
        "statuses": _statuses_near(project, changes),
        "revision": project.store.revision(),
    }


def _place(changes: Sequence[Row]) -> Row | None:
    """Where a verdict was given, or an annotation changed; None for changes of several."""
    rows = {(c["table"], c["id"]): c["after"] or c["before"] for c in changes}
    reviews, notes = ([row for (table, _), row in rows.items() if table == of] for of in ("review", "annotation"))
    if not reviews and len(notes) != 1:
        return None
    return {name: (reviews or notes)[-1][name] for name in PLACE}


def _statuses_near(project: Project, changes: Sequence[Row]) -> dict[str, str]:
    """Detection id → status, for those that overlap annotations that were changed."""
    rows = [row for c in changes if c["table"] == "annotation" for row in (c["before"], c["after"]) if row]
    found: dict[int, Row] = {}
    for place in {(row["recording_id"], row["t1"], row["t0"]) for row in rows}:
        near = project.store.rows(
            "SELECT * FROM detection WHERE run_id IN (SELECT id FROM run) AND recording_id = ? AND t0 < ? AND t1 > ?",
            *place,
        )
        found |= {row["id"]: row for row in near}
    return {str(row["id"]): row["status"] for row in with_statuses(project, list(found.values()))}
