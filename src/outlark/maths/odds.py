r"""Scores that do not tie far away: the log odds of a class.

In units of σ², Eq. (11) is :math:`d = 1 - q`, :math:`q = kᵀ(K + ρI)^{-1}k`. Far from all samples q falls below 1e-16
and -log √d is 0, for a sample at ten times the width of the class as for one at a thousand times. The log odds

.. math:: ½ (\log q - \log(1 - q))

order samples exactly as d does, are -log √d near the class, and go on falling with the distance; 0 is where q = d = ½.
They need log q, for which the kernel is taken relative to the nearest sample.
"""

from collections.abc import Sequence

import numpy as np
from scipy.spatial.distance import cdist

from outlark.maths.description import Description, OneClass, left_out_distances

#: Below this, q = 1 - d is computed anew, without the difference.
SMALL_SIMILARITY = 1e-6
#: Where that cannot be done (landmarks), q is no less than this: below lies rounding.
MIN_SIMILARITY = 1e-12


def log_odds(log_q: np.ndarray, factor: float | np.ndarray = 1.0) -> np.ndarray:
    """Log odds from log q; `factor` multiplies the score -log √d, as the correction for the size of a class does.

    >>> log_odds(np.log([0.5, 0.99]) , 1.0).round(3)
    array([0.   , 2.298])
    >>> log_odds(np.array([-900.0]), np.exp(2.0))
    array([-449.])
    """
    log_q, factor = np.broadcast_arrays(log_q, np.asarray(factor, dtype=float))
    near = np.maximum(log_q, -30.0)  # below, -log(1 - q) is q to the last digit
    score = factor * np.where(near < -0.7, -np.log1p(-np.exp(near)), -np.log(-np.expm1(near)))
    return 0.5 * np.where(log_q > -30.0, np.log(np.expm1(score)), log_q + np.log(factor))


def distance_score(odds: np.ndarray) -> np.ndarray:
    """-log √d from log odds.

    >>> distance_score(log_odds(np.log([0.75]))).round(6), np.log([2.0]).round(6)
    (array([0.693147]), array([0.693147]))
    """
    return 0.5 * np.logaddexp(0.0, 2.0 * odds)


def left_out_log_similarities(model: OneClass, parts: Sequence[np.ndarray]) -> np.ndarray:
    """log q of every training sample under the model **without the part that it belongs to**, (n,)."""
    d = left_out_distances(model, parts)
    log_q = np.log(np.maximum(1.0 - d, MIN_SIMILARITY))
    if isinstance(model, Description) and not model.center:
        for G in parts:
            rows = G[1.0 - d[G] < SMALL_SIMILARITY]
            if len(rows):
                log_q[rows] = _without(model, G, rows)
    return log_q


def _without(model: Description, G: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """log q of some rows of a part without it: ``kᵀPk - (Pk)_Gᵀ (P_GG)⁻¹ (Pk)_G`` where k is 0 in the part."""
    exponents = -cdist(model.X[rows], model.X, "sqeuclidean") / model.ell**2
    exponents[:, G] = -np.inf
    near = exponents.max(axis=1)
    k = np.exp(exponents - near[:, np.newaxis])
    v = k @ model.L_inv.T
    columns = model.L_inv[:, G]
    of_part = v @ columns
    taken = np.einsum("ij,ji->i", of_part, np.linalg.solve(columns.T @ columns, of_part.T))
    q = np.einsum("ij,ij->i", v, v) - taken
    return np.log(np.maximum(q, np.finfo(float).tiny)) + 2.0 * near
