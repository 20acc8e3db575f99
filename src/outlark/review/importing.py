"""Annotations from files of every format that outlark reads, into the recordings that they are about."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from outlark.annotations import Annotation, Table, read_annotations
from outlark.annotations.annotation import is_sound
from outlark.audio.sound_files import folded, meant_by, recording_of_table
from outlark.errors import InputError
from outlark.plain_text import number_of
from outlark.review.actions import outcome
from outlark.review.exporting import one_name
from outlark.review.project import Project, Recording, clean_name
from outlark.review.store import Action, Row

#: Bytes of a file name that every disk takes, with room for a suffix.
LONGEST_NAME = 200
#: Annotations of one class whose edges differ by no more are one: programs round times to milliseconds.
SAME_S = 0.001
#: Names that a message lists.
MOST_LISTED = 3


def import_table(project: Project, name: str, content: bytes, recording: Recording) -> Row:
    """Annotations from a file, as examples; `recording` is the one that is open.

    What the project has already is not added again. "refused" says which rows were left out, and why.
    """
    table = _read(name, content)
    targets = _Targets.of(table, project.recordings(), recording)
    with project.store.action(f"import {table.path.name}") as action:
        rows = _Rows(project, action)
        for annotation in filter(is_sound, table.annotations):
            target = targets.of_row(annotation)
            if target is not None:
                rows.take(annotation, target)
    remarks = [*targets.remarks, *table.remarks]
    if rows.there:
        remarks.insert(0, f"{number_of(rows.there, 'annotation')} there already")
    counts = {"added": rows.added, "there": rows.there, "remarks": remarks}
    return {**outcome(project, action.changes, "import"), **counts, "refused": [*targets.refused(), *rows.refused()]}


def _read(name: str, content: bytes) -> Table:
    safe = PurePosixPath(name.replace("\\", "/")).name or "table.txt"
    if safe == ".." or "\0" in safe or len(safe.encode()) > LONGEST_NAME:
        raise InputError(f"{name!r:.80} is not the name of a file; rename it to something like table.txt")
    with TemporaryDirectory() as folder:
        path = Path(folder, safe)
        path.write_bytes(content)
        return read_annotations(path)


@dataclass
class _Targets:
    """The recording that each row of an annotation file is about.

    That is the one whose path ends like the one in the row; without one, the one that the file is named after; and only
    if nothing says which, the one that is open.
    """

    found: dict[str, Recording]
    unclear: dict[str, list[str]]
    default: Recording | None
    remarks: list[str]
    left_out: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, table: Table, recordings: Sequence[Recording], opened: Recording) -> "_Targets":
        names = {annotation.recording for annotation in table.annotations if annotation.recording is not None}
        at = {recording.path.as_posix(): recording for recording in recordings}
        shown = {folded(recording.name): recording for recording in recordings}
        ours = "version" in table.about  # outlark names recordings as it shows them
        found = {name: shown[folded(name)] for name in names if folded(name) in shown and (ours or "/" in name)}
        meant = meant_by(sorted(names), at)
        found |= {name: at[one.paths[0]] for name, one in meant.items() if name not in found and len(one.paths) == 1}
        unclear = {name: [at[path].name for path in one.paths] for name, one in meant.items() if len(one.paths) > 1}
        remarks = [
            f"{name} is taken for {found[name].name}, the only recording of that name"
            for name, one in meant.items()
            if one.elsewhere
        ]
        targets = cls(found, unclear, None, remarks)
        if any(annotation.recording is None for annotation in table.annotations):
            targets._find_default(table, recordings, opened)
        return targets

    def _find_default(self, table: Table, recordings: Sequence[Recording], opened: Recording) -> None:
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

    def of_row(self, annotation: Annotation) -> Recording | None:
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


class _Rows:
    """Adds annotations to a project that it does not have yet."""

    def __init__(self, project: Project, action: Action) -> None:
        self._project, self._action = project, action
        self._classes = {" ".join(name.split()): number for name, number in project.class_ids().items()}
        self._known: dict[int, dict[tuple[int | None, int], list[Row]]] = {}
        self.added = self.there = 0
        self._points, self._late, self._unnamed = 0, Counter[str](), Counter[str]()

    def take(self, annotation: Annotation, recording: Recording) -> None:
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
        else:
            self._put(annotation, recording, class_id, t0, min(t1, recording.n_samples))

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
            self._classes[name] = self._action.insert("class", name=name, colour=len(self._classes) % 8)
        return self._classes[name]

    def _put(self, annotation: Annotation, recording: Recording, class_id: int | None, t0: int, t1: int) -> None:
        limits = {"low_hz": annotation.low_hz, "high_hz": annotation.high_hz}
        same = self._same(recording, class_id, t0, t1)
        if same is None:
            values = {"recording_id": recording.id, "class_id": class_id, "t0": t0, "t1": t1, **limits}
            role = "truth" if class_id is None else "example"
            number = self._action.insert("annotation", **values, role=role, origin="imported")
            self._remember(recording, {"id": number, **values})
            self.added += 1
            return
        self.there += 1
        if same["low_hz"] is None and same["high_hz"] is None and None not in limits.values():
            self._action.update("annotation", same["id"], **limits)
            same |= limits

    def _same(self, recording: Recording, class_id: int | None, t0: int, t1: int) -> Row | None:
        """The annotation of this class that the project has there already."""
        if recording.id not in self._known:
            self._known[recording.id] = {}
            for row in self._project.store.rows(
                "SELECT * FROM annotation WHERE recording_id = ? AND role IN ('example', 'truth')", recording.id
            ):
                self._remember(recording, row)
        most = _tolerance(recording)
        for bin in (t0 // most - 1, t0 // most, t0 // most + 1):
            for row in self._known[recording.id].get((class_id, bin), ()):
                if abs(row["t0"] - t0) <= most and abs(row["t1"] - t1) <= most:
                    return row
        return None

    def _remember(self, recording: Recording, row: Row) -> None:
        key = (row["class_id"], row["t0"] // _tolerance(recording))
        self._known[recording.id].setdefault(key, []).append(row)


def _tolerance(recording: Recording) -> int:
    return max(1, round(SAME_S * recording.sample_rate))
