"""How far a run is, and what came of it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from outlark.batch.sources import Failure


@dataclass(kw_only=True)
class State:
    """How far a run is.

    Attributes
    ----------
    total, done, skipped : int
        Files: all, those that are finished (well or not), and of these such as had been done before.
    resumed : int
        Parts of long recordings that had been done before.
    bytes_total, bytes_done : float
        Of the files that had to be done, so that the time left can be told; those under way count in part.
    seconds : float
        Of sound that was worked on.
    failures : list of Failure
        What could not be done.
    partial : list of Failure
        What was done in part: recordings that were cut short, or written to meanwhile.
    remarks : list of Failure
        What else is odd about recordings that are done.
    changed : list of str
        Files that had been done before, and were done again because they are not what they were.
    segments : Counter
        How many of each verdict, also of files that had been done before.
    """

    total: int
    done: int = 0
    skipped: int = 0
    resumed: int = 0
    bytes_total: float = 0.0
    bytes_done: float = 0.0
    seconds: float = 0.0
    failures: list[Failure] = field(default_factory=list)
    partial: list[Failure] = field(default_factory=list)
    remarks: list[Failure] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    segments: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, kw_only=True)
class Report:
    """What came of a run.

    Attributes
    ----------
    recordings, done, skipped : int
        All; those that this run did; those that had been done before.
    resumed : int
        Parts of long recordings that had been done before.
    failures : tuple of Failure
        What could not be done, by name.
    partial, remarks : tuple of Failure
        What was done in part, and what else is odd about recordings that are done; by name, also of earlier runs.
    changed : tuple of str
        What had been done before and was done again, because the file had changed.
    segments : dict of str to int
        How many of each verdict were written.
    seconds : float
        Of sound that this run worked on.
    combined, parquet, failures_file, remarks_file : Path or None
    """

    recordings: int
    done: int
    skipped: int
    resumed: int
    failures: tuple[Failure, ...]
    partial: tuple[Failure, ...]
    remarks: tuple[Failure, ...]
    changed: tuple[str, ...]
    segments: Mapping[str, int]
    seconds: float
    combined: Path | None
    parquet: Path | None
    failures_file: Path | None
    remarks_file: Path | None
