"""From annotations to a trained model, and from a model to what it finds in all recordings of a project."""

import json
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from fastapi import APIRouter, HTTPException, Response

from outlark.annotations import Annotation
from outlark.audio.facts import Facts
from outlark.audio.sound import resampled_length
from outlark.batch.engine import analyse
from outlark.batch.journal import fingerprint, sha256_of
from outlark.commands.doctor import problems_of
from outlark.commands.train.examples import Example, Examples
from outlark.commands.train.learning import Learnt, learn
from outlark.commands.train.retraining import Parent, retrain
from outlark.detection.detector import NoteDetector
from outlark.detection.scores_file import KeptScores, ScoreKeeper, load_scores
from outlark.detection.stream import Found
from outlark.detection.thresholds import PEAKS_FROM
from outlark.errors import AudioError, InputError
from outlark.estimators.mddkm import MDDKM
from outlark.model_file import load, save
from outlark.review import runs
from outlark.review.clusters import find_clusters
from outlark.review.project import (
    EMPTY_RUN,
    RUN_GROUPED,
    Answer,
    Body,
    Current,
    Id,
    Job,
    Number,
    Project,
    ProjectRecording,
    insert_detections,
)
from outlark.review.store import Row
from outlark.review.tiles import CurveKeeper, save_curves
from outlark.segments import Segment

#: Roles of annotations that are examples, and of those that say what a sound is not.
EXAMPLE_ROLES, NEGATIVE_ROLE = ("example", "truth"), "negative"
#: Most examples of a class that are used: more take longer and add little.
MOST_EXAMPLES = 60
SCORES_FILE = "scores"
routes = APIRouter(prefix="/api", tags=["model"])


# ------------------------------------------------------------ requests


class Start(Body):
    """The recording to begin with."""

    recording_id: Number | None = None


@routes.post("/train", status_code=202)
def start_training(body: Start, project: Current) -> Answer:
    return project.jobs.start("training", lambda job: train(project, job, body.recording_id)).as_dict()


@routes.post("/scan", status_code=202)
def start_search(body: Start, project: Current) -> Answer:
    """Search the recordings that have not been searched yet."""
    run = _with_model(project)

    def work(job: Job) -> None:
        job.run = run["id"]
        failures = _search_all(project, job, run["id"], load(project.folder / run["model"]), body.recording_id)
        _afterwards(project, job, failures)

    return project.jobs.start("searching", work).as_dict()


@routes.post("/decide", status_code=202)
def start_deciding(project: Current) -> Answer:
    """Apply the thresholds."""
    return project.jobs.start("deciding", lambda job: _decide_again(project, job)).as_dict()


@routes.get("/jobs/{job_id}")
def job(job_id: Id, project: Current) -> Answer:
    return _job(project, job_id).as_dict()


@routes.delete("/jobs/{job_id}")
def cancel(job_id: Id, project: Current) -> Answer:
    running = _job(project, job_id)
    running.cancel()
    return running.as_dict()


def _job(project: Project, number: int) -> Job:
    if not 1 <= number <= len(project.jobs.all):
        raise HTTPException(404, f"there is no job {number}")
    return project.jobs.all[number - 1]


@routes.get("/model", response_class=Response)
def model(project: Current) -> Response:
    """The model file, for `outlark detect`."""
    content = (project.folder / _with_model(project)["model"]).read_bytes()
    headers = {"content-disposition": 'attachment; filename="model.outlark"', "cache-control": "no-store"}
    return Response(content, media_type="application/octet-stream", headers=headers)


def _with_model(project: Project) -> Row:
    run = project.run() or EMPTY_RUN
    if run["model"] is None:
        raise InputError("there is no model yet; train one first")
    return run


# ------------------------------------------------------------ training


def examples_of(project: Project) -> list[Row]:
    """The annotations that training uses as examples, by recording and time."""
    return _annotations(project, EXAMPLE_ROLES)


def _annotations(project: Project, roles: Sequence[str]) -> list[Row]:
    """Annotations that have a class, in these roles."""
    return project.store.rows(
        "SELECT a.*, c.name AS label FROM annotation a JOIN class c ON c.id = a.class_id "
        "JOIN recording r ON r.id = a.recording_id "
        f"WHERE a.role IN ({', '.join('?' * len(roles))}) ORDER BY r.path, a.t0, a.t1, c.name",
        *roles,
    )


def corrections_of(project: Project) -> list[Row]:
    """All annotations that training uses: examples, and what was rejected."""
    return _annotations(project, [*EXAMPLE_ROLES, NEGATIVE_ROLE])


def train(project: Project, job: Job, first: int | None = None) -> None:
    """Train on all annotations, then find notes in all recordings, starting with the one on the screen.

    If the project reviews the results of a known model, the examples of that model count as well. Until all recordings
    are searched, the results of the model before are shown.
    """
    with runs.alone(project):
        job.tell(0.02, "learning from the examples")
        learnt, begun = _learn(project)
        job.run = runs.begin(project, learnt.detector, **begun)
        job.tell(0.15, "learnt; the model is saved")
        try:
            failures = _search_all(project, job, job.run, learnt.detector, first)
            if failures and job.searched == 0:
                raise AudioError(_in_words(failures, job))
        except BaseException:
            runs.discard(project, job.run)
            raise
        runs.show(project, job.run)
    _afterwards(project, job, failures)


def _learn(project: Project) -> tuple[Learnt, dict[str, Any]]:
    """A model of all annotations, and what its run says about it: the examples, their health, and remarks."""
    rows, rejected = examples_of(project), _annotations(project, [NEGATIVE_ROLE])
    given = (project.run() or EMPTY_RUN)["health"].get("given")
    if not rows and not (given and rejected):
        raise InputError("there is nothing to learn from yet; mark a few notes of each class first")
    recordings = {recording.id: recording for recording in project.recordings()}
    known = {row["label"] for row in rows} | set(given["examples"] if given else ())
    notes = _notes(rows, recordings)
    negatives = _notes([row for row in rejected if row["label"] in known], recordings)
    new = Examples(notes=notes, clips=False, negatives=negatives)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        learnt = learn(new.at_most(MOST_EXAMPLES)) if given is None else _retrained(project, given, new)
    numbers = {id(note): row["id"] for row, note in zip(rows, notes, strict=True)}
    ids = [numbers.get(id(note)) for note in learnt.examples.notes]
    said = [*learnt.remarks, *(str(one.message) for one in caught if issubclass(one.category, UserWarning))]
    health = {"notes": _health_of(learnt.detector, ids), "ids": ids, "given": given}
    return learnt, {"examples": [*rows, *rejected], "health": health, "remarks": list(dict.fromkeys(said))}


def _retrained(project: Project, given: dict[str, Any], new: Examples) -> Learnt:
    """As `outlark train --from`: the examples of the given model, and the corrections."""
    file, path = project.folder / given["file"], Path(given["path"])
    parent = Parent(path=path if path.parent.is_dir() else file, sha256=sha256_of(file), detector=load(file))
    near = sorted({recording.path.parent for recording in project.recordings()})
    folders = [folder for folder in (*map(Path, given["audio"]), *near) if folder.is_dir()]  # some may have moved
    return retrain(parent, new, audio=folders, max_examples=MOST_EXAMPLES)


def _search_all(project: Project, job: Job, run_id: int, detector: NoteDetector, first: int | None) -> list[str]:
    """Search what has not been searched; why some recordings cannot be."""
    run = project.run(run_id)
    assert run is not None
    waiting = [r for r in project.recordings() if r.id not in run["scanned"]]
    waiting.sort(key=lambda r: r.id != first)
    total = sum(r.n_samples for r in waiting) or 1
    done, failures, job.recordings = 0, list[str](), len(waiting)
    for recording in waiting:

        def progress(part: float, start: int = done, recording: ProjectRecording = recording) -> None:
            share = (start + min(1.0, part) * recording.n_samples) / total
            job.tell(0.15 + 0.85 * share, f"searching {recording.name}")

        try:
            segments, kept = search(project, run_id, detector, recording, progress)
            _store_found(project, run, detector, recording, segments, kept)
            job.searched += 1
        except AudioError as error:
            failures.append(str(error))
        done += recording.n_samples
    return failures


def _in_words(failures: Sequence[str], job: Job) -> str:
    return f"{len(failures)} of {job.recordings} recordings could not be searched: {failures[0]}"


def _afterwards(project: Project, job: Job, failures: Sequence[str]) -> None:
    assert job.run is not None
    group(project, job.run)
    if failures:
        raise AudioError(_in_words(failures, job))


def group(project: Project, run_id: int) -> None:
    """In the background: group the unknown sounds of a run, and look for mistakes that its model is likely to make."""

    def work(job: Job) -> None:
        run = project.run(run_id)
        if run is None or run["id"] != run_id:
            return
        detector = load(project.folder / run["model"])
        find_clusters(project, run_id, detector, job)
        job.tell(0.9, "testing the model on sounds that are not notes")
        problems = list(map(str, problems_of(detector)))
        with project.store.writing() as db:
            said = json.dumps(list(dict.fromkeys([*run["remarks"], *problems])))
            db.execute("UPDATE run SET remarks = ?, state = ? WHERE id = ?", (said, RUN_GROUPED, run_id))

    project.chores.stop()
    project.chores.start("grouping", work)


def search(
    project: Project,
    run_id: int,
    detector: NoteDetector,
    recording: ProjectRecording,
    progress: Callable[[float], None],
) -> tuple[list[Segment], KeptScores]:
    """The segments of a recording; its scores and curves are kept in the cache."""
    audio, layout = recording.sound, detector.layout_
    keeper, curve, segments = ScoreKeeper(layout, audio.sample_rate), CurveKeeper(layout), list[Segment]()

    def take(found: Found) -> None:
        segments.extend(found.segments)
        keeper.push(found.scores)
        curve.push(found.scores)

    before = fingerprint(recording.path)
    n, facts = analyse(detector, audio, take, lambda seconds, share: progress(share), before)
    folder = project.run_folder(run_id, recording)
    save_curves(curve.curves(len(detector.classes_)), folder)
    spans = {"dt": layout.hop_samples / layout.sample_rate, "first": layout.offset_samples / layout.sample_rate}
    (folder / "spans.json").write_text(json.dumps(spans))
    n_model = resampled_length(n, audio.sample_rate, detector.sample_rate_)
    keeper.save(folder / SCORES_FILE, n_samples=n, n_model_samples=n_model, facts=facts.as_dict())
    return segments, load_scores(folder / SCORES_FILE)


def _store_found(
    project: Project, run: Row, detector: NoteDetector, recording: ProjectRecording,
    segments: Sequence[Segment], kept: KeptScores, *, decided: bool = False,
) -> None:  # fmt: skip
    """Replace the detections of a recording by these segments, and its candidates by those in its scores.

    `decided`: with other thresholds, which change neither the scores nor the candidates.
    """
    run_id, ids = run["id"], {**project.class_ids(), **run["health"].get("class_ids", {})}
    possible = [] if decided else _candidates(detector, kept)
    facts = Facts.of_dict(kept.facts).and_also(kept.remark_on_edges(detector) if decided else None)
    with project.store.writing() as db:
        runs.delete_found(db, run_id, recording.id)
        insert_detections(db, run_id, recording, ids, segments)
        if not decided:
            db.execute("DELETE FROM candidate WHERE run_id = ? AND recording_id = ?", (run_id, recording.id))
            db.executemany(
                "INSERT INTO candidate (run_id, recording_id, class_id, t0, t1, score) VALUES (?, ?, ?, ?, ?, ?)",
                [(run_id, recording.id, ids[str(s.label)], s.start, s.end, float(s.score)) for s in possible],
            )
        runs.mark_searched(db, run_id, recording, facts.all_remarks)


def _candidates(detector: NoteDetector, kept: KeptScores) -> list[Segment]:
    """Possible notes: segments that reach `PEAKS_FROM` times the thresholds of training."""
    lower = _with_thresholds(kept, np.asarray(kept.scores.layout.thresholds) * PEAKS_FROM)
    return [segment for segment in lower.decide(detector) if segment.label is not None]


def _with_thresholds(kept: KeptScores, thresholds: np.ndarray) -> KeptScores:
    return replace(kept, scores=replace(kept.scores, layout=replace(kept.scores.layout, thresholds=thresholds)))


def _decide_again(project: Project, job: Job) -> None:
    """Apply the chosen thresholds to all kept scores, and store them in the model file."""
    run = _with_model(project)
    detector = load(project.folder / run["model"])
    wanted = project.wanted_thresholds(run)
    detector.set_thresholds([wanted[str(label)] for label in detector.classes_.tolist()])
    recordings = [r for r in project.recordings() if r.id in run["scanned"]]
    for number, recording in enumerate(recordings):
        job.tell(0.9 * number / len(recordings), f"deciding on {recording.name}")
        kept = load_scores(project.run_folder(run["id"], recording) / SCORES_FILE)
        now = _with_thresholds(kept, detector.layout_.thresholds)
        _store_found(project, run, detector, recording, now.decide(detector), now, decided=True)
    path = project.folder / run["model"]
    save(detector, path)
    with project.store.writing() as db:
        db.execute(
            "UPDATE run SET thresholds = ?, sha256 = ? WHERE id = ?", (json.dumps(wanted), sha256_of(path), run["id"])
        )


def _notes(rows: Iterable[Row], recordings: dict[int, ProjectRecording]) -> tuple[Example, ...]:
    notes = []
    for row in rows:
        recording = recordings[row["recording_id"]]
        rate = recording.sample_rate
        annotation = Annotation(
            start_s=row["t0"] / rate, end_s=row["t1"] / rate, label=row["label"], low_hz=row["low_hz"],
            high_hz=row["high_hz"], sample_rate=rate,
        )  # fmt: skip
        notes.append(
            Example(label=row["label"], recording=recording.path, annotation=annotation, table=Path("the review page"))
        )
    return tuple(notes)


def _health_of(detector: NoteDetector, ids: Sequence[int | None]) -> dict[str, dict[str, str]]:
    """Annotation id → what is odd about it, for those that are.

    `ids` are those of the training notes, in the order of the training record; None for notes of a given model.
    """
    found: dict[str, dict[str, str]] = {}
    if not isinstance(detector.class_model_, MDDKM) or len(ids) != len(detector.model_.training):
        return found
    judged = {note.note: note for note in detector.class_model_.health().notes}
    for number, annotation in enumerate(ids):
        note, problem = judged.get(number), ""
        if note is None:
            problem = "unlike the other examples; it was not used"
        elif note.problem == "suspected mislabel":
            problem = f"looks more like {note.other_label}"
        elif note.problem == "odd one out":
            problem = "looks unlike the others"
        if annotation is not None and problem:
            found[str(annotation)] = {"problem": problem}
    return found
