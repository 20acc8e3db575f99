"""Requests about the model: training, detections, queues, calibration, thresholds, jobs."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Query, Response

from outlark.audio.sound_files import SUFFIXES
from outlark.errors import InputError
from outlark.review import actions, queues, training
from outlark.review.api import MOST, Id, Key, Start, Thresholds
from outlark.review.api.recordings import found
from outlark.review.overview import histograms, overview, speaking_for
from outlark.review.project import Job, Project
from outlark.storage.model_file import load

Answer = dict[str, Any]
#: The number of a run; without it, or if there is none of this number any more, the one that is shown.
Run = Annotated[int | None, Query(ge=0, le=MOST)]


def router(project: Project, title: str, problems: list[dict[str, str]]) -> APIRouter:
    """Requests about the project as a whole and its model."""
    routes = APIRouter()
    routes.include_router(_project_routes(project, title, problems))
    routes.include_router(_detection_routes(project))
    return routes


def _job(project: Project, number: int) -> Job:
    job = project.jobs.get(number)
    if job is None:
        raise HTTPException(404, f"there is no job {number}")
    return job


def _project_routes(project: Project, title: str, problems: list[dict[str, str]]) -> APIRouter:
    routes = APIRouter(prefix="/api", tags=["model"])

    @routes.get("/project")
    def whole(run: Run = None) -> Answer:
        found = [*problems, *project.missing()]
        about = {"id": project.store.identity(), "title": title, "problems": found, "sounds": SUFFIXES}
        return {**about, **overview(project, run)}

    @routes.get("/revision")
    def revision() -> Answer:
        """Changes when another tab has changed something; with the running job, and whether grouping is under way."""
        last = project.jobs.last
        job = None if last is None else last.as_dict()
        return {"revision": project.store.revision(), "job": job, "grouping": project.chores.running}

    @routes.post("/train", status_code=202)
    def train(body: Start) -> Answer:
        def work(job: Job) -> None:
            training.train(project, job, body.recording_id)

        return project.jobs.start("training", work).as_dict()

    @routes.post("/scan", status_code=202)
    def scan(body: Start) -> Answer:
        """Search the recordings that have not been searched yet."""
        run = project.run()
        if run is None or run["model"] is None:
            raise InputError("there is no model to search with; train one first")

        def work(job: Job) -> None:
            training.scan(project, job, run["id"], load(project.folder / run["model"]), body.recording_id)

        return project.jobs.start("searching", work).as_dict()

    @routes.get("/jobs/{job_id}")
    def job(job_id: Id) -> Answer:
        return _job(project, job_id).as_dict()

    @routes.delete("/jobs/{job_id}")
    def cancel(job_id: Id) -> Answer:
        running = _job(project, job_id)
        running.cancel()
        return running.as_dict()

    @routes.put("/thresholds")
    def thresholds(body: Thresholds, key: Key = None) -> Answer:
        """Move thresholds; `decide` applies them."""
        project.jobs.check_idle()
        return actions.once(project, key, lambda: actions.set_thresholds(project, body.values))

    @routes.post("/decide", status_code=202)
    def decide() -> Answer:
        """Apply the thresholds."""
        return project.jobs.start("deciding", lambda job: training.decide_again(project, job)).as_dict()

    @routes.get("/model", response_class=Response)
    def model() -> Response:
        """The model file, for `outlark detect`."""
        run = project.run()
        if run is None or run["model"] is None:
            raise HTTPException(404, "there is no model yet; train one first")
        content = (project.folder / run["model"]).read_bytes()
        headers = {"content-disposition": 'attachment; filename="model.outlark"', "cache-control": "no-store"}
        return Response(content, media_type="application/octet-stream", headers=headers)

    return routes


def _detection_routes(project: Project) -> APIRouter:
    routes = APIRouter(prefix="/api", tags=["model"])

    @routes.get("/recordings/{recording_id}/detections")
    def detections(recording_id: Id, run: Run = None) -> list[Answer]:
        found(project, recording_id)
        shown = project.run(run)
        if shown is None:
            return []
        rows = project.store.rows(
            "SELECT * FROM detection WHERE run_id = ? AND recording_id = ? ORDER BY t0", shown["id"], recording_id
        )
        return queues.with_statuses(project, rows)

    @routes.get("/recordings/{recording_id}/candidates")
    def candidates(recording_id: Id, run: Run = None) -> list[list[float]]:
        """What lower thresholds would find: class, start, end, score."""
        shown = project.run(run)
        rows = project.store.rows(
            "SELECT class_id, t0, t1, score FROM candidate WHERE run_id = ? AND recording_id = ? ORDER BY t0",
            -1 if shown is None else shown["id"], recording_id,
        )  # fmt: skip
        return [list(row.values()) for row in rows]

    @routes.get("/detections/{detection_id}/evidence")
    def evidence(detection_id: Id) -> list[Answer]:
        """The most influential examples of a detection."""
        row = project.store.row("SELECT * FROM detection WHERE id = ?", detection_id)
        if row is None:
            raise HTTPException(404, f"there is no detection {detection_id}")
        return speaking_for(project, row)

    @routes.get("/queue")
    def queue(
        order: Literal["uncertain", "random", "time"] = "uncertain",
        of: Annotated[str, Query(pattern=r"^(known|unknown|[0-9]{1,15})$")] = "known",
        limit: Annotated[int, Query(ge=1, le=20000)] = 500,
        after: Annotated[int | None, Query(ge=0, le=MOST)] = None,
        through: Annotated[int | None, Query(ge=0, le=MOST)] = None,
        run: Run = None,
    ) -> Answer:
        return queues.queue(project, order=order, of=of, limit=limit, after=after, through=through, run=run)

    @routes.get("/calibration")
    def calibration(run: Run = None) -> list[Answer]:
        """The distribution of the scores of each class of the model."""
        return histograms(project, run)

    return routes
