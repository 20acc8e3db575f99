"""Groups of similar unknown sounds, which a person can turn into a class."""

import sqlite3
import string
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from sklearn.cluster import AgglomerativeClustering

from outlark.detection.detector import NoteDetector
from outlark.errors import AudioError
from outlark.features.base import HIGHEST_SHARE
from outlark.features.note import NoteFrontEnd
from outlark.review.project import Job, Project
from outlark.review.store import Row, insert
from outlark.segments import UNKNOWN

#: Most sounds that are grouped, spread evenly over all of them: the time grows with the square.
MAX_SOUNDS = 800
#: Fewest sounds in a group, and most groups shown.
MIN_GROUP_SIZE, MAX_GROUPS = 3, 12
#: Sounds are similar up to this distance: 1 - correlation of their descriptions.
MAX_DISTANCE = 0.5
#: Seconds around a sound from which its background is estimated.
AROUND_S = 1.0
#: Durations of possible notes, relative to the shortest and the longest example.
SHORTEST_RATIO, LONGEST_RATIO = 0.4, 4.0
#: A factor of two in length adds this to the distance.
LENGTH_WEIGHT = 0.15


class Group(NamedTuple):
    """Indices of similar sounds, the most central first, and the distance of each from the centre."""

    members: np.ndarray
    distances: np.ndarray


def groups_of(samples: np.ndarray, seconds: np.ndarray) -> list[Group]:
    """Groups of similar sounds, the largest first; samples (n, d) are descriptions of length 1, with their durations.

    >>> samples = np.eye(4)[[0, 1, 0, 1, 0, 1, 0, 3]]
    >>> [group.members.tolist() for group in groups_of(samples, np.full(8, 0.2))]
    [[0, 2, 4, 6], [1, 3, 5]]
    """
    if len(samples) < MIN_GROUP_SIZE:
        return []
    octaves = np.log2(seconds)
    distance = np.clip(1.0 - samples @ samples.T, 0.0, 2.0)
    distance += LENGTH_WEIGHT * np.abs(octaves[:, np.newaxis] - octaves)
    clustering = AgglomerativeClustering(
        n_clusters=None, metric="precomputed", linkage="average", distance_threshold=MAX_DISTANCE
    )
    labels = clustering.fit_predict(distance)
    found = []
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        if len(members) >= MIN_GROUP_SIZE:
            within = distance[np.ix_(members, members)].mean(axis=1)
            order = np.argsort(within, kind="stable")
            found.append(Group(members[order], within[order]))
    return sorted(found, key=lambda group: (-len(group.members), int(group.members.min())))[:MAX_GROUPS]


def find_clusters(project: Project, run_id: int, detector: NoteDetector, job: Job) -> None:
    """Group the unknown sounds of a run; the groups replace its earlier ones."""
    sounds = _sounds(project, run_id, detector)
    descriptions = _descriptions(project, detector, sounds, job)
    described = [(row, x) for row, x in zip(sounds, descriptions, strict=True) if x.any()]
    seconds = np.array([row["seconds"] for row, _ in described])
    groups = groups_of(np.array([x for _, x in described]), seconds) if described else []
    with project.store.writing() as db:
        delete_clusters(db, run_id)
        for name, group in zip(string.ascii_uppercase, groups, strict=False):
            cluster = insert(db, "cluster", {"run_id": run_id, "name": name})
            for i, distance in zip(group.members, group.distances, strict=True):
                place = {key: described[i][0][key] for key in ("recording_id", "t0", "t1", "low_hz", "high_hz")}
                insert(db, "member", {"cluster_id": cluster, **place, "distance": float(distance)})


def delete_clusters(db: sqlite3.Connection, run_id: int) -> None:
    """Delete the groups of a run."""
    db.execute("DELETE FROM member WHERE cluster_id IN (SELECT id FROM cluster WHERE run_id = ?)", (run_id,))
    db.execute("DELETE FROM cluster WHERE run_id = ?", (run_id,))


def _sounds(project: Project, run_id: int, detector: NoteDetector) -> list[Row]:
    """Unknown sounds that last about as long as notes, with their length in seconds."""
    rows = project.store.rows(
        "SELECT d.*, 1.0 * (d.t1 - d.t0) / r.sample_rate AS seconds FROM detection d "
        "JOIN recording r ON r.id = d.recording_id WHERE d.run_id = ? AND d.verdict = ? ORDER BY d.recording_id, d.t0",
        run_id,
        UNKNOWN,
    )
    least = SHORTEST_RATIO * float(detector.layout_.shortest_s.min())
    most = LONGEST_RATIO * float(detector.layout_.longest_s.max())
    fit = [row for row in rows if least <= row["seconds"] <= most]
    return (
        [fit[i] for i in np.unique(np.linspace(0, len(fit) - 1, MAX_SOUNDS).astype(int))]
        if len(fit) > MAX_SOUNDS
        else fit
    )


def _descriptions(project: Project, detector: NoteDetector, sounds: Sequence[Row], job: Job) -> list[np.ndarray]:
    """Each sound as a vector of length 1, over a wide band; zeros if it cannot be read."""
    front_ends: dict[int, NoteFrontEnd] = {}
    recordings = {recording.id: recording for recording in project.recordings()}
    found = []
    for number, row in enumerate(sounds):
        job.tell(number / len(sounds), "grouping the unknown sounds")
        recording = recordings[row["recording_id"]]
        rate = recording.sample_rate
        if rate not in front_ends:
            front_ends[rate] = _front_end(detector, rate)
        front_end = front_ends[rate]
        first = max(0, row["t0"] - round(AROUND_S * rate))
        try:
            samples = recording.sound.part(first, row["t1"] + round(AROUND_S * rate))
        except AudioError:
            found.append(np.zeros(front_end.n_slices * front_end.n_features_))
            continue
        hop = front_end.hop_samples_
        frames = front_end.transform(samples)
        start, length = (row["t0"] - first) / hop, (row["t1"] - row["t0"]) / hop
        found.append(front_end.describe(frames.features, start=start, n_starts=1, length=length)[0])
    return found


def _front_end(detector: NoteDetector, sample_rate: int) -> NoteFrontEnd:
    """Covers the band of the model, and that of most birds."""
    own = detector.front_end_
    usual = NoteFrontEnd(*(n / own.sample_rate_ for n in (own.window_samples_, own.hop_samples_)))
    low, high = own.band_hz or (usual.low_hz, usual.high_hz)
    top = min(max(high, usual.high_hz), HIGHEST_SHARE * sample_rate)
    return usual.set_params(low_hz=min(low, usual.low_hz, top / 4), high_hz=top).fit([], sample_rate)
