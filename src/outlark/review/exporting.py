"""Annotation files of a project, in every format that outlark writes."""

import io
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from outlark.annotations import FORMATS, About, Annotation, write_annotations
from outlark.audio.facts import Facts
from outlark.audio.sound_files import folded
from outlark.commands.tables import BY_HAND
from outlark.detection.decode.decisions import Decisions
from outlark.detection.scores_file import load_scores
from outlark.errors import InputError
from outlark.review.project import Project, Recording
from outlark.review.queues import REJECTED, RELABELLED, with_statuses
from outlark.review.store import Row
from outlark.review.training import SCORES
from outlark.segments import AMBIGUOUS, KNOWN, UNKNOWN, Segment
from outlark.storage.model_file import load
from outlark.version import __version__

SCOPES = {
    "corrected": "what the model decided, with your corrections",
    "decided": "what the model decided, as 'outlark detect' writes it",
    "reviewed": "only what you annotated, confirmed or relabelled",
}
SOUND = (KNOWN, AMBIGUOUS, UNKNOWN)


def export(project: Project, *, format: str, scope: str, recordings: Sequence[Recording]) -> tuple[str, bytes]:
    """A file name and its bytes: the annotation file of a recording, or an archive of several."""
    if format not in FORMATS or not FORMATS[format].writes:
        raise InputError(f"{format!r} is not a format that can be written; choose one of {writable_formats()}")
    with TemporaryDirectory() as folder:
        names = _export_names(project.recordings())
        for recording in recordings:
            _write(project, Path(folder), recording, names[recording.id], format, scope)
        files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
        tables = [path for path in files if path.name.endswith(FORMATS[format].suffix)]
        if len(recordings) == 1 and len(tables) == 1:
            name = _alone(names[recordings[0].id], names.values()) + FORMATS[format].suffix
            return name, tables[0].read_bytes()
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
            for path in files:
                zipped.write(path, path.relative_to(folder).as_posix())
        return f"outlark-{scope}-{format}.zip", archive.getvalue()


def writable_formats() -> list[str]:
    return [name for name, format in FORMATS.items() if format.writes]


def annotations_of(project: Project, recording: Recording, scope: str) -> list[Annotation]:
    """The rows of an annotation file, by time."""
    run, facts = project.run(), _facts(project, recording)
    names = {row["id"]: row["name"] for row in project.classes()}
    found: list[Annotation] = []
    if run is not None and scope != "reviewed":
        rows = project.store.rows(
            "SELECT * FROM detection WHERE run_id = ? AND recording_id = ? ORDER BY id", run["id"], recording.id
        )
        if scope == "corrected":
            rows = [row for row in with_statuses(project, rows) if row["status"] not in (REJECTED, RELABELLED)]
        found = [_of_detection(row, recording, names) for row in rows]
    if scope == "decided":
        return [facts.on(annotation) for annotation in found]
    own = project.store.rows("SELECT * FROM annotation WHERE recording_id = ? ORDER BY t0", recording.id)
    said = [_of_annotation(row, recording, names) for row in own if row["role"] in ("example", "truth")]
    kept = [annotation for annotation in found if not any(annotation.span.is_same_note(other.span) for other in said)]
    scores = {(annotation.start_s, annotation.end_s): annotation for annotation in found}
    said = [replace(m, score=scores[at].score) if (at := (m.start_s, m.end_s)) in scores else m for m in said]
    return [
        facts.on(annotation) for annotation in sorted([*kept, *said], key=lambda m: (m.start_s, m.end_s, str(m.label)))
    ]


def _export_names(recordings: Sequence[Recording]) -> dict[int, str]:
    """Names of annotation files that no disk takes for one another, and that stay within the folder of an export."""
    names: dict[int, str] = {}
    seen = set[str]()
    for recording in recordings:
        parts = PurePosixPath(recording.name.replace("\\", "/")).parts
        safe = ".." not in parts and not recording.name.startswith("/")  # a project file may have been tampered with
        name = recording.name if safe else str(recording.id)
        names[recording.id] = f"{name} ({recording.id})" if folded(name) in seen else name
        seen.add(folded(names[recording.id]))
    return names


def _alone(name: str, names: Iterable[str]) -> str:
    """The name of a file that is exported by itself: with folders only if others are called the same.

    >>> _alone("night/1.wav", ["night/1.wav", "day/2.wav"]), _alone("A/1.wav", ["A/1.wav", "B/1.wav"])
    ('1.wav', 'A_1.wav')
    """
    last = PurePosixPath(name).name
    same = sum(folded(PurePosixPath(other).name) == folded(last) for other in names)
    return last if same < 2 else one_name(name)


def one_name(name: str) -> str:
    """A name with folders as the name of a single file."""
    return name.replace("/", "_")


def _write(project: Project, folder: Path, recording: Recording, name: str, format: str, scope: str) -> None:
    path = folder / (name + FORMATS[format].suffix)
    path.parent.mkdir(parents=True, exist_ok=True)
    found = annotations_of(project, recording, scope)
    paths = {recording.name: str(recording.path)}
    write_annotations(path, found, format=format, about=_about(project, recording, scope), paths=paths)


def _facts(project: Project, recording: Recording) -> Facts:
    run = project.run()
    if run is None:
        return recording.facts
    path = project.run_folder(run["id"], recording) / SCORES
    return Facts.of_dict(load_scores(path).facts) if path.exists() else recording.facts


def _about(project: Project, recording: Recording, scope: str) -> About:
    """The same as that of `outlark detect` with the model of the project; what was reviewed is of no model."""
    run = None if scope == "reviewed" else project.run()
    settings: Mapping[str, Any] = {}
    if run is not None and run["model"] is not None:
        decisions = load(project.folder / run["model"]).decisions or Decisions()
        settings = {"decisions": decisions.get_params(), "channel": "mix", "verdicts": list(SOUND)}
    sha256 = None if run is None else run["sha256"]
    facts = _facts(project, recording).as_dict()
    return About(version=__version__, model_sha256=sha256, settings=settings, recording=facts)


def _of_detection(row: Row, recording: Recording, names: Mapping[int, str]) -> Annotation:
    label = names.get(row["class_id"])
    deleted = label is None and row["class_id"] is not None
    segment = Segment(
        start=row["t0"], end=row["t1"], sample_rate=recording.sample_rate,
        label=label, verdict=UNKNOWN if deleted else row["verdict"], score=row["score"],
        runner_up=row["runner_up"], runner_up_score=row["runner_up_score"] or 0.0,
        reason="of a class that was deleted" if deleted else row["reason"],
        low_hz=row["low_hz"], high_hz=row["high_hz"],
    )  # fmt: skip
    return Annotation.from_segment(segment, recording.name)


def _of_annotation(row: Row, recording: Recording, names: Mapping[int, str]) -> Annotation:
    rate, label = recording.sample_rate, names.get(row["class_id"])
    return Annotation(
        start_s=row["t0"] / rate, end_s=row["t1"] / rate, label=label, recording=recording.name,
        verdict=UNKNOWN if label is None else KNOWN, reason=f"{BY_HAND}: {row['origin']}", low_hz=row["low_hz"],
        high_hz=row["high_hz"], sample_rate=rate,
    )  # fmt: skip
