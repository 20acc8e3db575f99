r"""Learning the hyper-parameters of MDD-KM (Sec. 3.1; Alg. 1, lines 2-6).

.. math::

   κ(x_m, x_n) = σ² \exp(-‖x_m - x_n‖² / ℓ²)                                            (Eq. 6)

   g(Θ) = yᵀ K_{reg}^{-1} y + \log |K_{reg}|,   K_{reg} = κ(X, X) + σ_{reg}² I           (Eq. 7)

   y_{target}(x) = xᵀx                                                                   (Eq. 8)

`g` is minus twice the log marginal likelihood of a Gaussian process, less the constant ``N log 2π``. With the ratio
``ρ = σ_reg² / σ²`` held fixed, σ² has a closed form and what is left is a search in the single number ℓ.
Rows are samples; the kernel has no ½, so ℓ is √2 times the length scale of scikit-learn's ``RBF``.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky
from scipy.optimize import minimize, minimize_scalar
from scipy.spatial.distance import cdist, pdist, squareform

from outlark.errors import InputError

#: ℓ is sought between these multiples of the median distance between training samples; ten times that distance makes
#: all samples look alike.
LENGTH_SCALE_BOUNDS = (1e-2, 1e1)
#: Samples on which the coarse grid over ℓ, and the first search, are computed before the fine search on all of them.
GRID_SAMPLES = 128
SEARCH_SAMPLES = 400
GRID_POINTS = 24


class HyperParameters(NamedTuple):
    """Θ of Alg. 1, line 6, in the paper's meaning."""

    sigma: float
    length_scale: float
    sigma_reg: float

    @property
    def ratio(self) -> float:
        """ρ = σ_reg² / σ²."""
        return float((self.sigma_reg / self.sigma) ** 2)


def squared_exponential(A: np.ndarray, B: np.ndarray, ell: float, tolerance: float = 0.0) -> np.ndarray:
    """Eq. (6) with σ = 1: ``exp(-‖a - b‖²/ℓ²)``, shape (n_a, n_b).

    Where an error of `tolerance` allows it, ``‖a‖² + ‖b‖² - 2ab`` takes the place of ``‖a - b‖²``: one matrix product,
    many times as fast for samples of many numbers.

    >>> squared_exponential(np.zeros((1, 2)), np.ones((1, 2)), ell=1.0).round(4)
    array([[0.1353]])
    """
    norms = [np.einsum("ij,ij->i", X, X) / ell**2 for X in (A, B)]
    if np.finfo(float).eps * max(float(norm.max(initial=0.0)) for norm in norms) >= tolerance:
        return np.exp(-cdist(A, B, "sqeuclidean") / ell**2)
    exponent = (A * (2.0 / ell**2)) @ B.T
    exponent -= norms[0][:, np.newaxis]
    exponent -= norms[1]
    return np.exp(np.minimum(exponent, 0.0, out=exponent), out=exponent)


def target(X: np.ndarray) -> np.ndarray:
    """Eq. (8): ``y = xᵀx`` for each row of X."""
    return np.einsum("ij,ij->i", X, X)


def ratio_from_condition(n_samples: int, condition: float) -> float:
    """The smallest ρ for which ``K/σ² + ρI`` is certain to have a condition number below `condition`.

    The eigenvalues of ``K/σ²`` lie in [0, N], so ``cond ≤ (N + ρ)/ρ``. This is the caption of Alg. 1 ("the smallest
    value that makes the matrix well-conditioned") with an explicit bound; the cost cannot set it, because y is a
    polynomial without noise and a free σ_reg runs to whatever floor the optimiser has.

    >>> ratio_from_condition(100, 1e8) < 1.1e-6
    True
    """
    return n_samples / (condition - 1.0)


def regularised_factor(K: np.ndarray, ratio: float) -> np.ndarray:
    """The lower Cholesky factor of ``K + ρI``; K is overwritten."""
    K.flat[:: len(K) + 1] += ratio
    try:
        # the upper factor of Kᵀ = K, in the order that LAPACK writes: no copy of a matrix that may take gigabytes
        return cholesky(K.T, lower=False, overwrite_a=True, check_finite=False).T
    except LinAlgError:
        raise InputError(
            f"σ_reg²/σ² = {ratio:.3g} is too small: the kernel matrix of {len(K)} samples is not positive definite "
            "in double precision; give a larger sigma_reg (or a smaller condition)"
        ) from None


def cost(X: np.ndarray, y: np.ndarray, theta: HyperParameters) -> tuple[float, np.ndarray]:
    """The cost g(Θ) of Eq. (7), and its gradient with respect to (log σ, log ℓ, log σ_reg).

    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> g, gradient = cost(X, target(X), HyperParameters(1.0, 1.0, 0.5))
    >>> round(g, 4), gradient.shape
    (13.3095, (3,))
    """
    D2 = cdist(X, X, "sqeuclidean")
    K = theta.sigma**2 * np.exp(-D2 / theta.length_scale**2)
    noise = theta.sigma_reg**2
    factor = theta.sigma * regularised_factor(K / theta.sigma**2, theta.ratio), True
    alpha = cho_solve(factor, y)
    g = float(y @ alpha + 2.0 * np.log(np.diag(factor[0])).sum())  # Eq. (7)
    # ∂g/∂θ = tr((K_reg⁻¹ - ααᵀ) ∂K_reg/∂θ)
    M = cho_solve(factor, np.eye(len(X))) - np.outer(alpha, alpha)
    gradient = np.array(
        [
            2.0 * np.sum(M * K),
            np.sum(M * K * D2) * 2.0 / theta.length_scale**2,
            2.0 * noise * np.trace(M),
        ]
    )
    return g, gradient


def profile_cost(D2: np.ndarray, y: np.ndarray, ell: float, ratio: float) -> tuple[float, float]:
    """g with σ² profiled out: ``σ̂² = yᵀR⁻¹y / N`` where ``R = K_reg/σ²``, so ``g = N + N log σ̂² + log |R|``.

    Returns g and σ̂². `D2` holds the squared distances (n, n).
    """
    n = len(y)
    L = regularised_factor(np.exp(-D2 / ell**2), ratio)
    sigma2 = float(y @ cho_solve((L, True), y, check_finite=False)) / n
    if sigma2 <= 0.0:  # y = 0 everywhere: any σ fits, the determinant alone decides
        sigma2 = np.finfo(float).tiny
    return float(n + n * np.log(sigma2) + 2.0 * np.log(np.diag(L)).sum()), sigma2


def learn(
    X: np.ndarray,
    *,
    ratio: float | None = None,
    sigma: float | None = None,
    length_scale: float | None = None,
    sigma_reg: float | None = None,
    y: np.ndarray | None = None,
) -> HyperParameters:
    """Alg. 1, line 6: the Θ that minimises g within `length_scale_bounds`, with whatever is given held fixed.

    Parameters
    ----------
    X : ndarray (n, d)
        The training samples of **all** classes.
    ratio : float, optional
        ρ = σ_reg²/σ². Exactly one of `ratio` and `sigma_reg` is given.
    sigma, length_scale, sigma_reg : float, optional
        Values to hold fixed.
    y : ndarray (n,), optional
        The target; Eq. (8) by default.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> theta = learn(X, ratio=0.01)
    >>> 2 < theta.length_scale < 20
    True
    """
    y = target(X) if y is None else y
    if sigma_reg is not None and sigma is None and length_scale is None:
        return _learn_sigma_and_length_scale(X, y, sigma_reg)
    if sigma_reg is not None and sigma is None:
        assert length_scale is not None
        sigma = _learn_sigma(X, y, length_scale, sigma_reg)
    if sigma_reg is not None and sigma is not None:
        ratio = (sigma_reg / sigma) ** 2
    if ratio is None:
        raise InputError("give either ratio or sigma_reg")
    if length_scale is None:
        length_scale = _learn_length_scale(X, y, ratio, sigma)
    if sigma is None:
        sigma = float(np.sqrt(profile_cost(_squared_distances(X), y, length_scale, ratio)[1]))
    return HyperParameters(sigma, length_scale, sigma * float(np.sqrt(ratio)))


def length_scale_bounds(X: np.ndarray) -> tuple[float, float]:
    """The bounds of the search: `LENGTH_SCALE_BOUNDS` times the median distance between distinct samples."""
    distances = pdist(X[:: max(1, len(X) // 1000)])
    distances = distances[distances > 0]
    if distances.size == 0:
        raise InputError(
            "all training samples are the same, so the length scale cannot be learnt; "
            "give length_scale=… or add samples that differ"
        )
    median = float(np.median(distances))
    return LENGTH_SCALE_BOUNDS[0] * median, LENGTH_SCALE_BOUNDS[1] * median


def _learn_length_scale(X: np.ndarray, y: np.ndarray, ratio: float, sigma: float | None) -> float:
    """A grid on a few samples, because the cost can have two valleys; Brent's method on more; then on all of them."""

    def cost_on(rows: slice) -> Callable[[float], float]:
        D2, y_rows, n = _squared_distances(X[rows]), y[rows], len(y[rows])

        def g(log_ell: float) -> float:
            profiled, sigma2 = profile_cost(D2, y_rows, float(np.exp(log_ell)), ratio)
            if sigma is None:
                return profiled
            # With σ held fixed: yᵀR⁻¹y/σ² + N log σ² + log |R|
            return profiled - n - n * np.log(sigma2) + n * sigma2 / sigma**2 + n * np.log(sigma**2)

        return g

    low, high = np.log(length_scale_bounds(X))
    grid = np.linspace(low, high, GRID_POINTS)
    best = grid[int(np.argmin(list(map(cost_on(_thin(X, GRID_SAMPLES)), grid))))]
    step, tolerance = grid[1] - grid[0], 1e-7
    if len(X) > 2 * SEARCH_SAMPLES:
        best = _downhill(cost_on(_thin(X, SEARCH_SAMPLES)), best, step, (low, high), 1e-2)
        step, tolerance = 0.2, 1e-4
    return float(np.exp(_downhill(cost_on(slice(None)), best, step, (low, high), tolerance)))


def _downhill(
    g: Callable[[float], float], start: float, step: float, bounds: tuple[float, float], tolerance: float
) -> float:
    """Brent's method from `start`; its bracket follows g downhill, at most to a bound."""

    def walled(v: float) -> float:
        inside = float(np.clip(v, *bounds))
        return g(inside) + 1e6 * abs(v - inside)

    found = minimize_scalar(walled, bracket=(start, start + step), method="brent", tol=tolerance)
    return float(np.clip(found.x, *bounds))


def _thin(X: np.ndarray, n_samples: int) -> slice:
    return slice(None, None, max(1, len(X) // n_samples))


def _squared_distances(X: np.ndarray) -> np.ndarray:
    return squareform(pdist(X, "sqeuclidean"))


def _learn_sigma(X: np.ndarray, y: np.ndarray, length_scale: float, sigma_reg: float) -> float:
    """ℓ and σ_reg fixed: ρ moves with σ, so σ has no closed form."""

    def g(log_sigma: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = cost(X, y, HyperParameters(float(np.exp(log_sigma[0])), length_scale, sigma_reg))
        return value, gradient[:1]

    start = np.log([max(float(np.sqrt(np.mean(y**2))), sigma_reg)])
    return float(np.exp(minimize(g, start, jac=True, method="L-BFGS-B").x[0]))


def _learn_sigma_and_length_scale(X: np.ndarray, y: np.ndarray, sigma_reg: float) -> HyperParameters:
    """σ_reg fixed in absolute terms: ρ moves with σ, so σ has no closed form and both are sought together."""

    def g(log_theta: np.ndarray) -> tuple[float, np.ndarray]:
        sigma, ell = np.exp(log_theta)
        value, gradient = cost(X, y, HyperParameters(float(sigma), float(ell), sigma_reg))
        return value, gradient[:2]

    low, high = np.log(length_scale_bounds(X))
    scale = np.log(max(float(np.sqrt(np.mean(y**2))), sigma_reg))
    # e^13: beyond, ρ = (σ_reg/σ)² is smaller than double precision can factor.
    highest = min(scale + 20.0, np.log(sigma_reg) + 13.0)
    bounds = [(min(scale, highest) - 20.0, highest), (low, high)]
    starts = [np.array([min(scale, highest), v]) for v in np.linspace(low, high, 5)[1:4]]
    found = min((minimize(g, s, jac=True, method="L-BFGS-B", bounds=bounds) for s in starts), key=lambda r: r.fun)
    sigma, ell = np.exp(found.x)
    return HyperParameters(float(sigma), float(ell), sigma_reg)
