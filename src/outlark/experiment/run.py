"""Methods × seeds: the experiment of Sec. 4.3, repeated."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from outlark.errors import InputError
from outlark.experiment.dataset import Dataset
from outlark.experiment.kept import Kept, key_of
from outlark.experiment.methods import Method, method
from outlark.experiment.outcome import Outcome, outcome
from outlark.experiment.protocol import Draw, Protocol, draw
from outlark.experiment.results import Results

Watch = Callable[[int, int], None]


def run(
    data: Dataset,
    protocol: Protocol | None = None,
    *,
    methods: Sequence[str],
    seeds: Iterable[int] = range(1, 51),
    n_jobs: int = 1,
    watch: Watch | None = None,
    kept: Kept | None = None,
) -> Results:
    """Every method on the draws of every seed.

    The results have the F of each method and seed (`values`, `mean_f`), confusion matrices and paired comparisons, and
    write themselves to CSV and JSON; `outlark.experiment.tables` makes tables of them.

    Parameters
    ----------
    data : Dataset
    protocol : Protocol, optional
        The paper's by default.
    methods : sequence of str
        As for `outlark.experiment.methods.method`.
    seeds : sequence of int
        1 to 50 by default.
    n_jobs : int
        Processes. The results do not depend on it.
    watch : function of two numbers, optional
        Is told how many seeds of how many are done.
    kept : Kept, optional
        Where each seed is kept as soon as it is done; those that are there already are not run again.
    """
    if isinstance(methods, str):
        raise InputError(f"methods={methods!r}: expected a list of names, also for one")
    chosen = [method(name) for name in dict.fromkeys(methods)]
    seeds = tuple(dict.fromkeys(seeds))
    if not chosen or not seeds:
        raise InputError("nothing to run: expected at least one method and one seed")
    if min(seeds) < 0:
        raise InputError(f"seed {min(seeds)}: expected whole numbers, 0 or more")
    protocol = Protocol() if protocol is None else protocol
    key = key_of(data, protocol, [one.name for one in chosen]) if kept is not None else ""
    before = {seed: found for seed in seeds if kept is not None and (found := kept.get(key, seed)) is not None}
    to_do = [seed for seed in seeds if seed not in before]
    by_seed = dict(before)
    for seed, found in zip(to_do, _on_each_seed(data, protocol, chosen, to_do, n_jobs), strict=True):
        by_seed[seed] = found
        if kept is not None:
            kept.add(key, seed, found)
        if watch is not None:
            watch(len(by_seed), len(seeds))
    outcomes = [one for seed in seeds for one in by_seed[seed]]
    return Results(data=data, protocol=protocol, methods=chosen, seeds=seeds, outcomes=outcomes)


def fitted(chosen: Method, drawn: Draw) -> Any:
    """A detector of the method, trained on the training notes of a draw."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of single notes: the protocol asks for them
        return chosen.make().fit(
            [note.samples for note in drawn.train], [note.label for note in drawn.train], drawn.sample_rate
        )


def _on_each_seed(
    data: Dataset, protocol: Protocol, chosen: Sequence[Method], seeds: Sequence[int], n_jobs: int
) -> Iterator[list[Outcome]]:
    names = [one.name for one in chosen]
    if n_jobs == 1:
        yield from (_seed(data, protocol, names, seed) for seed in seeds)
        return
    calls = (delayed(_seed)(data, protocol, names, seed) for seed in seeds)
    yield from Parallel(n_jobs=n_jobs, return_as="generator")(calls)


def _seed(data: Dataset, protocol: Protocol, names: Sequence[str], seed: int) -> list[Outcome]:
    drawn, found = draw(data, protocol, seed), []
    for name in names:
        detector = fitted(method(name), drawn)
        with threadpool_limits(1):
            segments = detector.detect(drawn.audio, drawn.sample_rate)
        found.append(outcome(name, seed, drawn, segments, settings(detector)))
    return found


def settings(detector: Any) -> dict[str, object]:
    """What was learnt, as far as the detector tells: thresholds, ℓ, σ_reg²/σ²."""
    learnt: dict[str, object] = {}
    layout = getattr(detector, "layout_", None)
    if layout is not None:
        names = [str(label) for label in np.asarray(layout.classes).tolist()]
        learnt["thresholds"] = dict(zip(names, np.asarray(layout.thresholds, dtype=float).tolist(), strict=True))
    describer = getattr(detector, "describer_", None)
    for name in ("length_scale_", "sigma_", "sigma_reg_"):
        value = getattr(describer, name, None)
        if isinstance(value, float | np.floating):
            learnt[name.rstrip("_")] = float(value)
    return learnt
