r"""Hierarchical linear dynamical system (Sec. 2.1): the Kalman filter that turns spectra into features.

.. math::

   z_t = z_{t-1} + ε^z_t                                (Eq. 1)

   x_t = x_{t-1} + B z_{t-1} + ε^x_t                    (Eq. 2)

   y_t = H x_t + ε^y_t                                  (Eq. 3)

for two hidden layers, and in the same way for any number. Written as one state (Eqs. 4-5) it is an ordinary Kalman
filter: `system` and `kalman_filter`. With H = I and one noise variance for each layer it separates into one small
filter for each unit of the top layer, driven by the mean of the inputs below that unit: `reduce_system`. Its gain
settles within a few dozen steps, and from then on it is a fixed recursive filter: `SettledFilter`.

The state starts at zero with the covariance of the innovations. States are ordered from the top layer down (Eq. 4).
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from outlark.errors import InputError

#: Layers of the paper, from the bottom up: magnitudes of the DCT of 96 samples, then 24, then 12 (Sec. 4.2).
PAPER_LAYERS = (96, 24, 12)
#: Steps after which the gain counts as settled; its change is below 1e-14 long before.
SETTLING_STEPS = 200
#: What each layer follows in the band below a unit of the top layer, from the bottom up.
LAYER_NAMES = ("level", "slope", "curvature")


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
        names = [LAYER_NAMES[i] if i < len(LAYER_NAMES) else f"layer{i}_" for i in range(len(self.layers_))]
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


# ------------------------------------------------------------------ the filters


class System(NamedTuple):
    """Eqs. (4)-(5): ``s_t = F s_{t-1} + ε, Cov ε = Q``; ``y_t = H s_t + ε^y, Cov ε^y = R``."""

    F: np.ndarray
    H: np.ndarray
    Q: np.ndarray
    R: np.ndarray


def coupling(n: int, s: int) -> np.ndarray:
    """The matrix B between a layer of `n` units and the one of `s` units above it, shape (n, s).

    Each unit above feeds a group of n/s below with the weight 2s/n.

    >>> coupling(4, 2)
    array([[1., 0.],
           [1., 0.],
           [0., 1.],
           [0., 1.]])
    """
    return np.kron(np.eye(s), np.full((n // s, 1), 2.0 * s / n))


def check_layers(layers: Sequence[int]) -> None:
    """Refuse layers that do not divide each other."""
    if len(layers) == 0 or any(int(n) < 1 or int(n) != n for n in layers):
        raise InputError(f"layers={tuple(layers)!r} must be whole numbers of at least 1, from the bottom layer up")
    for below, above in pairwise(layers):
        if below % above:
            raise InputError(
                f"layers={tuple(layers)!r}: {below} is not divisible by {above}; each layer must be a multiple of the "
                "one above it"
            )


def system(layers: Sequence[int]) -> System:
    """Eqs. (4)-(5) for any number of layers, from the bottom up, with H = I.

    Noise variances are proportional to the size of the layer (Sec. 4.2); a common factor does not change the filter.

    >>> system((4, 2)).F.shape
    (6, 6)
    """
    check_layers(layers)
    top_down, n = list(layers)[::-1], sum(layers)
    F = np.eye(n)
    start = 0
    for above, below in pairwise(top_down):
        F[start + above : start + above + below, start : start + above] = coupling(below, above)
        start += above
    H = np.eye(layers[0], n, k=n - layers[0])
    return System(F, H, np.diag(np.repeat(top_down, top_down).astype(float)), layers[0] * np.eye(layers[0]))


def kalman_filter(model: System, y: np.ndarray) -> np.ndarray:
    """The filtered states ``E[s_t | y_1 … y_t]`` of y (T, m), shape (T, n_states): the textbook recursion."""
    s, states = np.zeros(len(model.F)), np.empty((len(y), len(model.F)))
    for t, (gain, observed) in enumerate(zip(gains(model, len(y))[0], y, strict=True)):
        s = model.F @ s if t > 0 else s
        s = s + gain @ (observed - model.H @ s)
        states[t] = s
    return states


def reduce_system(layers: Sequence[int]) -> System:
    """The filter of one unit of the top layer and the *means* of the units below it: L states, top first.

    Exact, because the mean of a group depends on the mean of its inputs alone. Variances of means are those of units
    divided by their number.

    >>> reduce_system((96, 24, 12)).F
    array([[1. , 0. , 0. ],
           [1. , 1. , 0. ],
           [0. , 0.5, 1. ]])
    """
    check_layers(layers)
    r = np.asarray(layers, dtype=float)
    group = r / layers[-1]
    F = np.eye(len(layers))
    for i, (above, below) in enumerate(pairwise(list(layers)[::-1])):
        F[i + 1, i] = 2.0 * above / below
    H = np.zeros((1, len(layers)))
    H[0, -1] = 1.0
    return System(F, H, np.diag((r / group)[::-1]), np.array([[r[0] / group[0]]]))


def group_means(y: np.ndarray, n_groups: int) -> np.ndarray:
    """The mean of each group of neighbouring columns, shape (T, n_groups).

    >>> group_means(np.array([[1.0, 3.0, 5.0, 7.0]]), 2)
    array([[2., 6.]])
    """
    return y.reshape(len(y), n_groups, y.shape[1] // n_groups).mean(axis=2)


def gains(model: System, n_steps: int) -> tuple[np.ndarray, np.ndarray]:
    """The Kalman gains of the first steps, (n_steps, n_states, m), and the last filtered covariance."""
    F, H, Q, R = model
    P_predicted, P, found = Q, Q, []
    for t in range(n_steps):
        if t > 0:
            P_predicted = F @ P @ F.T + Q
        gain = np.linalg.solve(H @ P_predicted @ H.T + R, H @ P_predicted).T
        P = P_predicted - gain @ H @ P_predicted
        found.append(gain)
    return np.array(found), P


class SettledFilter:
    """`kalman_filter` of a reduced system for many groups at once, as a stream; results do not depend on the blocks.

    The first `SETTLING_STEPS` steps use the exact gains. Then the gain K no longer changes,
    ``s_t = A s_{t-1} + K y_t`` with ``A = (I - KH)F``, and every state is one recursive filter with the denominator
    ``det(I - A q⁻¹)``.

    >>> stream = SettledFilter(reduce_system((4, 2)), n_groups=2)
    >>> stream.push(np.ones((3, 2))).shape
    (3, 2, 2)
    """

    def __init__(self, model: System, n_groups: int) -> None:
        self.model = model
        K_start, _ = gains(model, SETTLING_STEPS)
        self._K = K_start[:, :, 0]
        K = self._K[-1]
        self._A = (np.eye(len(K)) - np.outer(K, model.H[0])) @ model.F
        self._a = np.poly(self._A)
        powers = [np.linalg.matrix_power(self._A, k) for k in range(len(K) + 1)]
        response = np.array([P @ K for P in powers[:-1]])  # (L, L): impulse response of each state
        self._b = np.array([np.convolve(self._a, response[:, i])[: len(K)] for i in range(len(K))])
        self._powers = np.array(powers[1:])
        self._step = 0
        self._s = np.zeros((len(K), n_groups))
        self._zi: np.ndarray | None = None

    def push(self, means: np.ndarray) -> np.ndarray:
        """The states after each of the next rows of group means (T, n_groups): (T, L, n_groups), top layer first."""
        states = np.empty((len(means), *self._s.shape))
        n_start = min(len(means), SETTLING_STEPS - self._step)
        for t in range(n_start):
            s = self.model.F @ self._s if self._step > 0 else self._s
            self._s = s + np.outer(self._K[self._step], means[t] - s[-1])
            self._step += 1
            states[t] = self._s
        if n_start < len(means):
            from scipy.signal import lfilter  # slow to import, and most models never need it

            if self._zi is None:
                self._zi = self._memory()
            for i, b in enumerate(self._b):
                states[n_start:, i], self._zi[i] = lfilter(b, self._a, means[n_start:], axis=0, zi=self._zi[i])
        return states

    def _memory(self) -> np.ndarray:
        """The initial conditions of the recursive filters for the present state, (L, L, n_groups)."""
        free = self._powers @ self._s  # the next L states without input, (L, L, n_groups)
        L = len(self._a) - 1
        memory = np.zeros((L, L, self._s.shape[1]))
        for i in range(L):
            for k in range(L):
                memory[i, k] = sum(self._a[j] * free[k - j, i] for j in range(k + 1))
        return memory


def smoother_gain(model: System) -> np.ndarray:
    """The settled gain C of the backward recursion ``E[s_t|…] = s_t + C (E[s_{t+1}|…] - F s_t)``, (L, L)."""
    _, P = gains(model, SETTLING_STEPS)
    return np.linalg.solve(model.F @ P @ model.F.T + model.Q, model.F @ P).T


class FixedLagSmoother:
    """States given `lag` further steps: ``s_{t|t+lag} = s_t + Σ_j C^j (s_{t+j} - F s_{t+j-1})``.

    A filter lags behind; a smoother waits a little and does not. As a stream: `push` gives the states of `lag` steps
    before, `finish` the last ones, which use what there is.
    """

    def __init__(self, model: System, lag: int, n_groups: int) -> None:
        C = smoother_gain(model)
        self._F = model.F
        self._weights = [np.linalg.matrix_power(C, j) for j in range(1, lag + 1)]
        self.lag = lag
        self._last: np.ndarray | None = None
        self._states = np.empty((0, len(C), n_groups))
        self._news = np.empty((0, len(C), n_groups))

    def push(self, states: np.ndarray) -> np.ndarray:
        """Filtered states (T, L, n_groups) in; smoothed states out, `lag` steps later."""
        if len(states) == 0:
            return states
        before = np.concatenate([states[:1] * 0 if self._last is None else self._last[np.newaxis], states[:-1]])
        self._last = states[-1]
        self._states = np.concatenate([self._states, states])
        self._news = np.concatenate([self._news, states - self._F @ before])
        return self._release(len(self._states) - self.lag)

    def finish(self) -> np.ndarray:
        """The last `lag` states."""
        self._news = np.concatenate([self._news, np.zeros((self.lag, *self._news.shape[1:]))])
        return self._release(len(self._states))

    def _release(self, n: int) -> np.ndarray:
        n = max(n, 0)
        smoothed = self._states[:n].copy()
        for j, W in enumerate(self._weights, start=1):
            smoothed += W @ self._news[j : n + j]
        self._states, self._news = self._states[n:], self._news[n:]
        return smoothed
