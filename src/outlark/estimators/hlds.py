"""HLDS as a scikit-learn transformer (Sec. 2.1, 4.2): rows are time steps, in order."""

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from outlark.errors import InputError
from outlark.maths.hlds import (
    FixedLagSmoother,
    SettledFilter,
    check_layers,
    group_means,
    reduce_system,
)

#: What each layer follows in the band below a unit of the top layer, from the bottom up.
MEANING = ("level", "slope", "curvature")


class HLDS(TransformerMixin, BaseEstimator):
    """Hierarchical linear dynamical system: each band of the input as level, slope and curvature.

    The input bands are grouped as the units of the top layer group them. Each layer integrates the one above, so the
    bottom layer follows the level of its band, the next one its slope, and the top layer its curvature: the top layer
    alone, the paper's choice, forgets steady sound.

    Parameters
    ----------
    layers : "auto" or sequence of int
        Sizes from the bottom layer, as wide as the input, up; each a multiple of the next. "auto" takes a quarter and
        an eighth of the input, which gives the paper's 96, 24, 12 for 96, and three layers as wide as the input where
        that is not a multiple of eight.
    output : "all", "top", "bottom" or a sequence of layer numbers counted from the bottom
        Which layers the features come from.
    lag : int
        Steps by which features are delayed so that they can be smoothed; 0 is the paper's filter.

    Attributes
    ----------
    layers_ : tuple of int
    n_features_in_ : int

    Examples
    --------
    >>> spectra = np.abs(np.random.default_rng(0).normal(size=(50, 96)))
    >>> HLDS().fit_transform(spectra).shape
    (50, 36)
    >>> HLDS(output="top").fit(spectra).get_feature_names_out()[:2].tolist()
    ['curvature0', 'curvature1']
    """

    def __init__(
        self, layers: str | Sequence[int] = "auto", *, output: str | Sequence[int] = "all", lag: int = 0
    ) -> None:
        self.layers = layers
        self.output = output
        self.lag = lag

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Check that the input is as wide as the bottom layer; there is nothing to learn."""
        validate_data(self, X, dtype=np.float64)
        d = self.n_features_in_
        self.layers_: tuple[int, ...]
        if isinstance(self.layers, str):
            if self.layers != "auto":
                raise InputError(f"layers={self.layers!r} must be 'auto' or sizes from the bottom layer up")
            self.layers_ = (d, d // 4, d // 8) if d % 8 == 0 else (d, d, d)
        else:
            self.layers_ = tuple(self.layers)
        check_layers(self.layers_)
        if self.layers_[0] != d:
            raise InputError(
                f"X has {d} features, but the bottom layer has {self.layers_[0]} units; give layers=({d}, …) or "
                "other input"
            )
        if self.lag < 0:
            raise InputError(f"lag={self.lag!r} must be 0 or more steps")
        self._chosen()
        return self

    def transform(self, X: ArrayLike) -> np.ndarray:
        """The features of each step, shape (T, n_features); one long stream from its first row."""
        stream = self.stream()
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        return np.concatenate([stream.push(rows), stream.finish()])

    def stream(self) -> "HLDSStream":
        """A stateful transform: `push` any blocks, then `finish`; the same numbers as `transform`, bit for bit."""
        check_is_fitted(self)
        return HLDSStream(self.layers_, self._chosen(), self.lag)

    def get_feature_names_out(self, input_features: object = None) -> np.ndarray:
        """ "level0" … for the bottom layer, then "slope0" …, "curvature0" …; "layer3_0" … beyond."""
        check_is_fitted(self)
        names = [MEANING[i] if i < len(MEANING) else f"layer{i}_" for i in range(len(self.layers_))]
        return np.array([f"{names[i]}{k}" for i in self._chosen() for k in range(self.layers_[-1])], dtype=object)

    def _chosen(self) -> list[int]:
        """The layers of the output, counted from the bottom."""
        every = range(len(self.layers_))
        named = {"all": list(every), "top": [every[-1]], "bottom": [0]}
        if isinstance(self.output, str):
            if self.output in named:
                return named[self.output]
        elif len(self.output) and all(i in every for i in self.output):
            return list(self.output)
        raise InputError(
            f"output={self.output!r} must be 'all', 'top', 'bottom' or layer numbers from 0 (bottom) to {every[-1]}"
        )


class HLDSStream:
    """Features of a stream of rows; made by `HLDS.stream`."""

    def __init__(self, layers: Sequence[int], chosen: Sequence[int], lag: int) -> None:
        model = reduce_system(layers)
        self._n_groups = layers[-1]
        self._rows = [len(layers) - 1 - i for i in chosen]  # states come top first
        self._filter = SettledFilter(model, self._n_groups)
        self._smoother = FixedLagSmoother(model, lag, self._n_groups)

    def push(self, X: np.ndarray) -> np.ndarray:
        """Rows (T, layers[0]) in; the features that are ready, (T', n_features), out."""
        return self._features(self._smoother.push(self._filter.push(group_means(X, self._n_groups))))

    def finish(self) -> np.ndarray:
        """The features of the last `lag` steps."""
        return self._features(self._smoother.finish())

    def _features(self, states: np.ndarray) -> np.ndarray:
        return states[:, self._rows].reshape(len(states), len(self._rows) * self._n_groups)
