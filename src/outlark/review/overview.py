"""What the page shows besides recordings: the project at a glance, histograms, the examples behind a detection."""

import re
from functools import lru_cache
from typing import cast

from fastapi import APIRouter, Request

from outlark.audio.sound import resample
from outlark.audio.sound_files import SUFFIXES, without_sound_suffix
from outlark.commands.plot import with_surroundings
from outlark.detection.detector import NoteDetector
from outlark.detection.thresholds import PEAK_BINS, calibrated
from outlark.estimators.mddkm import MDDKM
from outlark.features.note import NoteFrontEnd
from outlark.model_file import load
from outlark.review import queues
from outlark.review.project import EMPTY_RUN, RUN_IN_PROGRESS, Answer, Current, Id, Project, Run
from outlark.review.store import Row
from outlark.review.training import corrections_of, examples_of

#: Examples that are shown for a detection.
EXAMPLES_SHOWN = 2
routes = APIRouter(prefix="/api", tags=["results"])


@routes.get("/project")
def overview(request: Request, project: Current, run: Run = None) -> Answer:
    """Recordings, classes with their examples, the model of a run and what is new since it was trained."""
    opened, shown = request.app.state.opened, project.run(run) or EMPTY_RUN
    done, undone = (
        project.store.value("SELECT count(*) FROM event WHERE state = ?", state) for state in ("done", "undone")
    )
    return {
        "id": project.store.identity(),
        "title": opened.title,
        "problems": [{"name": p.where, "message": p.message} for p in (*opened.problems, *project.missing())],
        "sounds": SUFFIXES,
        **revision(project),
        "recordings": _recordings(project, shown),
        "classes": _classes(project, shown),
        "run": _run(project, shown),
        "clusters": _clusters(project, shown),
        "undo": done,
        "redo": undone,
        "precision": queues.precision(project, shown),
        "missed": queues.missed(project, shown),
    }


@routes.get("/revision")
def revision(project: Current) -> Answer:
    """Changes when another tab has changed something; with the running job, and whether grouping is under way."""
    last = project.jobs.last
    job = None if last is None else last.as_dict()
    return {"revision": project.store.revision(), "job": job, "grouping": project.chores.running}


def _recordings(project: Project, run: Row) -> list[Row]:
    query = "SELECT recording_id, count(*) FROM detection WHERE run_id = ? AND class_id {} GROUP BY recording_id"
    known, unknown = (_counts(project, query.format(what), run["id"]) for what in ("IS NOT NULL", "IS NULL"))
    return [
        {
            "id": r.id, "name": r.name, "short": without_sound_suffix(r.name), "seconds": r.seconds,
            "sample_rate": r.sample_rate, "began": r.facts.began, "missing": r.missing,
            "searched": r.id in run["scanned"],
            "remarks": list(dict.fromkeys([*r.facts.all_remarks, *run["heard"].get(str(r.id), ())])),
            "known": known.get(r.id, 0), "unknown": unknown.get(r.id, 0),
        }
        for r in sorted(project.recordings(), key=lambda recording: recording.missing)  # the page opens the first
    ]  # fmt: skip


def _counts(project: Project, query: str, *values: object) -> dict[int, int]:
    """What is counted, by the first column of the answer."""
    return dict(tuple(row.values()) for row in project.store.rows(query, *values))


def _classes(project: Project, run: Row) -> list[Row]:
    found = _counts(project, "SELECT class_id, count(*) FROM detection WHERE run_id = ? GROUP BY class_id", run["id"])
    negatives = _counts(project, "SELECT class_id, count(*) FROM annotation WHERE role = 'negative' GROUP BY class_id")
    health, given = run["health"]["notes"], run["health"].get("given") or {"examples": {}}
    examples, listed = examples_of(project), []
    for row in project.classes():
        own = [e for e in examples if e["class_id"] == row["id"]]
        odd = [
            {"annotation": e["id"], "number": number, "problem": health[str(e["id"])]["problem"]}
            for number, e in enumerate(own, start=1)
            if health.get(str(e["id"]), {}).get("problem")
        ]
        listed.append(
            {**row, "examples": len(own), "found": found.get(row["id"], 0), "negatives": negatives.get(row["id"], 0),
             "odd": odd, "of_model": given["examples"].get(row["name"], 0),
             "in_model": row["name"] in run["classes"],
             "remarks": [remark for remark in run["remarks"] if names_class(remark, row["name"])]}
        )  # fmt: skip
    return listed


def names_class(remark: str, name: str) -> bool:
    """Whether a remark of the training is about a class.

    >>> [names_class(f"class {name} has a single note", "song") for name in ("'song'", "song", "songs")]
    [True, True, False]
    """
    return re.search(rf"(?<!\w)(['\"(]{re.escape(name)}['\")]|class {re.escape(name)}(?!\w))", remark) is not None


def _run(project: Project, run: Row) -> Row | None:
    """The model, and how many annotations have been added, removed or changed since it was trained."""
    if run["id"] is None:
        return None
    now = {(e["id"], e["class_id"], e["t0"], e["t1"]) for e in corrections_of(project)}
    then = {tuple(e) for e in run["examples"]}
    ids, wanted, has_model = project.class_ids(), project.wanted_thresholds(run), run["model"] is not None

    def by_id(values: dict[str, float]) -> dict[str, float]:
        return {str(ids[name]): value for name, value in values.items() if name in ids}

    return {
        "id": run["id"], "at": run["at"], "has_model": has_model, "making": run["state"] == RUN_IN_PROGRESS,
        "remarks": [remark for remark in run["remarks"] if not any(names_class(remark, name) for name in ids)],
        "class_ids": [ids.get(name) for name in run["classes"]], "priors": by_id(run["health"]["priors"]),
        "thresholds": by_id(run["thresholds"]), "wanted": by_id(wanted),
        "undecided": has_model and wanted != run["thresholds"],
        "new": len({e[0] for e in now ^ then}) if has_model else len(now),
        "searched": len(run["scanned"]), "given": (run["health"].get("given") or {}).get("name"),
    }  # fmt: skip


def _clusters(project: Project, run: Row) -> list[Row]:
    return project.store.rows(
        "SELECT c.id, c.name, count(*) AS size FROM cluster c JOIN member m ON m.cluster_id = c.id "
        "WHERE c.run_id = ? GROUP BY c.id ORDER BY c.id",
        run["id"],
    )


@routes.get("/calibration")
def histograms(project: Current, run: Run = None) -> list[Answer]:
    """For each class: edges and counts of the histogram, thresholds, the valley, and the reviewed scores."""
    shown, found = project.run(run) or EMPTY_RUN, list[Answer]()
    if shown["model"] is None:
        return found
    ids, wanted = project.class_ids(), project.wanted_thresholds(shown)
    for name in (name for name in shown["classes"] if name in ids):
        rows = project.store.rows(
            "SELECT score FROM candidate WHERE run_id = ? AND class_id = ?", shown["id"], ids[name]
        )
        prior = shown["health"]["priors"][name]
        judged = calibrated(name, prior, [row["score"] for row in rows])
        reviewed = project.store.rows(
            "SELECT score, verdict, queue FROM review WHERE run_id = ? AND class_id = ? AND verdict != 'unsure'",
            shown["id"], ids[name],
        )  # fmt: skip
        found.append(
            {
                "class_id": ids[name], "prior": prior, "threshold": wanted[name],
                "valley": judged.threshold if judged.moved else None,
                "edges": (PEAK_BINS * prior).tolist(), "counts": list(judged.counts),
                "right": [r["score"] for r in reviewed if r["verdict"] == "confirm"],
                "wrong": [r["score"] for r in reviewed if r["verdict"] != "confirm"],
            }
        )  # fmt: skip
    return found


@routes.get("/detections/{detection_id}/evidence")
def evidence(detection_id: Id, project: Current) -> list[Answer]:
    """The most influential examples of a detection, with their share, largest first.

    None for models without examples in the project, or without note-level `MDDKM`.
    """
    detection = project.existing("detection", detection_id)
    run = project.run(detection["run_id"]) or EMPTY_RUN
    if run["model"] is None or not run["health"].get("ids"):
        return []
    detector = _detector(str(project.folder / run["model"]), run["sha256"])
    front_end, recording = detector.front_end_, project.recording(detection["recording_id"])
    if not front_end.note_level or not isinstance(detector.class_model_, MDDKM):
        return []
    front_end = cast("NoteFrontEnd", front_end)
    rate = recording.sample_rate
    start_s, end_s = detection["t0"] / rate, detection["t1"] / rate
    around = with_surroundings(recording.sound, start_s, end_s, detector)
    samples = resample(around.samples, rate, detector.sample_rate_) if rate != detector.sample_rate_ else around.samples
    frames = front_end.transform(samples)
    first, length = (t * front_end.frame_rate for t in (start_s - around.start / rate, end_s - start_s))
    described = front_end.describe(frames.features, start=first, n_starts=1, length=length)
    (influential,) = detector.class_model_.explain(described, n_notes=EXAMPLES_SHOWN)
    ids = run["health"]["ids"]
    columns = "SELECT id, recording_id, class_id, t0, t1 FROM annotation WHERE id = ?"
    shown = [(project.store.row(columns, ids[int(e.note)]), e.share) for e in influential if int(e.note) < len(ids)]
    return [{**row, "share": round(share, 3)} for row, share in shown if row is not None]


@lru_cache(maxsize=2)
def _detector(path: str, sha256: str) -> NoteDetector:
    """Cached; the digest distinguishes a new model in the same place."""
    return load(path)
