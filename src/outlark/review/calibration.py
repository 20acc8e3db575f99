"""For each class of the model how the scores of its possible notes are spread, and what was reviewed where."""

from typing import Any

from outlark.detection.thresholds import BINS, calibrated
from outlark.review.project import Project


def histograms(project: Project) -> list[dict[str, Any]]:
    """One for each class: the edges and counts of a histogram, thresholds, the valley, and the reviewed scores."""
    run = project.run()
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
