"""Landmarks: what training on 10³ to 10⁶ frames costs, and how near the scores are to those of the exact model.

    python benchmarks/landmarks.py                                            # up to 10⁶ frames: half an hour or more
    python benchmarks/landmarks.py --rows 1000 10000 --compared 10000 --snr-db

Frames are those of synthetic notes of three classes: `HLDSFrontEnd`, 36 features, groups are notes. They lie in a
memory map (``--folder``), from which every model is trained in a process of its own with one BLAS thread, all defaults
but for `landmarks`. Seconds are those of the processor; "wall" is what the clock says, where others work as well.

- cost: time and peak memory of exact models (up to ``--exact`` frames) and of landmarks="auto".
- error: ``|score - exact score|`` of new frames, of the known classes and of five unknown ones, under all classes, and
  of frames of each class under their own, with ``--compared`` training frames; AUROC of known against unknown frames.
  Once as they are, and in white noise (``--snr-db``): unknowns are harder to tell, and the regulariser is smaller.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import scipy
from sklearn.metrics import roc_auc_score

import outlark
from outlark import MDDKM
from outlark.data.synthetic import KNOWN_CLASSES, SAMPLE_RATE, UNKNOWN_CLASSES, note
from outlark.metrics.windows import aligned_table
from outlark.paper.front_end import HLDSFrontEnd

ROWS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
EXACT_ROWS, COMPARED = 30_000, 30_000
NUMBERS, NUMBERS_IN_NOISE = (125, 250, 500, 1000, 2000, 4000), (500, 2000)
SNR_DB = (20.0, 10.0)
NEW_FRAMES = 3_000
FIGURE = Path(__file__).parents[1] / "docs" / "pictures" / "landmarks.png"
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


# ------------------------------------------------------------------------- frames


def write_frames(folder: Path, name: str, classes: Sequence[str], n: int, seed: int, snr_db: float | None) -> None:
    """Notes of each class in turn until there are n frames: X, y and groups as files, unless they are there."""
    if (folder / f"{name}.groups.npy").exists() and len(np.load(folder / f"{name}.groups.npy")) == n:
        return
    front_end = HLDSFrontEnd(measure_activity=False).fit([], SAMPLE_RATE)
    y, groups, number, left = np.empty(n, int), np.empty(n, int), 0, n
    with (folder / f"{name}.X").open("wb") as file:
        while left:
            c = number % len(classes)
            rng = np.random.default_rng([seed, c, number])
            sound = note(classes[c], rng)
            if snr_db is not None:
                sound = sound + np.sqrt(np.mean(sound**2)) * 10 ** (-snr_db / 20) * rng.standard_normal(len(sound))
            X = front_end.transform(sound).features[:left]
            file.write(np.ascontiguousarray(X).data)
            y[n - left : n - left + len(X)], groups[n - left : n - left + len(X)] = c, number
            number, left = number + 1, left - len(X)
    np.save(folder / f"{name}.y.npy", y)
    np.save(folder / f"{name}.groups.npy", groups)


def read_frames(folder: Path, name: str, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    y, groups = (np.load(folder / f"{name}.{column}.npy")[:n] for column in ("y", "groups"))
    X = np.memmap(folder / f"{name}.X", dtype=np.float64, mode="r").reshape(len(np.load(folder / f"{name}.y.npy")), -1)
    return X[:n], y, groups


# ------------------------------------------------------------------- one model each


def measured(folder: Path, n: int, landmarks: str | int | None) -> dict[str, Any]:
    """Train on n frames and score the new ones."""
    start, clock = time.process_time(), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # certificates are printed
        model = MDDKM(landmarks=landmarks).fit(*read_frames(folder, "train", n))
    found: dict[str, Any] = {"cpu": time.process_time() - start, "wall": time.perf_counter() - clock}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found["MB"] = peak / (1024**2 if sys.platform == "darwin" else 1024)
    known, y, _ = read_frames(folder, "known", NEW_FRAMES)
    unknown, _, _ = read_frames(folder, "unknown", NEW_FRAMES)
    start = time.process_time()
    scores = model.class_scores(np.concatenate([known, unknown]))
    found["score_ms"] = 1e3 * (time.process_time() - start) / len(scores)
    found["auroc"] = roc_auc_score(np.arange(len(scores)) < len(known), scores.max(axis=1))
    ratio = (model.sigma_reg_ / model.sigma_) ** 2
    sizes = np.array([len(description.X) for description in model.descriptions_])
    found |= {"landmarks": model.n_landmarks_.tolist(), "lost": (model.certificates_ / (ratio * sizes)).tolist()}
    found |= {"metric": model.metric_, "ratio": ratio, "accuracy": float(np.mean(scores[: len(y)].argmax(axis=1) == y))}
    np.save(folder / f"scores-{n}-{landmarks}.npy", scores)
    return found


def in_a_process(folder: Path, n: int, landmarks: str | int | None) -> dict[str, Any]:
    """As `measured`, in a process of its own; a run that was stopped goes on with the models that are left."""
    kept = folder / f"run-{n}-{landmarks}.json"
    if kept.exists():
        return json.loads(kept.read_text())
    print(f"{n:,} frames, landmarks={landmarks} …", file=sys.stderr, flush=True)
    command = [sys.executable, __file__, "--child", str(folder), str(n), json.dumps(landmarks)]
    run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ | ONE_THREAD)
    kept.write_text(run.stdout)
    return json.loads(run.stdout)


def errors(folder: Path, n: int, landmarks: str | int | None) -> dict[str, float]:
    """How far the scores are from the exact ones."""
    exact, mine = (np.load(folder / f"scores-{n}-{kind}.npy") for kind in (None, landmarks))
    y = read_frames(folder, "known", NEW_FRAMES)[1]
    every = np.abs(mine - exact)
    own = every[np.arange(len(y)), y]
    return {
        "median": float(np.median(every)),
        "q99": float(np.quantile(every, 0.99)),
        "own": float(np.median(own)),
        "own_q99": float(np.quantile(own, 0.99)),
    }


# ---------------------------------------------------------------------- what is shown


Runs = dict[tuple[int, Any], dict[str, Any]]


def cost_table(found: Runs) -> list[list[str]]:
    """One line for each number of frames: exact, landmarks, and how many times less they take."""
    head = ["frames", "exact: s", "MB", "auto: s", "wall", "MB", "landmarks", "tr(K-Q)/ρn", "times faster", "less MB"]
    lines = [head]
    for n, kind in found:
        if kind != "auto":
            continue
        auto, exact = found[n, "auto"], found.get((n, None))
        spent = [f"{exact['cpu']:.1f}", f"{exact['MB']:.0f}"] if exact else ["-", "-"]
        ratios = [f"{exact['cpu'] / auto['cpu']:.1f}", f"{exact['MB'] / auto['MB']:.1f}"] if exact else ["-", "-"]
        landmarks, lost = "/".join(map(str, auto["landmarks"])), "/".join(f"{v:.1g}" for v in auto["lost"])
        now = [f"{auto['cpu']:.1f}", f"{auto['wall']:.1f}", f"{auto['MB']:.0f}", landmarks, lost]
        lines.append([f"{n:,}", *spent, *now, *ratios])
    return lines


def error_table(found: Runs, wrong: Runs) -> list[list[str]]:
    head = ["", "tr(K-Q)/ρn", "median", "99 %", "own class", "99 %", "AUROC", "below exact", "fit: s", "ms/frame"]
    lines = [head]
    for (n, kind), run in found.items():
        error, exact = (
            wrong.get((n, kind), dict.fromkeys(("median", "q99", "own", "own_q99"), 0.0)),
            found.get((n, None)),
        )
        if exact is None:
            continue
        name = f"{n:,} frames, " + ("exact" if kind is None else f"landmarks={kind}")
        errors_ = [f"{error[key]:.4f}" for key in ("median", "q99", "own", "own_q99")]
        auroc = [f"{run['auroc']:.4f}", f"{exact['auroc'] - run['auroc']:.4f}"]
        lines.append([name, f"{max(run['lost']):.1g}", *errors_, *auroc, f"{run['cpu']:.1f}", f"{run['score_ms']:.3f}"])
    return lines


def draw(path: Path, found: Runs, wrong: Runs, n: int) -> None:
    """Time, memory and error as a figure."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, (times, memory, error) = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    for kind, colour, label in ((None, "#b3541e", "exact"), ("auto", "#1f6f8b", "landmarks")):
        rows = [rows for rows, which in found if which == kind]
        for axes, name in ((times, "cpu"), (memory, "MB")):
            axes.loglog(rows, [found[r, kind][name] for r in rows], "o-", color=colour, ms=4, label=label)
    times.set(xlabel="training frames, three classes", ylabel="processor seconds to train")
    memory.set(xlabel="training frames, three classes", ylabel="peak memory (MB)")
    numbers = sorted(kind for rows, kind in wrong if rows == n and isinstance(kind, int))
    for name, style, label in (
        ("own_q99", "s--", "own class, 99 %"),
        ("own", "o-", "own class, median"),
        ("median", "^:", "all classes, median"),
    ):
        error.loglog(numbers, [wrong[n, m][name] for m in numbers], style, color="#1f6f8b", ms=4, label=label)
    error.set(xlabel="landmarks of each class", ylabel=f"score error, {n:,} frames")
    for axes in (times, memory, error):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(which="major", color="#dddddd", lw=0.5)
        axes.legend(frameon=False, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def runs_of(folder: Path, kinds: Sequence[tuple[int, Any]], snr_db: float | None) -> tuple[Runs, Runs]:
    """Every model, and how far it is from the exact one of as many frames."""
    folder = folder / ("without noise" if snr_db is None else f"{snr_db:g} dB")
    folder.mkdir(parents=True, exist_ok=True)
    print(f"making frames, noise at {snr_db} dB …", file=sys.stderr, flush=True)
    write_frames(folder, "train", KNOWN_CLASSES, max(n for n, _ in kinds), 1, snr_db)
    write_frames(folder, "known", KNOWN_CLASSES, NEW_FRAMES, 2, snr_db)
    write_frames(folder, "unknown", UNKNOWN_CLASSES, NEW_FRAMES, 3, snr_db)
    found = {(n, kind): in_a_process(folder, n, kind) for n, kind in kinds}
    wrong = {(n, kind): errors(folder, n, kind) for n, kind in found if kind is not None and (n, None) in found}
    return found, wrong


def run(options: argparse.Namespace, folder: Path) -> None:
    compared = options.compared
    kinds = [(n, kind) for n in options.rows for kind in (None, "auto") if n <= options.exact or kind]
    by_number = [(compared, kind) for kind in (None, "auto", *options.numbers)]
    found, wrong = runs_of(folder, list(dict.fromkeys(kinds + by_number)), None)
    print(aligned_table(cost_table(found)), end="\n\n")
    shown = [(None, found, wrong)]
    for snr_db in options.snr_db:
        in_noise = [(compared, kind) for kind in (None, "auto", *NUMBERS_IN_NOISE)]
        shown.append((snr_db, *runs_of(folder, in_noise, snr_db)))
    for snr_db, models, differences in shown:
        exact = models[compared, None]
        noise = "without noise" if snr_db is None else f"in noise, {snr_db:g} dB below the notes"
        print(f"{noise}: metric {exact['metric']}, ρ = {exact['ratio']:.2g}, accuracy {exact['accuracy']:.4f}")
        print(aligned_table(error_table(models, differences)), end="\n\n")
    draw(options.figure, found, wrong, compared)
    print(f"figure: {options.figure}")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS), help="training frames")
    parser.add_argument("--exact", type=int, default=EXACT_ROWS, help="exact models up to so many frames")
    parser.add_argument("--compared", type=int, default=COMPARED, help="frames for the errors by number of landmarks")
    parser.add_argument("--numbers", type=int, nargs="+", default=list(NUMBERS), help="of landmarks")
    parser.add_argument("--snr-db", type=float, nargs="*", default=list(SNR_DB), help="noise to compare in as well")
    parser.add_argument(
        "--folder", type=Path, help="for frames and results, kept to go on with (default: a temporary one)"
    )
    parser.add_argument("--figure", type=Path, default=FIGURE)
    parser.add_argument("--child", nargs=3, metavar=("FOLDER", "ROWS", "LANDMARKS"), help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> None:
    options = parse(arguments)
    if options.child:
        folder, n, landmarks = options.child
        print(json.dumps(measured(Path(folder), int(n), json.loads(landmarks))))
        return
    print(" ".join(["python benchmarks/landmarks.py", *arguments]))
    versions = {"Python": platform.python_version()} | {m.__name__: m.__version__ for m in (outlark, np, scipy)}
    print(*(f"{name} {version}" for name, version in versions.items()), sep=", ", end="\n\n")
    if options.folder is not None:
        run(options, options.folder)
        return
    with TemporaryDirectory() as folder:
        run(options, Path(folder))


if __name__ == "__main__":
    main(sys.argv[1:])
