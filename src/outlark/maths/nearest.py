r"""The smallest distance to a class among many candidates, most of which need not be computed.

A distance costs n² operations for a class of n samples. Candidates of one note (its onset and length a little earlier,
later, shorter …) resemble each other, and the distances of a few bound those of all others. With the kernel k_z between
the samples and a candidate z, :math:`P = (K + ρI)^{-1}`, and any combination :math:`\sum_q c_q φ(q)` of candidates
whose :math:`Pk_q` is known,

.. math:: d(z) = 1 - k_zᵀPk_z ≥ 1 - 2 \sum_q c_q k_zᵀPk_q + \sum_{qr} c_q c_r k_qᵀPk_r - ‖φ(z) - \sum_q c_q φ(q)‖²,

because the error is a regularised projection in the feature space, which is never longer than what is projected. A
candidate whose bound is not below the smallest distance so far cannot be the smallest one. The result is that of
computing all of them.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from outlark.maths.description import Description, Kernel
from outlark.maths.gp import squared_exponential

#: Candidates of a search computed in one step, and the largest kernel value between two of them.
STEP_CANDIDATES, MAX_STEP_KERNEL = 3, 0.97
#: A search that knows this many candidates and is not at its end computes all that are left: more bounds would take
#: longer than they save.
MAX_KNOWN = 32
#: Searches share products with P as long as their kernels take no more bytes than this.
MAX_SHARED_BYTES = 2**29
#: Keeps the equations of nearly equal candidates solvable; the bound holds for any coefficients.
BOUND_JITTER = 1e-10
#: What the kernel between candidates may be wrong by; all bounds are lower by so much.
BOUND_ROUNDING = 1e-12


def nearest_without(
    model: Description, parts: Sequence[np.ndarray], candidates: Iterable[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """For each part of the samples the smallest distance (Eq. 11) of its candidates (m, d), **without this part**.

    Also returns which candidate it is, by number.

    The description may not be centred. No refitting: with the part G and the rest B, ``K_BB⁻¹ = P_BB - P_BG P_GG⁻¹
    P_GB``.

    >>> from outlark.maths.description import describe
    >>> X, Z = np.array([[0.0], [0.1], [5.0]]), np.array([[4.0], [0.5]])
    >>> d, numbers = nearest_without(describe(X, 1.0, 0.1), [np.array([2]), np.array([0])], [Z, Z])
    >>> d.round(6), numbers
    (array([0.339194, 0.339865]), array([1, 1]))
    """
    P, kernel = model.precision, Kernel(model.X, model.ell, model.ratio)
    searches = (_NearestSearch(P, G, kernel, Z) for G, Z in zip(parts, candidates, strict=True))
    found = [nearest for together in _chunks(searches) for nearest in _nearest_of(P, together)]
    return np.array([d for d, _ in found]), np.array([number for _, number in found], dtype=int)


class _NearestSearch:
    """For the nearest of some candidates (m, d)."""

    def __init__(self, P: np.ndarray, part: np.ndarray, kernel: Kernel, Z: np.ndarray) -> None:
        self._part, self._P_part = part, P[:, part]
        self.k = kernel(Z)
        self.k[:, part] = 0.0
        self._alike = squared_exponential(Z, Z, kernel.ell, BOUND_ROUNDING)
        self._known: list[int] = []
        #: k_zᵀPk_q of every candidate z and every known one q, (m, q).
        self._products = np.empty((len(Z), 0))
        self.best, self.best_number = np.inf, 0
        self.next = [int(self.k.max(axis=1).argmax())]

    def learn(self, Pk: np.ndarray) -> None:
        """Take in P k of the candidates in `next`, (len(next), n), and choose the next ones."""
        # without the part
        Pk = Pk - np.linalg.solve(self._P_part[self._part], Pk[:, self._part].T).T @ self._P_part.T
        products = self.k @ Pk.T
        distances = 1.0 - products[self.next, np.arange(len(self.next))]
        if distances.min() < self.best:
            self.best, self.best_number = float(distances.min()), self.next[int(distances.argmin())]
        self._known += self.next
        self._products = np.hstack([self._products, products])
        self.next = self._worth_knowing()

    def _bounds(self) -> np.ndarray:
        """What the distance of each candidate is at least, (m,); infinite for known ones."""
        q = self._known
        among = self._alike[np.ix_(q, q)]
        c = np.linalg.solve(among + BOUND_JITTER * np.eye(len(q)), self._alike[q])
        rest = 1.0 - 2.0 * np.einsum("qm,qm->m", c, self._alike[q]) + np.einsum("qm,qm->m", c, among @ c)
        value = 2.0 * np.einsum("qm,mq->m", c, self._products) - np.einsum("qm,qm->m", c, self._products[q] @ c)
        bounds = 1.0 - value - rest - BOUND_ROUNDING * (1.0 + np.abs(c).sum(axis=0)) ** 2
        bounds[q] = np.inf
        return bounds

    def _worth_knowing(self) -> list[int]:
        """Candidates that may be nearer than the best one, unlike each other; the most promising first."""
        if len(self._known) > MAX_KNOWN:
            return []  # all that were worth it are known
        bounds = self._bounds()
        if len(self._known) == MAX_KNOWN:
            return np.flatnonzero(bounds < self.best).tolist()
        chosen: list[int] = []
        for z in np.argsort(bounds, kind="stable").tolist():
            if bounds[z] >= self.best or len(chosen) == min(STEP_CANDIDATES, MAX_KNOWN - len(self._known)):
                break
            if not chosen or self._alike[z, chosen].max() < MAX_STEP_KERNEL:
                chosen.append(z)
        return chosen


def _chunks(searches: Iterator[_NearestSearch]) -> Iterator[list[_NearestSearch]]:
    together: list[_NearestSearch] = []
    for search in searches:
        together.append(search)
        if sum(s.k.nbytes for s in together) > MAX_SHARED_BYTES:
            yield together
            together = []
    if together:
        yield together


def _nearest_of(P: np.ndarray, searches: Sequence[_NearestSearch]) -> list[tuple[float, int]]:
    """The result of each search; all take their steps together, so that P is read once for all."""
    while running := [search for search in searches if search.next]:
        Pk = np.concatenate([search.k[search.next] for search in running]) @ P
        ends = np.cumsum([len(search.next) for search in running])
        for search, own in zip(running, np.split(Pk, ends[:-1]), strict=True):
            search.learn(own)
    return [(search.best, search.best_number) for search in searches]
