"""Open-set accuracy: MDD-KM against its peers on public data.

Every pair and every triple of classes of a data set is known in turn and the rest unknown (three classes: every pair;
two classes: each one alone), with ten seeds. Train: half of each known class, at most 40 samples. Test: the rest of the
known classes and all samples of the unknown ones. A number is the mean over all draws of a set; ranks compare these
means. Draws of one set share samples, so they are no independent trials.

    python benchmarks/open_set.py                      # everything
    python benchmarks/open_set.py --max-draws 20 -j 2  # a quick look
"""

import argparse
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import rank_statistics as statistics
import scipy
import sklearn
from joblib import Parallel, delayed
from open_set_data import FRESH_NAMES, SET_NAMES, DataSet, Draw, draws_of, load, split
from peers import METHODS
from scipy.stats import rankdata
from threadpoolctl import threadpool_limits

import outlark
from outlark import metrics
from outlark.metrics.windows import aligned_table

METRICS = {
    "AUROC": metrics.auroc,
    "OSCR": metrics.oscr,
    "FPR@95": metrics.fpr_at_tpr,
    "accuracy": metrics.accuracy_known,
}
LOW_IS_GOOD = ("FPR@95",)
CHANCE = "(chance)"
#: Tests over fewer sets than this say nothing.
MIN_TRIALS = 5


def run_draw(data: DataSet, draw: Draw, methods: Sequence[str]) -> np.ndarray:
    """Metrics and seconds of every method and a constant scorer, (n_methods + 1, n_metrics + 1); NaN: cannot do it."""
    X, y, X_test, y_test = split(data, draw)
    found = np.full((len(methods) + 1, len(METRICS) + 1), np.nan)
    # One thread whatever -j: the last digits of BLAS depend on the number of threads.
    with threadpool_limits(1):
        for row, name in enumerate(methods):
            start = time.process_time()
            scorer = METHODS[name](X, y, draw.seed)
            if scorer is not None:
                scores = scorer(X_test)
                seconds = time.process_time() - start
                found[row] = [*_measure(y_test, scores, draw.known), seconds]
    found[-1, :-1] = _measure(y_test, np.zeros((len(y_test), len(draw.known))), draw.known)
    return found


def _measure(y_test: np.ndarray, scores: np.ndarray, known: tuple[int, ...]) -> list[float]:
    values = [metric(y_test, scores, known) for metric in METRICS.values()]
    # With a single known class there is nothing to tell apart: an accuracy of 1 would be no merit.
    return values if len(known) > 1 else [*values[:-1], np.nan]


def run(sets: Sequence[str], methods: Sequence[str], n_seeds: int, max_draws: int | None, n_jobs: int) -> np.ndarray:
    """Means over the draws, (n_sets, n_methods + 1, n_metrics + 1)."""
    means = []
    with Parallel(n_jobs=n_jobs, return_as="generator") as parallel:
        for name in sets:
            data = load(name)
            draws = draws_of(data, n_seeds, max_draws)
            found = []
            for result in parallel(delayed(run_draw)(data, draw, methods) for draw in draws):
                found.append(result)
                print(f"\r{name}: {len(found)} of {len(draws)} draws ", end="", file=sys.stderr, flush=True)
            print(file=sys.stderr)
            means.append(np.mean(found, axis=0))
    return np.array(means)


def ranks(values: np.ndarray, low_is_good: bool) -> np.ndarray:
    """Mean rank (n_methods,) over the sets of ``values`` (n_sets, n_methods) that a method can do; 1 = best."""
    signed = values if low_is_good else -values
    ranked = [rankdata(row, nan_policy="omit") for row in signed if not np.isnan(row).all()]
    return np.nanmean(ranked, axis=0) if ranked else np.full(values.shape[1], np.nan)


def tables(means: np.ndarray, sets: Sequence[str], methods: Sequence[str]) -> dict[str, list[list[str]]]:
    """Title → rows of cells: one table per metric, the mean ranks, and the time per draw."""
    made, mean_ranks = {}, []
    for m, metric in enumerate(METRICS):
        mean_ranks.append(ranks(means[:, :-1, m], metric in LOW_IS_GOOD))
        direction = "low is good" if metric in LOW_IS_GOOD else "high is good"
        body = [_row(name, means[:, i, m], 3) for i, name in enumerate([*methods, CHANCE])]
        made[f"{metric} ({direction})"] = [["", *sets], *body]
    rank_body = [_row(name, row, 2) for name, row in zip(methods, np.transpose(mean_ranks), strict=True)]
    made["Mean rank over the sets (1 = best)"] = [["", *METRICS], *rank_body]
    time_body = [_row(name, 1000 * means[:, i, -1], 0) for i, name in enumerate(methods)]
    made["CPU milliseconds per draw, training and scoring"] = [["", *sets], *time_body]
    return made


def _row(name: str, values: Sequence[float] | np.ndarray, digits: int) -> list[str]:
    return [name, *("-" if np.isnan(value) else f"{value:.{digits}f}" for value in values)]


def verdicts(means: np.ndarray, sets: Sequence[str], methods: Sequence[str], ours: str) -> list[str]:
    """For each metric: has ``ours`` the best mean rank, and where does it lose most to any row?"""
    lines, row = [], list(methods).index(ours)
    for m, metric in enumerate(METRICS):
        values = means[:, :-1, m] * (-1 if metric in LOW_IS_GOOD else 1)
        mean_rank = ranks(-values, low_is_good=True)
        lead = "yes" if mean_rank[row] == np.nanmin(mean_rank) else f"no, {methods[int(np.nanargmin(mean_rank))]}"
        losses = np.nan_to_num(values - values[:, [row]], nan=-np.inf)
        where, to = divmod(int(losses.argmax()), losses.shape[1])
        loss = f"{losses[where, to]:.3f} on {sets[where]} to {methods[to]}" if losses[where, to] > 0 else "none"
        lines.append(
            f"{ours}, {metric}: best mean rank? {lead} ({mean_rank[row]:.2f}); largest loss to any row: {loss}"
        )
    return lines


def significance(means: np.ndarray, _: Sequence[str], methods: Sequence[str], ours: str) -> list[str]:
    """For each metric Friedman's test, and which rows Wilcoxon's test, corrected by Holm, tells from ours (.05).

    The sets on which all methods can do the task are the trials.
    """
    lines, row = [], list(methods).index(ours)
    for m, metric in enumerate(METRICS):
        values = means[:, :-1, m] * (-1 if metric in LOW_IS_GOOD else 1)
        values = values[~np.isnan(values).any(axis=1)]
        if len(values) < MIN_TRIALS or len(methods) < 3:
            continue
        p = statistics.against(values, row)
        behind = [f"{name} ({q:.2g})" for name, q in zip(methods, p, strict=True) if q < 0.05]
        lowest = f"lowest p {np.nanmin(p):.2g}" if not behind else "differ: " + ", ".join(behind)
        lines.append(
            f"{metric}, {len(values)} sets: Friedman p = {statistics.friedman(values):.1g}; Wilcoxon-Holm {lowest}"
        )
    return lines


def markdown(made: dict[str, list[list[str]]], lines: Sequence[str], command: str) -> str:
    """The tables as a markdown section, with the command that made it and the versions."""
    versions = (
        f"outlark {outlark.__version__}, Python {platform.python_version()}, NumPy {np.__version__}, "
        f"SciPy {scipy.__version__}, scikit-learn {sklearn.__version__}"
    )
    parts = [f"## Open-set accuracy\n\nMade by `{command}` ({versions}). A dash: the method cannot do it."]
    for title, (head, *body) in made.items():
        rule = ["---", *["---:"] * (len(head) - 1)]
        parts.append(f"**{title}**\n\n" + "\n".join(f"| {' | '.join(row)} |" for row in [head, rule, *body]))
    return "\n\n".join([*parts, "\n".join(f"- {line}" for line in lines)]) + "\n"


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10, help="draws per choice of known classes (default 10)")
    parser.add_argument("--sets", nargs="+", choices=(*SET_NAMES, *FRESH_NAMES), default=list(SET_NAMES), metavar="SET")
    parser.add_argument("--fresh", action="store_true", help="the sets that played no part in any choice")
    parser.add_argument("--methods", nargs="+", choices=tuple(METHODS), default=list(METHODS), metavar="METHOD")
    parser.add_argument("--max-draws", type=int, help="only so many draws per set, chosen at random")
    parser.add_argument("-j", "--jobs", type=int, default=2, help="processes, each with one BLAS thread (default 2)")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the tables here")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> None:
    options = parse(arguments)
    options.sets = list(FRESH_NAMES) if options.fresh else options.sets
    methods = options.methods
    means = run(options.sets, methods, options.seeds, options.max_draws, options.jobs)
    made = tables(means, options.sets, methods)
    given = (means, options.sets, methods, "MDD-KM")
    lines = [*verdicts(*given), *significance(*given)] if "MDD-KM" in methods else []
    print("\n\n".join(f"{title}\n{aligned_table(rows)}" for title, rows in made.items()))
    print("\n" + "\n".join(lines))
    if options.markdown:
        command = " ".join(["python benchmarks/open_set.py", *arguments])
        options.markdown.write_text(markdown(made, lines, command), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
