"""Methods × seeds: the experiment of Sec. 4.3, repeated."""

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from outlark.errors import InputError
from outlark.metrics.windows import ConfusionMatrix, f_of_confusion
from outlark.paper.dataset import Dataset
from outlark.paper.methods import Method, method
from outlark.paper.protocol import Draw, Protocol, draw
from outlark.paper.results import Outcome, Results, outcome


def run(
    data: Dataset,
    protocol: Protocol | None = None,
    *,
    methods: Sequence[str],
    seeds: Iterable[int] = range(1, 51),
    n_jobs: int = 1,
    watch: Callable[[int, int], None] | None = None,
    checkpoint: "Checkpoint | None" = None,
) -> Results:
    """Every method on the draws of every seed.

    Parameters
    ----------
    protocol : Protocol, optional
        The paper's by default.
    methods : sequence of str
        As for `outlark.paper.methods.method`.
    seeds : sequence of int
        1 to 50 by default.
    n_jobs : int
        Number of processes. The results do not depend on it.
    watch : function of two numbers, optional
        Called with the number of finished seeds and of all seeds.
    checkpoint : Checkpoint, optional
        Where each seed is stored as soon as it is finished; stored seeds are not run again.
    """
    if isinstance(methods, str):
        raise InputError(f"methods={methods!r}: expected a list of names, even for one method")
    chosen = [method(name) for name in dict.fromkeys(methods)]
    seeds = tuple(dict.fromkeys(seeds))
    if not chosen or not seeds:
        raise InputError("nothing to run: expected at least one method and one seed")
    if min(seeds) < 0:
        raise InputError(f"seed {min(seeds)}: expected whole numbers, 0 or more")
    protocol = Protocol() if protocol is None else protocol
    names = [one.name for one in chosen]
    key = key_of(data, protocol, names) if checkpoint is not None else ""
    by_seed = {seed: found for seed in seeds if checkpoint is not None and (found := checkpoint.get(key, seed))}
    to_do = [seed for seed in seeds if seed not in by_seed]
    calls = (delayed(_seed)(data, protocol, names, seed) for seed in to_do)
    for seed, found in zip(to_do, Parallel(n_jobs=n_jobs, return_as="generator")(calls), strict=True):
        by_seed[seed] = found
        if checkpoint is not None:
            checkpoint.add(key, seed, found)
        if watch is not None:
            watch(len(by_seed), len(seeds))
    outcomes = [one for seed in seeds for one in by_seed[seed]]
    return Results(data=data, protocol=protocol, methods=chosen, seeds=seeds, outcomes=outcomes)


def fitted(chosen: Method, drawn: Draw) -> Any:
    """A detector of the method, trained on the training notes of a draw."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about single notes: the protocol asks for them
        return chosen.make().fit(
            [note.samples for note in drawn.train], [note.label for note in drawn.train], drawn.sample_rate
        )


def _seed(data: Dataset, protocol: Protocol, names: Sequence[str], seed: int) -> list[Outcome]:
    drawn, found = draw(data, protocol, seed), []
    for name in names:
        detector = fitted(method(name), drawn)
        with threadpool_limits(1):
            segments = detector.detect(drawn.audio, drawn.sample_rate)
        found.append(outcome(name, seed, drawn, segments, settings(detector)))
    return found


def settings(detector: Any) -> dict[str, object]:
    """What the detector learnt, as far as it has them: thresholds, ℓ, σ, σ_reg."""
    learnt: dict[str, object] = {}
    layout = getattr(detector, "layout_", None)
    if layout is not None:
        names = [str(label) for label in np.asarray(layout.classes).tolist()]
        learnt["thresholds"] = dict(zip(names, np.asarray(layout.thresholds, dtype=float).tolist(), strict=True))
    class_model = getattr(detector, "class_model_", None)
    for name in ("length_scale_", "sigma_", "sigma_reg_"):
        value = getattr(class_model, name, None)
        if isinstance(value, float | np.floating):
            learnt[name.rstrip("_")] = float(value)
    return learnt


class Checkpoint:
    """The outcomes of finished seeds, one line of JSON each, so that an interrupted experiment can resume.

    A line only counts for the same notes, protocol, methods and code, so that versions are never mixed. Every line
    starts with its line feed, so that one that was cut off does not spoil the next.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "seeds_done.jsonl"
        self._found = dict(_stored(self.path.read_bytes())) if self.path.is_file() else {}

    def __len__(self) -> int:
        return len(self._found)

    def get(self, key: str, seed: int) -> list[Outcome] | None:
        return self._found.get((key, seed))

    def add(self, key: str, seed: int, outcomes: Sequence[Outcome]) -> None:
        """Store the outcomes of a seed; they are on disk when this returns."""
        line = json.dumps({"key": key, "seed": seed, "outcomes": [_as_row(one) for one in outcomes]})
        try:
            with open(self.path, "ab") as file:
                file.write(b"\n" + line.encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise InputError(f"cannot write {self.path} ({error.strerror}); choose another --output") from None
        self._found[key, seed] = list(outcomes)

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


def _stored(content: bytes) -> Iterator[tuple[tuple[str, int], list[Outcome]]]:
    """The seeds that are stored; truncated or foreign lines are ignored."""
    for line in content.splitlines():
        try:
            row = json.loads(line)
            yield (str(row["key"]), int(row["seed"])), [_from_row(one) for one in row["outcomes"]]
        except (ValueError, KeyError, TypeError):
            continue


def key_of(data: Dataset, protocol: Protocol, methods: Sequence[str]) -> str:
    """A digest of everything that the outcomes of a seed depend on."""
    sha = hashlib.sha256()
    for part in (_code(), data.sample_rate, data.known, protocol, list(methods)):
        sha.update(f"{part!r}\n".encode())
    for note in data.notes:
        sha.update(f"{note.label!r} {note.group!r} {note.samples.dtype} {len(note.samples)}\n".encode())
        sha.update(np.ascontiguousarray(note.samples).tobytes())
    return sha.hexdigest()


@cache
def _code() -> str:
    """A digest of outlark as installed here."""
    sha = hashlib.sha256()
    package = Path(__file__).parents[1]
    for path in sorted(package.rglob("*.py")):
        sha.update(str(path.relative_to(package)).encode() + path.read_bytes())
    return sha.hexdigest()


def _as_row(one: Outcome) -> dict[str, Any]:
    matrices = {level: scores.confusion for level, scores in one.f.items()}
    counts = {level: (m.counts.tolist(), m.row_labels, m.column_labels) for level, m in matrices.items()}
    return {**vars(one), "event_f": float(one.event_f), "settings": dict(one.settings), "f": counts}


def _from_row(row: dict[str, Any]) -> Outcome:
    f = {level: f_of_confusion(_matrix(*counts)) for level, counts in row["f"].items()}
    return Outcome(**{**row, "known": tuple(row["known"]), "f": f})


def _matrix(counts: list[list[int]], rows: list[str], columns: list[str]) -> ConfusionMatrix:
    return ConfusionMatrix(np.reshape(counts, (len(rows), len(columns))).astype(np.int64), tuple(rows), tuple(columns))
