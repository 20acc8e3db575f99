"""Annotation files of a project: written in every format that outlark writes, and taken from every one it reads."""

import io
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from outlark.annotations import FORMATS, About, Annotation, Table, read_annotations, write_annotations
from outlark.annotations.annotation import is_sound
from outlark.annotations.formats import WRITTEN
from outlark.audio.facts import Facts
from outlark.audio.sound_files import folded, meant_by, recording_of_table
from outlark.commands.tables import BY_HAND
from outlark.detection.scores_file import load_scores
from outlark.errors import InputError
from outlark.model_file import load
from outlark.plain_text import number_of
from outlark.review.changes import Name, changing
from outlark.review.project import (
    EMPTY_RUN,
    LARGEST_INTEGER,
    Answer,
    Asked,
    Current,
    Project,
    ProjectRecording,
    clean_name,
)
from outlark.review.queues import REJECTED, RELABELLED, with_statuses
from outlark.review.store import Action, Row
from outlark.review.training import SCORES_FILE
from outlark.segments import AMBIGUOUS, KNOWN, UNKNOWN, Segment, Span
from outlark.version import __version__

EXPORT_SCOPES = {
    "corrected": "what the model decided, with your corrections",
    "decided": "what the model decided, as 'outlark detect' writes it",
    "reviewed": "only what you annotated, confirmed or relabelled",
}
#: Bytes of a file name that every disk takes, with room for a suffix.
MAX_TABLE_NAME_BYTES = 200
#: Annotations of one class whose edges differ by no more are one: programs round times to milliseconds.
IMPORT_TOLERANCE_S = 0.001
#: Names that a message lists.
MOST_LISTED = 3
routes = APIRouter(prefix="/api", tags=["files"])


# ------------------------------------------------------------ export


@routes.get("/formats")
def formats() -> Answer:
    return {"formats": WRITTEN, "scopes": EXPORT_SCOPES}


@routes.get("/export", response_class=Response)
def export(
    project: Current,
    format: Annotated[str, Query(max_length=40)] = "raven",
    scope: Literal["corrected", "decided", "reviewed"] = "corrected",
    recording: Annotated[int | None, Query(ge=0, le=LARGEST_INTEGER)] = None,
) -> Response:
    """The annotation file of a recording, or an archive of those of all recordings."""
    if format not in WRITTEN:
        raise InputError(f"{format!r} is not a format that can be written; choose one of {', '.join(WRITTEN)}")
    recordings = project.recordings()
    names, suffix = _export_names(recordings), FORMATS[format].suffix
    chosen = recordings if recording is None else [project.recording(recording)]
    with TemporaryDirectory() as folder:
        for one in chosen:
            path = Path(folder, names[one.id] + suffix)
            path.parent.mkdir(parents=True, exist_ok=True)
            found, about = annotations_of(project, one, scope), _about(project, one, scope)
            write_annotations(path, found, format=format, about=about, paths={one.name: str(one.path)})
        files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
        tables = [path for path in files if path.name.endswith(suffix)]
        if len(chosen) == len(tables) == 1:
            name, content = _alone(names[chosen[0].id], names.values()) + suffix, tables[0].read_bytes()
        else:
            name, content = f"outlark-{scope}-{format}.zip", _zipped(files, Path(folder))
    headers = {"content-disposition": f"attachment; filename*=UTF-8''{quote(name)}", "cache-control": "no-store"}
    return Response(content, media_type="application/octet-stream", headers=headers)


def _zipped(files: Iterable[Path], folder: Path) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        for path in files:
            zipped.write(path, path.relative_to(folder).as_posix())
    return archive.getvalue()


def annotations_of(project: Project, recording: ProjectRecording, scope: str) -> list[Annotation]:
    """The rows of an annotation file, by time."""
    run, facts = project.run(), _facts(project, recording)
    names = project.class_names()
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


def _export_names(recordings: Sequence[ProjectRecording]) -> dict[int, str]:
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


def _facts(project: Project, recording: ProjectRecording) -> Facts:
    path = project.run_folder((project.run() or EMPTY_RUN)["id"], recording) / SCORES_FILE
    return Facts.of_dict(load_scores(path).facts) if path.exists() else recording.facts


def _about(project: Project, recording: ProjectRecording, scope: str) -> About:
    """The same as that of `outlark detect` with the model of the project; what was reviewed is of no model."""
    run = EMPTY_RUN if scope == "reviewed" else project.run() or EMPTY_RUN
    settings: Mapping[str, Any] = {}
    if run["model"] is not None:
        decisions = load(project.folder / run["model"]).decisions_
        settings = {"decisions": decisions.get_params(), "channel": "mix", "verdicts": [KNOWN, AMBIGUOUS, UNKNOWN]}
    facts = _facts(project, recording).as_dict()
    return About(version=__version__, model_sha256=run["sha256"], settings=settings, recording=facts)


def _of_detection(row: Row, recording: ProjectRecording, names: Mapping[int, str]) -> Annotation:
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


def _of_annotation(row: Row, recording: ProjectRecording, names: Mapping[int, str]) -> Annotation:
    rate, label = recording.sample_rate, names.get(row["class_id"])
    return Annotation(
        start_s=row["t0"] / rate, end_s=row["t1"] / rate, label=label, recording=recording.name,
        verdict=UNKNOWN if label is None else KNOWN, reason=f"{BY_HAND}: {row['origin']}", low_hz=row["low_hz"],
        high_hz=row["high_hz"], sample_rate=rate,
    )  # fmt: skip


# ------------------------------------------------------------ import


@routes.post("/recordings/{recording_id}/import", status_code=201)
async def take_table(recording: Asked, project: Current, request: Request, name: Name = Query()) -> Answer:  # noqa: B008
    """An annotation file, as the body."""
    return await run_in_threadpool(import_table, project, name, await request.body(), recording)


def import_table(project: Project, name: str, content: bytes, recording: ProjectRecording) -> Row:
    """Annotations from a file, as examples; `recording` is the one that is open.

    What the project has already is not added again. "refused" says which rows were left out, and why.
    """
    table = _read(name, content)
    targets = _Targets(table, project.recordings(), recording)
    with changing(project, None, f"import {table.path.name}") as action:
        rows = _ImportedRows(project, action)
        for annotation in filter(is_sound, table.annotations):
            target = targets.of_row(annotation)
            if target is not None:
                rows.take(annotation, target)
    remarks = [f"{number_of(rows.there, 'annotation')} there already"] if rows.there else []
    counts = {"added": rows.added, "there": rows.there, "remarks": [*remarks, *targets.remarks, *table.remarks]}
    return {**action.outcome, **counts, "refused": [*targets.refused(), *rows.refused()]}


def _read(name: str, content: bytes) -> Table:
    safe = PurePosixPath(name.replace("\\", "/")).name or "table.txt"
    if safe == ".." or "\0" in safe or len(safe.encode()) > MAX_TABLE_NAME_BYTES:
        raise InputError(f"{name!r:.80} is not the name of a file; rename it to something like table.txt")
    with TemporaryDirectory() as folder:
        path = Path(folder, safe)
        path.write_bytes(content)
        return read_annotations(path)


class _Targets:
    """The recording that each row of an annotation file is about.

    That is the one whose path ends like the one in the row; without one, the one that the file is named after; and only
    if nothing says which, the one that is open.
    """

    def __init__(self, table: Table, recordings: Sequence[ProjectRecording], opened: ProjectRecording) -> None:
        self.default: ProjectRecording | None = None
        self.left_out = Counter[str]()
        names = {annotation.recording for annotation in table.annotations if annotation.recording is not None}
        at = {recording.path.as_posix(): recording for recording in recordings}
        shown = {folded(recording.name): recording for recording in recordings}
        ours = "version" in table.about  # outlark names recordings as it shows them
        meant = meant_by(sorted(names), at)
        self.found = {name: at[one.paths[0]] for name, one in meant.items() if len(one.paths) == 1}
        self.found |= {name: shown[folded(name)] for name in names if folded(name) in shown and (ours or "/" in name)}
        self.unclear = {name: [at[path].name for path in one.paths] for name, one in meant.items() if one.paths[1:]}
        self.remarks = [
            f"{name} is taken for {self.found[name].name}, the only recording of that name"
            for name, one in meant.items()
            if one.elsewhere
        ]
        if any(annotation.recording is None for annotation in table.annotations):
            self._find_default(table, recordings, opened)

    def _find_default(self, table: Table, recordings: Sequence[ProjectRecording], opened: ProjectRecording) -> None:
        """The recording of rows that name none."""
        own = recording_of_table(table.path.name)
        at = {recording.path.as_posix(): recording for recording in recordings}
        named = [recording for recording in recordings if folded(one_name(recording.name)) == folded(own)]
        named = named or [at[path] for path in meant_by([own], at)[own].paths]
        if not named or (opened in named and len(named) > 1):
            self.default = opened
            self.remarks.append(f"nothing says which recording this is about: taken for {opened.name}, which is open")
        elif len(named) == 1:
            self.default = named[0]
            if named[0] != opened:
                self.remarks.append(f"into {named[0].name}, after which the file is named")
        else:
            self.unclear[own] = [recording.name for recording in named]

    def of_row(self, annotation: Annotation) -> ProjectRecording | None:
        target = self.default if annotation.recording is None else self.found.get(annotation.recording)
        if target is None:
            self.left_out[annotation.recording or ""] += 1
        return target

    def refused(self) -> list[str]:
        """What was left out because its recording is unclear, or not in the project."""
        said = []
        for name, several in self.unclear.items():
            n = self.left_out[name] or self.left_out[""]
            if n and name not in self.found:
                said.append(
                    f"{number_of(n, 'row')} left out: {name} could be {several[0]} or {several[1]}; give the folder in "
                    "the table (Begin Path), or in the name of the recording"
                )
        absent = {name: n for name, n in self.left_out.items() if name and name not in self.unclear}
        if absent:
            said.append(
                f"{number_of(sum(absent.values()), 'row')} left out, of recordings that are not in this project: "
                f"{_listed(absent)}; open their folder, too, and import again"
            )
        return said


def _listed(names: Iterable[str]) -> str:
    several = sorted(names)
    more = f" and {len(several) - MOST_LISTED} more" if len(several) > MOST_LISTED else ""
    return ", ".join(several[:MOST_LISTED]) + more


class _ImportedRows:
    """Adds annotations to a project that it does not have yet."""

    def __init__(self, project: Project, action: Action) -> None:
        self._project, self._action = project, action
        self._classes = {" ".join(name.split()): number for name, number in project.class_ids().items()}
        self._known: dict[tuple[int, int | None], dict[int, list[Span]]] = {}
        recordings = {recording.id: recording for recording in project.recordings()}
        for row in project.store.rows("SELECT * FROM annotation WHERE role IN ('example', 'truth')"):
            self._is_new(recordings[row["recording_id"]], row["class_id"], Span(row["t0"], row["t1"]))
        self.added = self.there = 0
        self._points, self._late, self._unnamed = 0, Counter[str](), Counter[str]()

    def take(self, annotation: Annotation, recording: ProjectRecording) -> None:
        try:
            class_id = None if annotation.label is None else self._class(annotation.label)
        except InputError as error:
            self._unnamed[str(error)] += 1
            return
        t0, t1 = (round(t * recording.sample_rate) for t in (annotation.start_s, annotation.end_s))
        if t1 <= t0:
            self._points += 1
        elif t0 >= recording.n_samples:
            self._late[recording.name] += 1
        elif self._is_new(recording, class_id, Span(t0, t1 := min(t1, recording.n_samples))):
            self.added += 1
            self._action.insert(
                "annotation", recording_id=recording.id, class_id=class_id, t0=t0, t1=t1, low_hz=annotation.low_hz,
                high_hz=annotation.high_hz, role="truth" if class_id is None else "example", origin="imported",
            )  # fmt: skip
        else:
            self.there += 1

    def refused(self) -> list[str]:
        said = [f"{number_of(n, 'row')} left out: {message}" for message, n in self._unnamed.items()]
        said += [f"{number_of(self._points, 'row')} left out: no duration"] if self._points else []
        if self._late:
            n = number_of(sum(self._late.values()), "row")
            said.append(f"{n} left out: after the end of {_listed(self._late)}; check that it is the right recording")
        return said

    def _class(self, label: str) -> int:
        name = clean_name(label, ())
        if name not in self._classes:
            self._classes[name] = self._project.add_class(self._action, name)
        return self._classes[name]

    def _is_new(self, recording: ProjectRecording, class_id: int | None, span: Span) -> bool:
        """Whether nothing of this class was known there so far; from now on, it is."""
        most = max(1, round(IMPORT_TOLERANCE_S * recording.sample_rate))
        known, near = self._known.setdefault((recording.id, class_id), {}), int(span.onset // most)
        there = any(other.is_close(span, most) for n in (near - 1, near, near + 1) for other in known.get(n, ()))
        known.setdefault(near, []).append(span)
        return not there
