"""A project: its recordings, its classes, and where everything is."""

import json
import os
import sqlite3
import threading
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outlark.audio.facts import Facts
from outlark.audio.recording import Recording as AudioRecording
from outlark.errors import AudioError, InputError, OutlarkError
from outlark.plain_text import number_of, visible, writable
from outlark.review import registering
from outlark.review.backup import secured
from outlark.review.identity import Problem, path_of
from outlark.review.store import Row, Store
from outlark.review.tiles import Levels, Pyramid

FILE = "project.sqlite"
#: The folder of a project beside the recordings.
FOLDER = "outlark-review"
LONGEST_NAME = 60
#: States of a job.
RUNNING, DONE, FAILED, CANCELLED = "running", "done", "failed", "cancelled"
#: States of a run: being made beside the one that is shown; shown (now or before); its unknown sounds are grouped, too.
MAKING, SHOWN, GROUPED = "making", "shown", "grouped"
#: The setting that says which run is shown; without it, the first one.
RUN = "run"


@dataclass(frozen=True)
class Recording:
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

    @property
    def seconds(self) -> float:
        return self.n_samples / self.sample_rate

    @property
    def missing(self) -> bool:
        return not self.path.is_file()


class Project:
    """Everything that the page works on, kept in a folder, which is created if missing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name in ("cache", "models", "uploads"):
                (folder / name).mkdir(exist_ok=True)
        except OSError as error:
            raise InputError(
                f"{folder} cannot be written to ({error.strerror}); give a folder for the project with --project"
            ) from None
        #: What users should know about the project file.
        self.remarks = secured(folder / FILE)
        self.store = Store(folder / FILE)
        self.jobs = Jobs()
        self.chores = Jobs()  # what nobody has to wait for
        self._pyramids: dict[int, Pyramid] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()

    # ------------------------------------------------------------ recordings

    def register(self, files: Sequence[tuple[Path, str]]) -> list[Problem]:
        """Find the recordings of the project among these files and elsewhere, and add new ones; what went wrong."""
        return registering.register(self.store, self.folder, files)

    def add(self, path: Path, name: str) -> Recording:
        """Add a recording, unless it is there already."""
        problem = registering.add(self.store, self.folder, path, name)
        if problem is not None:
            raise AudioError(problem["message"])
        path = Path(os.path.realpath(path))
        return next(recording for recording in self.recordings() if recording.path == path)

    def missing(self) -> list[Problem]:
        """Says which recordings are not there, if any."""
        names = [recording.name for recording in self.recordings() if recording.missing]
        if not names:
            return []
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        message = f"{shown}; what you did to them is kept and exported. Put the files back, or open their new folder"
        return [{"name": f"{number_of(len(names), 'recording')} missing", "message": message}]

    def recordings(self) -> list[Recording]:
        """All recordings, by name."""
        return [_recording(row) for row in self.store.rows("SELECT * FROM recording ORDER BY name, id")]

    def recording(self, number: int) -> Recording | None:
        row = self.store.row("SELECT * FROM recording WHERE id = ?", number)
        return None if row is None else _recording(row)

    def sound(self, recording: Recording) -> AudioRecording:
        return AudioRecording(recording.path)

    def pyramid(self, recording: Recording) -> Pyramid:
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

    # --------------------------------------------------------------- classes

    def classes(self) -> list[Row]:
        """All classes, in the order of their keys."""
        return self.store.rows("SELECT id, name, colour FROM class ORDER BY id")

    def class_ids(self) -> dict[str, int]:
        """Name → id."""
        return {row["name"]: row["id"] for row in self.classes()}

    # ------------------------------------------------------------------ runs

    def run(self, number: int | None = None) -> Row | None:
        """The run of this number, else the one that is shown; None before training."""
        row = self.store.row(
            "SELECT * FROM run WHERE state != ? OR id = ? ORDER BY id = ? DESC, id = ? DESC, id LIMIT 1",
            MAKING, number, number or 0, self.setting(RUN) or 0,
        )  # fmt: skip
        if row is None:
            return None
        parsed = ("classes", "thresholds", "examples", "health", "remarks", "scanned", "heard")
        return row | {name: json.loads(row[name]) for name in parsed}

    def run_folder(self, run_id: int, recording: Recording) -> Path:
        """The folder for curves and scores of a recording."""
        return self.folder / "cache" / f"run-{run_id}" / recording.key

    def setting(self, name: str) -> Any:
        row = self.store.row("SELECT value FROM setting WHERE name = ?", name)
        return None if row is None else json.loads(row["value"])

    def wanted_thresholds(self, run: Row) -> dict[str, float]:
        """Class name → threshold: set by hand, else from training."""
        return {**run["health"]["priors"], **(self.setting(f"thresholds {run['id']}") or {})}


def insert_detections(db: sqlite3.Connection, rows: Iterable[tuple[Any, ...]]) -> None:
    db.executemany(
        "INSERT INTO detection (run_id, recording_id, class_id, verdict, t0, t1, score, runner_up, runner_up_score, "
        "reason, low_hz, high_hz) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        rows,
    )


def clean_name(name: str, taken: Sequence[str]) -> str:
    """A name for a class that annotation files can hold.

    >>> clean_name("  song ", [])
    'song'
    """
    name = writable(" ".join(name.split()))
    if not name or len(name) > LONGEST_NAME or visible(name) != name:
        raise InputError(f"{name!r:.80} cannot be the name of a class; give 1 to {LONGEST_NAME} visible characters")
    if name in taken:
        raise InputError(f"there is a class {name!r} already; give another name")
    return name


def _recording(row: Row) -> Recording:
    same = {name: row[name] for name in ("id", "name", "sample_rate", "channels", "n_samples", "key")}
    return Recording(path=path_of(row), facts=Facts.of_dict(json.loads(row["facts"])), **same)


# ------------------------------------------------------------ jobs


class Cancelled(Exception):
    """Raised inside a job that has to stop."""


@dataclass
class Job:
    """A piece of work in the background; `message` says what it is doing, or why it failed.

    `searched` counts the `recordings` that it has searched for the run of number `run`.
    """

    id: int
    kind: str
    state: str = RUNNING
    progress: float = 0.0
    message: str = ""
    run: int | None = None
    searched: int = 0
    recordings: int = 0
    _stop: threading.Event = field(default_factory=threading.Event, repr=False)

    def tell(self, progress: float, message: str) -> None:
        """Report progress; raises `Cancelled` if the job has to stop."""
        self.progress, self.message = min(1.0, progress), message
        if self._stop.is_set():
            raise Cancelled

    def cancel(self) -> None:
        """Ask the job to stop at its next step."""
        self._stop.set()

    def as_dict(self) -> dict[str, Any]:
        shown = ("id", "kind", "state", "progress", "message", "run", "searched", "recordings")
        return {name: getattr(self, name) for name in shown}


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
        self._jobs: dict[int, Job] = {}
        self._thread: threading.Thread | None = None

    @property
    def last(self) -> Job | None:
        """The running job, or the last one."""
        return self._jobs[max(self._jobs)] if self._jobs else None

    @property
    def running(self) -> bool:
        return self.last is not None and self.last.state == RUNNING

    def check_idle(self) -> None:
        """An error while a job is running."""
        if self.last is not None and self.last.state == RUNNING:
            raise InputError(f"{self.last.kind} is still running; wait for it, or cancel it")

    def start(self, kind: str, work: Callable[[Job], None]) -> Job:
        """Start a job; an error while another is running."""
        with self._lock:
            self.check_idle()
            job = Job(len(self._jobs) + 1, kind)
            self._jobs[job.id] = job
            self._thread = threading.Thread(target=_run, args=(job, work), daemon=True, name=f"job {job.id}: {kind}")
            self._thread.start()
        return job

    def get(self, number: int) -> Job | None:
        return self._jobs.get(number)

    def wait(self, timeout_s: float | None = None) -> None:
        """Until the running job has ended."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def stop(self, timeout_s: float | None = None) -> None:
        """Cancel the running job, and wait for its end."""
        if self.last is not None:
            self.last.cancel()
        self.wait(timeout_s)


def _run(job: Job, work: Callable[[Job], None]) -> None:
    try:
        work(job)
        job.progress, job.state = 1.0, DONE
    except Cancelled:
        job.message, job.state = "cancelled", CANCELLED
    except (OutlarkError, OSError) as error:
        job.message, job.state = str(error), FAILED
    except Exception as error:  # a bug must not leave the page waiting
        traceback.print_exc()
        job.message, job.state = f"an error in outlark ({type(error).__name__}: {error})", FAILED
