"""What an experiment has done so far, in a file beside its results: one that is stopped goes on where it was."""

import hashlib
import json
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from outlark.errors import InputError
from outlark.experiment.dataset import Dataset
from outlark.experiment.outcome import Outcome
from outlark.experiment.protocol import Protocol
from outlark.metrics.confusion import ConfusionMatrix
from outlark.metrics.windows import FScores

NAME = "seeds_done.jsonl"


class Kept:
    """The outcomes of seeds that are done, a line of JSON each.

    A line counts for the same notes, protocol, methods and code only, so that no two versions are ever mixed.

    Parameters
    ----------
    folder : Path
        Of the results. The file is made with the first seed.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self._found = _read(self.path)

    def __len__(self) -> int:
        return len(self._found)

    def get(self, key: str, seed: int) -> list[Outcome] | None:
        """The outcomes of a seed, if they are there."""
        return self._found.get((key, seed))

    def add(self, key: str, seed: int, outcomes: Sequence[Outcome]) -> None:
        """Keep the outcomes of a seed; they are on the disk when this returns."""
        line = json.dumps({"key": key, "seed": seed, "outcomes": [_plain(one) for one in outcomes]})
        try:
            with open(self.path, "a+b") as file:
                if file.tell() and not _ends_a_line(file):
                    file.write(b"\n")  # a line that was cut short stays one of its own
                file.write(line.encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise InputError(f"{self.path} cannot be written ({error.strerror}); choose another --output") from None
        self._found[key, seed] = list(outcomes)

    def remove(self) -> None:
        """All is done and written: nothing is to be gone on with."""
        self.path.unlink(missing_ok=True)


def key_of(data: Dataset, protocol: Protocol, methods: Sequence[str]) -> str:
    """A digest of all that the outcomes of a seed depend on."""
    sha = hashlib.sha256()
    for part in (_code(), data.sample_rate, data.known, protocol, list(methods)):
        sha.update(f"{part!r}\n".encode())
    for note in data.notes:
        sha.update(f"{note.label!r} {note.group!r} {note.samples.dtype} {len(note.samples)}\n".encode())
        sha.update(np.ascontiguousarray(note.samples).tobytes())
    return sha.hexdigest()


@cache
def _code() -> str:
    """A digest of outlark itself, as it is installed here."""
    sha = hashlib.sha256()
    package = Path(__file__).parents[1]
    for path in sorted(package.rglob("*.py")):
        sha.update(str(path.relative_to(package)).encode() + path.read_bytes())
    return sha.hexdigest()


def _ends_a_line(file: Any) -> bool:
    file.seek(-1, os.SEEK_END)
    return bool(file.read(1) == b"\n")


def _read(path: Path) -> dict[tuple[str, int], list[Outcome]]:
    """What is there; a line that was cut short, or is none of ours, is as if it were not."""
    found: dict[tuple[str, int], list[Outcome]] = {}
    if not path.is_file():
        return found
    for line in path.read_bytes().splitlines():
        try:
            row = json.loads(line)
            found[str(row["key"]), int(row["seed"])] = [_outcome(one) for one in row["outcomes"]]
        except (ValueError, KeyError, TypeError):
            continue
    return found


def _plain(one: Outcome) -> dict[str, Any]:
    return {
        "method": one.method,
        "seed": one.seed,
        "known": list(one.known),
        "f": {level: _plain_f(scores) for level, scores in one.f.items()},
        "event_f": float(one.event_f),
        "settings": dict(one.settings),
    }


def _plain_f(scores: FScores) -> dict[str, Any]:
    matrix = scores.confusion
    return {
        "classes": list(scores.classes),
        "per_class": scores.per_class.tolist(),
        **{name: float(getattr(scores, name)) for name in ("unknown", "macro_known", "macro_all")},
        "chance": {name: float(value) for name, value in scores.chance.items()},
        "confusion": [matrix.counts.tolist(), list(matrix.row_labels), list(matrix.column_labels)],
    }


def _outcome(row: dict[str, Any]) -> Outcome:
    return Outcome(**{**row, "known": tuple(row["known"]), "f": {level: _f(f) for level, f in row["f"].items()}})


def _f(row: dict[str, Any]) -> FScores:
    counts, rows, columns = row["confusion"]
    whole = np.array(counts, dtype=np.int64).reshape(len(rows), len(columns))
    matrix = ConfusionMatrix(whole, tuple(rows), tuple(columns))
    per_class = np.array(row["per_class"], dtype=float)
    return FScores(**{**row, "classes": tuple(row["classes"]), "per_class": per_class, "confusion": matrix})
