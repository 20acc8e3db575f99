"""A project: its recordings, classes, runs and where everything is; jobs in the background; what requests may hold."""

import json
import sqlite3
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, Header, Query, Request
from fastapi import Path as InPath
from pydantic import BaseModel, ConfigDict, Field

from outlark.audio.facts import Facts
from outlark.audio.recording import Recording
from outlark.errors import AudioError, InputError, OutlarkError, Problem
from outlark.plain_text import number_of, visible, writable
from outlark.review import identity
from outlark.review.store import Action, Row, Store, check_and_copy, insert
from outlark.review.tiles import Levels, Pyramid
from outlark.segments import SILENCE, Segment

PROJECT_FILE = "project.sqlite"
#: The folder of a project beside the recordings.
PROJECT_FOLDER = "outlark-review"
LONGEST_CLASS_NAME = 60
#: Colours of classes on the page.
N_COLOURS = 8
#: States of a run: being made beside the one that is shown; shown (now or before); its unknown sounds are grouped, too.
RUN_IN_PROGRESS, RUN_SHOWN, RUN_GROUPED = "making", "shown", "grouped"
#: The setting that says which run is shown; without it, the first one.
RUN_SETTING = "run"
#: What is shown before there is a run; no row has the id NULL.
EMPTY_RUN: Row = {
    "id": None, "model": None, "sha256": None, "classes": [], "thresholds": {}, "remarks": [], "scanned": [],
    "heard": {}, "health": {"priors": {}, "notes": {}},
}  # fmt: skip


@dataclass(frozen=True)
class ProjectRecording:
    """A recording of a project: a row of its table."""

    id: int
    path: Path
    name: str
    sample_rate: int
    channels: int
    n_samples: int
    facts: Facts
    #: Names the folder of what is computed from the recording, and changes with its sound.
    key: str

    @classmethod
    def of_row(cls, row: Row) -> "ProjectRecording":
        same = {name: row[name] for name in ("id", "name", "sample_rate", "channels", "n_samples", "key")}
        return cls(path=identity.path_of(row), facts=Facts.of_dict(json.loads(row["facts"])), **same)

    @property
    def seconds(self) -> float:
        return self.n_samples / self.sample_rate

    @property
    def missing(self) -> bool:
        return not self.path.is_file()

    @property
    def sound(self) -> Recording:
        """Raises `AudioError` if it cannot be read any more."""
        return Recording(self.path)


class Project:
    """Everything that the page works on, kept in a folder, which is created if missing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            for name in ("cache", "models", "uploads"):
                (folder / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"{folder} cannot be written to ({error.strerror}); give a folder for the project with --project"
            ) from None
        #: What users should know about the project file.
        self.remarks = check_and_copy(folder / PROJECT_FILE)
        self.store = Store(folder / PROJECT_FILE)
        self.jobs = Jobs()
        self.chores = Jobs()  # what nobody has to wait for
        self._pyramids: dict[int, Pyramid] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()

    def add(self, path: Path, name: str) -> ProjectRecording:
        """Add a recording, unless it is there already."""
        problems = identity.add(self.store, self.folder, path, name)
        if problems:
            raise AudioError(problems[0].message)
        return next(recording for recording in self.recordings() if recording.path == path.resolve())

    def missing(self) -> list[Problem]:
        """Says which recordings are not there, if any."""
        names = [recording.name for recording in self.recordings() if recording.missing]
        if not names:
            return []
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        message = f"{shown}; what you did to them is kept and exported. Put the files back, or open their new folder"
        return [Problem(f"{number_of(len(names), 'recording')} missing", message)]

    def recordings(self) -> list[ProjectRecording]:
        """All recordings, by name."""
        return [ProjectRecording.of_row(row) for row in self.store.rows("SELECT * FROM recording ORDER BY name, id")]

    def recording(self, number: int) -> ProjectRecording:
        return ProjectRecording.of_row(self.existing("recording", number))

    def existing(self, table: str, number: int) -> Row:
        """The row with this id; `GoneError` without one."""
        row = self.store.row(f'SELECT * FROM "{table}" WHERE id = ?', number)
        if row is None:
            raise GoneError(f"there is no {table} {number}; it may have been removed or replaced: reload the page")
        return row

    def pyramid(self, recording: ProjectRecording) -> Pyramid:
        """The spectrogram of a recording, which may still be under construction."""
        with self._lock:
            if recording.id not in self._pyramids:
                levels = Levels.of(recording.sample_rate, recording.n_samples)
                pyramid = Pyramid(recording.path, self.folder / "cache" / recording.key, levels)
                self._pyramids[recording.id] = pyramid
                if not pyramid.whole:
                    threading.Thread(target=self._build, args=(pyramid,), daemon=True).start()
            return self._pyramids[recording.id]

    def _build(self, pyramid: Pyramid) -> None:
        try:
            pyramid.build(self._stop.is_set)
        except (OutlarkError, OSError) as error:
            pyramid.error = str(error)

    def close(self) -> None:
        """Stop what runs in the background and close the file."""
        self._stop.set()
        self.jobs.stop(10.0)
        self.chores.stop(10.0)
        self.store.close()

    def classes(self) -> list[Row]:
        """All classes, in the order of their keys."""
        return self.store.rows("SELECT id, name, colour FROM class ORDER BY id")

    def class_ids(self) -> dict[str, int]:
        """Name → id."""
        return {row["name"]: row["id"] for row in self.classes()}

    def class_names(self) -> dict[int, str]:
        """Id → name."""
        return {row["id"]: row["name"] for row in self.classes()}

    def add_class(self, action: Action, name: str) -> int:
        """A new class, in the colour that the fewest others have; its id."""
        used = Counter(row["colour"] for row in self.classes())
        return action.insert("class", name=name, colour=min(range(N_COLOURS), key=lambda one: used[one]))

    def run(self, number: int | None = None) -> Row | None:
        """The run of this number, else the one that is shown; None before training."""
        row = self.store.row(
            "SELECT * FROM run WHERE state != ? OR id = ? ORDER BY id = ? DESC, id = ? DESC, id LIMIT 1",
            RUN_IN_PROGRESS, number, number or 0, self.setting(RUN_SETTING) or 0,
        )  # fmt: skip
        if row is None:
            return None
        parsed = ("classes", "thresholds", "examples", "health", "remarks", "scanned", "heard")
        return row | {name: json.loads(row[name]) for name in parsed}

    def run_folder(self, run_id: int | None, recording: ProjectRecording) -> Path:
        """The folder for curves and scores of a recording."""
        return self.folder / "cache" / f"run-{run_id}" / recording.key

    def setting(self, name: str) -> Any:
        return json.loads(self.store.value("SELECT value FROM setting WHERE name = ?", name) or "null")

    def set(self, action: Action, name: str, value: Any) -> None:
        known = self.store.value("SELECT id FROM setting WHERE name = ?", name)
        if known is None:
            action.insert("setting", name=name, value=json.dumps(value))
        else:
            action.update("setting", known, value=json.dumps(value))

    def wanted_thresholds(self, run: Row) -> dict[str, float]:
        """Class name → threshold: set by hand, else from training."""
        return {**run["health"]["priors"], **(self.setting(f"thresholds {run['id']}") or {})}


class GoneError(InputError):
    """There is nothing with the requested id."""


def insert_detections(
    db: sqlite3.Connection, run_id: int, recording: ProjectRecording, ids: Mapping[str, int], found: Iterable[Segment]
) -> None:
    """Store what a run has found in a recording, with the ids of its classes."""
    for s in found:
        if s.verdict != SILENCE:
            row = {
                "run_id": run_id, "recording_id": recording.id, "verdict": s.verdict, "t0": s.start, "t1": s.end,
                "class_id": None if s.label is None else ids[str(s.label)], "score": float(s.score),
                "runner_up": None if s.runner_up is None else str(s.runner_up),
                "runner_up_score": float(s.runner_up_score), "reason": s.reason, "low_hz": s.low_hz,
                "high_hz": s.high_hz,
            }  # fmt: skip
            insert(db, "detection", row)


def clean_name(name: str, taken: Container[str]) -> str:
    """A name for a class that annotation files can hold.

    >>> clean_name("  song ", [])
    'song'
    """
    name = writable(" ".join(name.split()))
    if not name or len(name) > LONGEST_CLASS_NAME or visible(name) != name:
        raise InputError(
            f"{name!r:.80} cannot be the name of a class; give 1 to {LONGEST_CLASS_NAME} visible characters"
        )
    if name in taken:
        raise InputError(f"there is a class {name!r} already; give another name")
    return name


# ------------------------------------------------------------ jobs


class CancelledError(Exception):
    """Raised inside a job that has to stop."""


@dataclass
class Job:
    """A piece of work in the background; `message` says what it is doing, or why it failed.

    Its state is "running", "done", "failed" or "cancelled". `searched` counts the `recordings` that it has searched for
    the run of number `run`.
    """

    id: int
    kind: str
    state: str = "running"
    progress: float = 0.0
    message: str = ""
    run: int | None = None
    searched: int = 0
    recordings: int = 0
    _stop: threading.Event = field(default_factory=threading.Event, repr=False)

    def tell(self, progress: float, message: str) -> None:
        """Report progress; raises `CancelledError` if the job has to stop."""
        self.progress, self.message = min(1.0, progress), message
        if self._stop.is_set():
            raise CancelledError

    def cancel(self) -> None:
        """Ask the job to stop at its next step."""
        self._stop.set()

    def as_dict(self) -> Row:
        return {name: value for name, value in vars(self).items() if name != "_stop"}

    def do(self, work: Callable[["Job"], None]) -> None:
        try:
            work(self)
            self.progress, self.state = 1.0, "done"
        except CancelledError:
            self.message, self.state = "cancelled", "cancelled"
        except (OutlarkError, OSError) as error:
            self.message, self.state = str(error), "failed"
        except Exception as error:  # a bug must not leave the page waiting
            traceback.print_exc()
            self.message, self.state = f"an error in outlark ({type(error).__name__}: {error})", "failed"


class Jobs:
    """Starts jobs, one at a time, and remembers how they ended.

    >>> jobs = Jobs()
    >>> job = jobs.start("count", lambda job: job.tell(0.5, "half"))
    >>> jobs.wait()
    >>> job.state, job.message
    ('done', 'half')
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.all: list[Job] = []
        self._thread: threading.Thread | None = None

    @property
    def last(self) -> Job | None:
        """The running job, or the last one."""
        return self.all[-1] if self.all else None

    @property
    def running(self) -> bool:
        return self.last is not None and self.last.state == "running"

    def check_idle(self) -> None:
        """An error while a job is running."""
        if self.running:
            raise InputError(f"{self.all[-1].kind} is still running; wait for it, or cancel it")

    def start(self, kind: str, work: Callable[[Job], None]) -> Job:
        """Start a job; an error while another is running."""
        with self._lock:
            self.check_idle()
            job = Job(len(self.all) + 1, kind)
            self.all.append(job)
            self._thread = threading.Thread(target=job.do, args=(work,), daemon=True, name=f"job {job.id}: {kind}")
            self._thread.start()
        return job

    def wait(self, timeout_s: float | None = None) -> None:
        """Until the running job has ended."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def stop(self, timeout_s: float | None = None) -> None:
        """Cancel the running job, and wait for its end."""
        if self.last is not None:
            self.last.cancel()
        self.wait(timeout_s)


# ------------------------------------------------------------ requests

Answer = dict[str, Any]
#: Whole numbers that SQLite, JSON and JavaScript hold alike.
LARGEST_INTEGER = 2**53
Number = Annotated[int, Field(ge=0, le=LARGEST_INTEGER)]
Id = Annotated[int, InPath(ge=0, le=LARGEST_INTEGER)]
Seconds = Annotated[float, Query(ge=0, le=1e8, allow_inf_nan=False)]
#: The number of a run; without it, or if there is none of this number any more, the one that is shown.
Run = Annotated[int | None, Query(ge=0, le=LARGEST_INTEGER)]
#: The key of a change, by which it is known when it comes again.
KEY_PATTERN = r"^[0-9a-z-]{8,64}$"
IdempotencyKey = Annotated[str | None, Header(alias="idempotency-key", pattern=KEY_PATTERN)]
KeyField = Annotated[str | None, Field(pattern=KEY_PATTERN)]


class Body(BaseModel):
    """A body without other fields."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


async def _project(request: Request) -> Project:
    project: Project = request.app.state.opened.project
    return project


Current = Annotated[Project, Depends(_project)]


def _recording(recording_id: Id, project: Current) -> ProjectRecording:
    return project.recording(recording_id)


#: The recording in the path of a request, or 404.
Asked = Annotated[ProjectRecording, Depends(_recording)]
