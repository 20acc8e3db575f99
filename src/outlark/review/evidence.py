"""Which examples speak most for a detection: the reason that can be looked at."""

from functools import lru_cache
from typing import Any

from outlark.audio.resampling import resample
from outlark.commands.excerpt import with_surroundings
from outlark.detection.detector import NoteDetector
from outlark.estimators.mddkm import MDDKM
from outlark.features.note import NoteFrontEnd
from outlark.review.project import Project
from outlark.review.store import Row
from outlark.storage.model_file import load

#: Examples that are shown.
SHOWN = 2


def speaking_for(project: Project, detection: Row) -> list[dict[str, Any]]:
    """The annotations of the class that takes most off the distance of a detection, with their share, largest first.

    None for models without examples in the project, and for those that do not describe whole notes by `MDDKM`.
    """
    run = project.run()
    if run is None or run["model"] is None or not run["health"].get("ids"):
        return []
    detector = _detector(str(project.folder / run["model"]), run["sha256"])
    front_end, recording = detector.front_end_, project.recording(detection["recording_id"])
    if recording is None or not isinstance(front_end, NoteFrontEnd) or not isinstance(detector.describer_, MDDKM):
        return []
    rate = recording.sample_rate
    start_s, end_s = detection["t0"] / rate, detection["t1"] / rate
    around = with_surroundings(project.sound(recording), start_s, end_s, detector)
    samples = resample(around.samples, rate, detector.sample_rate_) if rate != detector.sample_rate_ else around.samples
    frames = front_end.transform(samples)
    first, length = (t * front_end.frame_rate for t in (start_s - around.start / rate, end_s - start_s))
    described = front_end.describe(frames.features, start=first, n_starts=1, length=length)
    (told,) = detector.describer_.explain(described, n_notes=SHOWN)
    ids = run["health"]["ids"]
    rows = {row["id"]: row for row in project.store.rows("SELECT * FROM annotation")}
    shown = [(rows.get(ids[int(one.note)]), one.share) for one in told if int(one.note) < len(ids)]  # None: not here
    return [
        {**{key: row[key] for key in ("id", "recording_id", "class_id", "t0", "t1")}, "share": round(share, 3)}
        for row, share in shown
        if row is not None
    ]


@lru_cache(maxsize=2)
def _detector(path: str, sha256: str) -> NoteDetector:
    """Kept from one note to the next; the digest tells a new model at the same place."""
    return load(path)
