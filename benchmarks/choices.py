"""What the choices of docs/decisions are worth: metric and regulariser, and the correction for class size.

    python benchmarks/choices.py

Prints AUROC of known against unknown samples (two known classes drawn at random, the rest unknown, at most 40 training
samples for each class) and, for class size, the accuracy among the known as well. Features go in as they come, without
scaling.
"""

import argparse
import sys

import numpy as np
from joblib import Parallel, delayed
from open_set_data import SET_NAMES, load
from sklearn.metrics import roc_auc_score

from outlark import MDDKM

METRICS = {
    "auto (default)": {},
    "euclidean": {"metric": "euclidean"},
    "within": {"metric": "within"},
    "whiten": {"metric": "whiten"},
    "sigma_reg from condition": {"sigma_reg": "condition"},
    "paper, condition 1e8": {"sigma_reg": "condition", "metric": "euclidean", "target": "paper", "balance": None},
}
BALANCES = {"size (default)": "size", "subsample": "subsample", "none (paper)": None}


def draw(name: str, seed: int, few: int | None) -> tuple[np.ndarray, ...]:
    """X, y to train on; X, y to test on, y = -1 for unknowns. With `few`, the first class has only so many samples."""
    data = load(name)
    X, y = data.X, data.y
    rng = np.random.default_rng(seed)
    known = rng.choice(np.unique(y), size=2, replace=False)
    train, test = [], [np.flatnonzero(~np.isin(y, known))]
    for i, c in enumerate(known):
        rows = rng.permutation(np.flatnonzero(y == c))
        half = min(len(rows) // 2, 40)
        train.append(rows[: few if few and i == 0 else half])
        test.append(rows[half:])
    tr, te = np.concatenate(train), np.concatenate(test)
    labels = np.where(y == known[0], 0, np.where(y == known[1], 1, -1))
    return X[tr], labels[tr], X[te], labels[te]


def measure(parameters: dict, name: str, seed: int, few: int | None = None) -> tuple[float, float]:
    X, y, X_test, y_test = draw(name, seed, few)
    scores = MDDKM(**parameters).fit(X, y).class_scores(X_test)
    known = y_test >= 0
    return roc_auc_score(known, scores.max(axis=1)), float(np.mean(scores[known].argmax(axis=1) == y_test[known]))


def main(draws: int, jobs: int) -> None:
    sets = [name for name in SET_NAMES if name != "breast cancer"]  # two classes only: no unknown would be left
    with Parallel(jobs) as parallel:
        print(f"AUROC, {draws} draws".ljust(28) + "".join(f"{name:>16}" for name in sets))
        for title, parameters in METRICS.items():
            row = title.ljust(28)
            for name in sets:
                found = parallel(delayed(measure)(parameters, name, seed) for seed in range(draws))
                row += f"{np.mean([auroc for auroc, _ in found]):>16.3f}"
            print(row, flush=True)
        for few in (5, 10):
            print(f"\none class with {few} samples: AUROC, accuracy")
            for title, balance in BALANCES.items():
                row = title.ljust(28)
                for name in sets:
                    found = parallel(delayed(measure)({"balance": balance}, name, s, few) for s in range(draws))
                    auroc, accuracy = np.mean(found, axis=0)
                    row += f"{auroc:>10.3f}{accuracy:>6.3f}"
                print(row, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=30)
    parser.add_argument("-j", "--jobs", type=int, default=2)
    options = parser.parse_args(sys.argv[1:])
    main(options.draws, options.jobs)
