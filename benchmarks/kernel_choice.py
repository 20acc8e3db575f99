"""Which ρ with one class, and whether to choose ℓ beside it: AUROC of known against unknown samples.

    python benchmarks/kernel_choice.py                  # one known class
    python benchmarks/kernel_choice.py --several        # two or three known classes

One class: every pair of ρ and a multiple of the learnt ℓ, the same for all sets. Several: rules that choose ρ, or ρ and
ℓ, by leaving samples out, as `outlark.maths.choice` does. The last column judges fairly: each set with the setting, or
rule, that is best on average on the others (docs/decisions/002-metric-and-regulariser.md).
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from joblib import Parallel, delayed
from open_set_data import SET_NAMES, DataSet, Draw, draws_of, load, split
from threadpoolctl import threadpool_limits

from outlark import MDDKM, metrics
from outlark.maths.choice import MAX_ERROR_RATIO, RATIOS, feature_map, left_out_auc, note_folds
from outlark.maths.description import mapped
from outlark.maths.gp import learn, target
from outlark.metrics.windows import aligned_table

FACTORS = (1.0, 0.5, 0.25)
#: (ρ, multiple of ℓ) → AUC of left-out samples of the known classes, AUROC.
Found = Mapping[tuple[float, float], tuple[float, float]]


def measured(data: DataSet, draw: Draw) -> Found:
    """One draw with every setting, in the metric that the default chooses."""
    X, y, X_test, y_test = split(data, draw)
    labels = np.unique(y, return_inverse=True)[1]
    one = len(draw.known) == 1
    found = {}
    with threadpool_limits(1):
        metric = MDDKM(threshold=0.0).fit(X, y).metric_
        Z = mapped(X, feature_map(metric, X, labels))
        folds = note_folds(labels, np.arange(len(X)), np.random.default_rng(0))
        for ratio in (1.0, *RATIOS) if one else RATIOS:
            learnt = learn(Z, ratio=ratio, y=target(Z - Z.mean(axis=0))).length_scale
            for factor in FACTORS:
                ell = factor * learnt
                kernel = {"sigma": 1.0, "length_scale": ell, "sigma_reg": ratio**0.5}
                scores = MDDKM(metric=metric, threshold=0.0, **kernel).fit(X, y).class_scores(X_test)
                left_out = np.nan if one else left_out_auc(X, labels, folds, metric, ell, ratio)
                found[ratio, factor] = (left_out, metrics.auroc(y_test, scores, draw.known))
    return found


def walk(order: Sequence[tuple[float, float]]) -> Callable[[Found], float]:
    """The first setting, and each later one that lowers the left-out error by a tenth."""

    def rule(found: Found) -> float:
        best = found[order[0]]
        for setting in order[1:]:
            if 1.0 - found[setting][0] < MAX_ERROR_RATIO * (1.0 - best[0]):
                best = found[setting]
        return best[1]

    return rule


RULES: Mapping[str, Callable[[Found], float]] = {
    "ρ chosen, ℓ learnt (default)": walk([(ratio, 1.0) for ratio in RATIOS]),
    "ρ chosen, ℓ halved": walk([(ratio, 0.5) for ratio in RATIOS]),
    "ρ chosen, ℓ a quarter": walk([(ratio, 0.25) for ratio in RATIOS]),
    "both chosen, long ℓ first": walk([(ratio, factor) for factor in FACTORS for ratio in RATIOS]),
    "both chosen, short ℓ first": walk([(ratio, factor) for factor in FACTORS[::-1] for ratio in RATIOS]),
    "both by the best left-out AUC": lambda found: max(found.values())[1],
    "ρ = .1, ℓ halved": lambda found: found[0.1, 0.5][1],
    "ρ = .01, ℓ learnt": lambda found: found[0.01, 1.0][1],
}


def fixed(setting: tuple[float, float]) -> Callable[[Found], float]:
    return lambda found: found[setting][1]


def single_classes(data: DataSet) -> list[Draw]:
    return [Draw(data.name, (int(c),), seed) for seed in range(10) for c in np.unique(data.y)]


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--several", action="store_true", help="two or three known classes in place of one")
    parser.add_argument("--sets", nargs="+", choices=SET_NAMES, default=list(SET_NAMES), metavar="SET")
    parser.add_argument("--draws", type=int, default=60, help="of each set, at random (default 60)")
    parser.add_argument("-j", "--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    sets = [name for name in options.sets if not (options.several and name == "breast cancer")]  # it has two classes
    rules = (
        RULES
        if options.several
        else {
            f"ρ = {ratio:g}, ℓ × {factor:g}": fixed((ratio, factor)) for ratio in (1.0, *RATIOS) for factor in FACTORS
        }
    )
    values = np.empty((len(rules), len(sets)))
    for column, name in enumerate(sets):
        data = load(name)
        draws = draws_of(data, 10) if options.several else single_classes(data)
        chosen = np.random.default_rng(0).permutation(len(draws))[: options.draws]
        found = Parallel(options.jobs)(delayed(measured)(data, draws[i]) for i in sorted(chosen))
        values[:, column] = [np.mean([rule(one) for one in found]) for rule in rules.values()]
        print(f"{name}: {len(chosen)} draws", file=sys.stderr)
    rows = [["AUROC", *sets, "mean"]]
    rows += [[title, *(f"{v:.3f}" for v in row), f"{row.mean():.4f}"] for title, row in zip(rules, values, strict=True)]
    if len(sets) > 1:
        others = [np.delete(values, column, axis=1).mean(axis=1).argmax() for column in range(len(sets))]
        judged = values[others, np.arange(len(sets))]
        rows.append(["best on the other sets", *(f"{v:.3f}" for v in judged), f"{judged.mean():.4f}"])
    print(aligned_table(rows))


if __name__ == "__main__":
    main(sys.argv[1:])
