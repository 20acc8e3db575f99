"""Requests that change annotations, classes and verdicts; undo."""

from collections.abc import Callable
from functools import partial
from typing import Any

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool

from outlark.review import actions
from outlark.review.api import (
    ChangedAnnotation,
    Id,
    Key,
    Name,
    NewAnnotation,
    NewName,
    Promotion,
    Undo,
    Verdict,
    Verdicts,
)
from outlark.review.api.recordings import found
from outlark.review.importing import import_table
from outlark.review.project import Project

Answer = dict[str, Any]


def router(project: Project) -> APIRouter:
    """Each request is one action that can be undone."""
    routes = APIRouter(prefix="/api", tags=["annotations"])

    def once(key: str | None, change: Callable[..., Answer], *args: Any, **given: Any) -> Answer:
        return actions.once(project, key, partial(change, project, *args, **given))

    @routes.get("/recordings/{recording_id}/annotations")
    def listed(recording_id: Id) -> list[Answer]:
        found(project, recording_id)
        return project.store.rows("SELECT * FROM annotation WHERE recording_id = ? ORDER BY t0, id", recording_id)

    @routes.post("/annotations", status_code=201)
    def annotate(body: NewAnnotation, key: Key = None) -> Answer:
        recording = found(project, body.recording_id)
        given = body.model_dump(exclude={"recording_id"})
        return once(key, actions.annotate, recording, **given)

    @routes.patch("/annotations/{annotation_id}")
    def change(annotation_id: Id, body: ChangedAnnotation, key: Key = None) -> Answer:
        given = body.model_dump(exclude_unset=True)
        given = {name: value for name, value in given.items() if value is not None or name == "class_id"}
        return once(key, actions.change, annotation_id, given)

    @routes.delete("/annotations/{annotation_id}")
    def remove(annotation_id: Id, key: Key = None) -> Answer:
        return once(key, actions.remove, annotation_id)

    @routes.post("/reviews", status_code=201)
    def judge(body: Verdict, key: Key = None) -> Answer:
        return once(key, actions.judge, **body.model_dump())

    @routes.post("/reviews/batch", status_code=201)
    def judge_all(body: Verdicts) -> Answer:
        """Several verdicts; each succeeds or fails by itself."""
        return {"outcomes": actions.judge_all(project, [verdict.model_dump() for verdict in body.verdicts])}

    @routes.post("/undo")
    def undo(body: Undo | None = None, key: Key = None) -> Answer:
        return once(key, actions.turn, back=True, of=None if body is None else body.of)

    @routes.post("/redo")
    def redo(key: Key = None) -> Answer:
        return once(key, actions.turn, back=False)

    @routes.post("/classes", status_code=201)
    def new_class(body: NewName, key: Key = None) -> Answer:
        return once(key, actions.new_class, body.name)

    @routes.patch("/classes/{class_id}")
    def rename(class_id: Id, body: NewName, key: Key = None) -> Answer:
        return once(key, actions.rename_class, class_id, body.name)

    @routes.delete("/classes/{class_id}")
    def remove_class(class_id: Id, key: Key = None) -> Answer:
        return once(key, actions.remove_class, class_id)

    @routes.get("/clusters/{cluster_id}")
    def members(cluster_id: Id) -> list[Answer]:
        return project.store.rows("SELECT * FROM member WHERE cluster_id = ? ORDER BY distance, id", cluster_id)

    @routes.post("/clusters/{cluster_id}/promote", status_code=201)
    def promote(cluster_id: Id, body: Promotion, key: Key = None) -> Answer:
        return once(key, actions.promote, cluster_id, body.name, body.keep, body.k)

    @routes.post("/recordings/{recording_id}/import", status_code=201)
    async def take_table(recording_id: Id, request: Request, name: Name = Query()) -> Answer:  # noqa: B008
        """An annotation file, as the body."""
        content = await request.body()
        recording = await run_in_threadpool(found, project, recording_id)
        return await run_in_threadpool(import_table, project, name, content, recording)

    return routes
