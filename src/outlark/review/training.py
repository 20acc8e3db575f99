"""From annotations to a trained model, and from a model to what it finds in all recordings of a project."""

import json
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from outlark.annotations import Annotation
from outlark.audio.facts import Facts
from outlark.audio.recording import Recording as AudioRecording
from outlark.audio.sound import resampled_length
from outlark.batch.analysis import analyse
from outlark.batch.task import fingerprint, sha256_of
from outlark.commands.doctor import problems_of
from outlark.commands.train.examples import Example, Examples
from outlark.commands.train.learning import Learnt, learn
from outlark.commands.train.retraining import Parent, retrain
from outlark.detection.detector import NoteDetector
from outlark.detection.scores_file import KeptScores, ScoreKeeper, load_scores
from outlark.detection.stream import Found
from outlark.detection.thresholds import FROM
from outlark.errors import AudioError, InputError
from outlark.estimators.mddkm import MDDKM
from outlark.review import runs
from outlark.review.clusters import find_clusters
from outlark.review.project import GROUPED, Job, Project, Recording, insert_detections
from outlark.review.store import Row
from outlark.review.tiles import CurveKeeper, save_levels
from outlark.segments import SILENCE, Segment
from outlark.storage.model_file import load, save

#: Roles of annotations that are examples …
LEARNT = ("example", "truth")
#: … and of those that say what a sound is not.
NOT_THIS = "negative"
#: Most examples of a class that are used: more take longer and add little.
MOST_EXAMPLES = 60
SCORES = "scores"


def examples_of(project: Project) -> list[Row]:
    """The annotations that training uses as examples, by recording and time."""
    return _annotations(project, LEARNT)


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
    return _annotations(project, [*LEARNT, NOT_THIS])


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
    afterwards(project, job.run)
    if failures:
        raise AudioError(_in_words(failures, job))


def _learn(project: Project) -> tuple[Learnt, dict[str, Any]]:
    """A model of all annotations, and what its run says about it: the examples, their health, and remarks."""
    rows, rejected, given = examples_of(project), _annotations(project, [NOT_THIS]), given_model(project)
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
    health = {"notes": health_of(learnt.detector, ids), "ids": ids, "given": given}
    return learnt, {"examples": [*rows, *rejected], "health": health, "remarks": list(dict.fromkeys(said))}


def given_model(project: Project) -> dict[str, Any] | None:
    """The model that made the results that the project is about: "file" in the project, "path" where it was given,
    "audio" and how many "examples" of each class it has; None for other projects.
    """
    run = project.run()
    return None if run is None else run["health"].get("given")


def _retrained(project: Project, given: dict[str, Any], new: Examples) -> Learnt:
    """As `outlark train --from`: the examples of the given model, and the corrections."""
    file, path = project.folder / given["file"], Path(given["path"])
    parent = Parent(path=path if path.parent.is_dir() else file, sha256=sha256_of(file), detector=load(file))
    near = sorted({recording.path.parent for recording in project.recordings()})
    folders = [folder for folder in (*map(Path, given["audio"]), *near) if folder.is_dir()]  # some may have moved
    return retrain(parent, new, audio=folders, max_examples=MOST_EXAMPLES)


def scan(project: Project, job: Job, run_id: int, detector: NoteDetector, first: int | None = None) -> None:
    """Find notes in the recordings that this run has not searched yet."""
    job.run = run_id
    failures = _search_all(project, job, run_id, detector, first)
    afterwards(project, run_id)
    if failures:
        raise AudioError(_in_words(failures, job))


def _search_all(project: Project, job: Job, run_id: int, detector: NoteDetector, first: int | None) -> list[str]:
    """Search what has not been searched; why some recordings cannot be."""
    run = project.run(run_id)
    assert run is not None
    waiting = [r for r in project.recordings() if r.id not in run["scanned"]]
    waiting.sort(key=lambda r: r.id != first)
    total = sum(r.n_samples for r in waiting) or 1
    done, failures, job.recordings = 0, list[str](), len(waiting)
    for recording in waiting:
        share = 0.85 * recording.n_samples / total
        start = 0.15 + 0.85 * done / total
        try:
            segments, kept = search(project, run_id, detector, recording, _part(job, start, share, recording.name))
            store_found(project, run, detector, recording, segments, kept)
            job.searched += 1
        except AudioError as error:
            failures.append(str(error))
        done += recording.n_samples
    return failures


def _in_words(failures: Sequence[str], job: Job) -> str:
    return f"{len(failures)} of {job.recordings} recordings could not be searched: {failures[0]}"


def afterwards(project: Project, run_id: int) -> None:
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
            db.execute("UPDATE run SET remarks = ?, state = ? WHERE id = ?", (said, GROUPED, run_id))

    project.chores.stop()
    project.chores.start("grouping", work)


def _part(job: Job, start: float, share: float, name: str) -> Callable[[float], None]:
    return lambda part: job.tell(start + share * min(1.0, part), f"searching {name}")


def search(
    project: Project, run_id: int, detector: NoteDetector, recording: Recording, progress: Callable[[float], None]
) -> tuple[list[Segment], KeptScores]:
    """The segments of a recording; its scores and curves are kept in the cache."""
    audio, layout = AudioRecording(recording.path), detector.layout_
    keeper, curve, segments = ScoreKeeper(layout, audio.sample_rate), CurveKeeper(layout), list[Segment]()

    def take(found: Found) -> None:
        segments.extend(found.segments)
        keeper.push(found.scores)
        curve.push(found.scores)

    before = fingerprint(recording.path)
    n, facts = analyse(detector, audio, take, lambda seconds, share: progress(share), before)
    folder = project.run_folder(run_id, recording)
    save_levels(curve.curves(len(detector.classes_)), folder)
    spans = {"dt": layout.hop_samples / layout.sample_rate, "first": layout.offset_samples / layout.sample_rate}
    (folder / "spans.json").write_text(json.dumps(spans))
    n_model = resampled_length(n, audio.sample_rate, detector.sample_rate_)
    keeper.save(folder / SCORES, n_samples=n, n_model_samples=n_model, facts=facts.as_dict())
    return segments, load_scores(folder / SCORES)


def store_found(
    project: Project, run: Row, detector: NoteDetector, recording: Recording,
    segments: Sequence[Segment], kept: KeptScores, *, decided: bool = False,
) -> None:  # fmt: skip
    """Replace the detections of a recording by these segments, and its candidates by those in its scores.

    `decided`: with other thresholds, which change neither the scores nor the candidates.
    """
    run_id, ids = run["id"], {**project.class_ids(), **run["health"].get("class_ids", {})}
    rows = [_detection(run_id, recording.id, ids, segment) for segment in segments if segment.verdict != SILENCE]
    possible = [] if decided else candidates(detector, kept)
    facts = Facts.of_dict(kept.facts).and_also(kept.remark_on_edges(detector) if decided else None)
    with project.store.writing() as db:
        runs.replace_detections(db, run_id, recording.id)
        insert_detections(db, rows)
        if not decided:
            db.execute("DELETE FROM candidate WHERE run_id = ? AND recording_id = ?", (run_id, recording.id))
            db.executemany(
                "INSERT INTO candidate (run_id, recording_id, class_id, t0, t1, score) VALUES (?, ?, ?, ?, ?, ?)",
                [(run_id, recording.id, ids[str(s.label)], s.start, s.end, float(s.score)) for s in possible],
            )
        runs.mark_searched(db, run_id, recording, facts.all_remarks)


def candidates(detector: NoteDetector, kept: KeptScores) -> list[Segment]:
    """Possible notes: segments that reach `FROM` times the thresholds of training."""
    priors = np.asarray(kept.scores.layout.thresholds) * FROM
    layout = replace(kept.scores.layout, thresholds=priors)
    lower = replace(kept, scores=replace(kept.scores, layout=layout))
    return [segment for segment in lower.decide(detector) if segment.label is not None]


def decide_again(project: Project, job: Job) -> None:
    """Apply the chosen thresholds to all kept scores, and store them in the model file."""
    run = project.run()
    if run is None or run["model"] is None:
        raise InputError("there is no model to decide with; train one first")
    detector = load(project.folder / run["model"])
    wanted = project.wanted_thresholds(run)
    detector.set_thresholds([wanted[str(label)] for label in detector.classes_.tolist()])
    recordings = [r for r in project.recordings() if r.id in run["scanned"]]
    for number, recording in enumerate(recordings):
        job.tell(0.9 * number / len(recordings), f"deciding on {recording.name}")
        kept = load_scores(project.run_folder(run["id"], recording) / SCORES)
        layout = replace(kept.scores.layout, thresholds=detector.layout_.thresholds)
        now = replace(kept, scores=replace(kept.scores, layout=layout))
        store_found(project, run, detector, recording, now.decide(detector), now, decided=True)
    path = project.folder / run["model"]
    save(detector, path)
    with project.store.writing() as db:
        db.execute(
            "UPDATE run SET thresholds = ?, sha256 = ? WHERE id = ?", (json.dumps(wanted), sha256_of(path), run["id"])
        )


def _notes(rows: Iterable[Row], recordings: dict[int, Recording]) -> tuple[Example, ...]:
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


def _detection(run_id: int, recording_id: int, ids: dict[str, int], s: Segment) -> tuple[Any, ...]:
    rival = None if s.runner_up is None else str(s.runner_up)
    label = None if s.label is None else ids[str(s.label)]
    return (run_id, recording_id, label, s.verdict, s.start, s.end, float(s.score), rival, float(s.runner_up_score),
            s.reason, s.low_hz, s.high_hz)  # fmt: skip


def health_of(detector: NoteDetector, ids: Sequence[int | None]) -> dict[str, dict[str, Any]]:
    """Annotation id → its left-out score, and what is odd about it.

    `ids` are those of the training notes, in the order of the training record; None for notes of a given model.
    """
    found: dict[str, dict[str, Any]] = {}
    if not isinstance(detector.class_model_, MDDKM) or len(ids) != len(detector.training_):
        return found
    judged = {note.note: note for note in detector.class_model_.health().notes}
    for number, annotation in enumerate(ids):
        if annotation is None:
            continue
        note = judged.get(number)
        if note is None:
            found[str(annotation)] = {"problem": "unlike the other examples; it was not used", "score": None}
            continue
        words = {"suspected mislabel": f"looks more like {note.other_label}", "odd one out": "looks unlike the others"}
        score = None if np.isnan(note.left_out_score) else round(float(note.left_out_score), 3)
        found[str(annotation)] = {"problem": words.get(note.problem, ""), "score": score}
    return found
