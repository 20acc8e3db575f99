"""What the page shows besides recordings: the project at a glance, histograms, the examples behind a detection."""

import re
from functools import lru_cache
from typing import Any, cast

from outlark.audio.sound import resample
from outlark.audio.sound_files import without_sound_suffix
from outlark.commands.plot import with_surroundings
from outlark.detection.detector import NoteDetector
from outlark.detection.thresholds import BINS, calibrated
from outlark.estimators.mddkm import MDDKM
from outlark.features.note import NoteFrontEnd
from outlark.review import queues
from outlark.review.project import MAKING, Project
from outlark.review.store import Row
from outlark.review.training import corrections_of, examples_of
from outlark.storage.model_file import load


def overview(project: Project, number: int | None = None) -> dict[str, Any]:
    """Recordings, classes with their examples, the model of a run and what is new since it was trained."""
    run, last = project.run(number), project.jobs.last
    examples = examples_of(project)
    history = project.store.row("SELECT sum(state = 'done') AS done, sum(state = 'undone') AS undone FROM event") or {
        "done": 0,
        "undone": 0,
    }
    return {
        "revision": project.store.revision(),
        "recordings": _recordings(project, run),
        "classes": _classes(project, run, examples),
        "run": _run(project, run),
        "clusters": _clusters(project, run),
        "job": None if last is None else last.as_dict(),
        "undo": history["done"] or 0,
        "redo": history["undone"] or 0,
        "precision": queues.precision(project, run),
        "missed": queues.missed(project, run),
        "grouping": project.chores.running,
    }


def _recordings(project: Project, run: Row | None) -> list[Row]:
    scanned, heard = (set(), {}) if run is None else (set(run["scanned"]), run["heard"])
    rows = project.store.rows(
        "SELECT recording_id, sum(class_id IS NOT NULL) AS known, sum(class_id IS NULL) AS unknown "
        "FROM detection WHERE run_id = ? GROUP BY recording_id",
        -1 if run is None else run["id"],
    )
    counts = {row["recording_id"]: row for row in rows}
    return [
        {
            "id": r.id, "name": r.name, "short": without_sound_suffix(r.name), "seconds": r.seconds,
            "sample_rate": r.sample_rate,
            "began": r.facts.began, "remarks": list(dict.fromkeys([*r.facts.all_remarks, *heard.get(str(r.id), ())])),
            "searched": r.id in scanned,
            "known": counts.get(r.id, {}).get("known", 0), "unknown": counts.get(r.id, {}).get("unknown", 0),
            "missing": r.missing,
        }
        for r in sorted(project.recordings(), key=lambda recording: recording.missing)  # the page opens the first
    ]  # fmt: skip


def _classes(project: Project, run: Row | None, examples: list[Row]) -> list[Row]:
    found = {
        row["class_id"]: row["n"]
        for row in project.store.rows(
            "SELECT class_id, count(*) AS n FROM detection WHERE run_id = ? GROUP BY class_id",
            -1 if run is None else run["id"],
        )
    }
    negatives = {
        row["class_id"]: row["n"]
        for row in project.store.rows(
            "SELECT class_id, count(*) AS n FROM annotation WHERE role = 'negative' GROUP BY class_id"
        )
    }
    health, said = ({}, []) if run is None else (run["health"]["notes"], run["remarks"])
    given = ({} if run is None else run["health"].get("given")) or {"examples": {}}
    listed = []
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
             "in_model": run is not None and row["name"] in run["classes"],
             "remarks": [remark for remark in said if names_class(remark, row["name"])]}
        )  # fmt: skip
    return listed


def names_class(remark: str, name: str) -> bool:
    """Whether a remark of the training is about a class.

    >>> [names_class(f"class {name} has a single note", "song") for name in ("'song'", "song", "songs")]
    [True, True, False]
    """
    return re.search(rf"(?<!\w)(['\"(]{re.escape(name)}['\")]|class {re.escape(name)}(?!\w))", remark) is not None


def _run(project: Project, run: Row | None) -> Row | None:
    """The model, and how many annotations have been added, removed or changed since it was trained."""
    if run is None:
        return None
    now = {(e["id"], e["class_id"], e["t0"], e["t1"]) for e in corrections_of(project)}
    then = {tuple(e) for e in run["examples"]}
    names = {row["name"]: row["id"] for row in project.classes()}
    wanted = project.wanted_thresholds(run)
    return {
        "id": run["id"], "at": run["at"], "has_model": run["model"] is not None, "making": run["state"] == MAKING,
        "remarks": [remark for remark in run["remarks"] if not any(names_class(remark, name) for name in names)],
        "class_ids": [names.get(name) for name in run["classes"]],
        "priors": {str(names[name]): value for name, value in run["health"]["priors"].items() if name in names},
        "thresholds": {str(names[name]): value for name, value in run["thresholds"].items() if name in names},
        "wanted": {str(names[name]): value for name, value in wanted.items() if name in names},
        "undecided": run["model"] is not None and wanted != run["thresholds"],
        "new": len({e[0] for e in now ^ then}) if run["model"] is not None else len(now),
        "searched": len(run["scanned"]), "given": (run["health"].get("given") or {}).get("name"),
    }  # fmt: skip


def _clusters(project: Project, run: Row | None) -> list[Row]:
    return project.store.rows(
        "SELECT c.id, c.name, count(*) AS size FROM cluster c JOIN member m ON m.cluster_id = c.id "
        "WHERE c.run_id = ? GROUP BY c.id ORDER BY c.id",
        -1 if run is None else run["id"],
    )


def histograms(project: Project, number: int | None = None) -> list[dict[str, Any]]:
    """For each class: edges and counts of the histogram, thresholds, the valley, and the reviewed scores."""
    run = project.run(number)
    if run is None or run["model"] is None:
        return []
    ids, found = project.class_ids(), []
    wanted = project.wanted_thresholds(run)
    for name in run["classes"]:
        if name not in ids:
            continue
        rows = project.store.rows("SELECT score FROM candidate WHERE run_id = ? AND class_id = ?", run["id"], ids[name])
        prior = run["health"]["priors"][name]
        judged = calibrated(name, prior, [row["score"] for row in rows])
        reviewed = project.store.rows(
            "SELECT score, verdict, queue FROM review WHERE run_id = ? AND class_id = ? AND verdict != 'unsure'",
            run["id"], ids[name],
        )  # fmt: skip
        found.append(
            {
                "class_id": ids[name], "prior": prior, "threshold": wanted[name],
                "valley": judged.threshold if judged.moved else None, "in_words": judged.in_words,
                "edges": (BINS * prior).tolist(), "counts": list(judged.counts),
                "right": [r["score"] for r in reviewed if r["verdict"] == "confirm"],
                "wrong": [r["score"] for r in reviewed if r["verdict"] != "confirm"],
            }
        )  # fmt: skip
    return found


#: Examples that are shown.
SHOWN = 2


def speaking_for(project: Project, detection: Row) -> list[dict[str, Any]]:
    """The most influential examples of a detection, with their share, largest first.

    None for models without examples in the project, or without note-level `MDDKM`.
    """
    run = project.run(detection["run_id"])
    if run is None or run["model"] is None or not run["health"].get("ids"):
        return []
    detector = _detector(str(project.folder / run["model"]), run["sha256"])
    front_end, recording = detector.front_end_, project.recording(detection["recording_id"])
    if recording is None or not front_end.note_level or not isinstance(detector.class_model_, MDDKM):
        return []
    rate = recording.sample_rate
    start_s, end_s = detection["t0"] / rate, detection["t1"] / rate
    around = with_surroundings(project.sound(recording), start_s, end_s, detector)
    samples = resample(around.samples, rate, detector.sample_rate_) if rate != detector.sample_rate_ else around.samples
    front_end = cast("NoteFrontEnd", front_end)
    frames = front_end.transform(samples)
    first, length = (t * front_end.frame_rate for t in (start_s - around.start / rate, end_s - start_s))
    described = front_end.describe(frames.features, start=first, n_starts=1, length=length)
    (influential,) = detector.class_model_.explain(described, n_notes=SHOWN)
    ids = run["health"]["ids"]
    rows = {row["id"]: row for row in project.store.rows("SELECT * FROM annotation")}
    shown = [(rows.get(ids[int(one.note)]), one.share) for one in influential if int(one.note) < len(ids)]
    return [
        {**{key: row[key] for key in ("id", "recording_id", "class_id", "t0", "t1")}, "share": round(share, 3)}
        for row, share in shown
        if row is not None
    ]


@lru_cache(maxsize=2)
def _detector(path: str, sha256: str) -> NoteDetector:
    """Cached; the digest distinguishes a new model in the same place."""
    return load(path)
