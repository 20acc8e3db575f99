"""Landmarks: a few samples of a class that represent all of them, picked by randomly pivoted Cholesky.

With the landmarks U, ``Q = K_nU K_UU⁻¹ K_Un`` is what they capture of the kernel matrix K of all n samples, and
``tr(K - Q)`` what they miss. The next landmark is a sample drawn with a probability in proportion to its own
part of that, its *residual* ``1 - q_iᵀq_i`` (Chen, Epperly, Tropp, Webber 2024). Many are proposed at once and each is
accepted with the probability that it would still have had: the same distribution as one by one, in matrix products
(Epperly, Tropp, Webber 2024).
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dsyrk, dtrsm

from outlark.maths.rows import blocks
from outlark.maths.scoring import Kernel

#: Landmarks that are proposed at once.
PROPOSALS = 100
#: Landmarks are picked among this many samples at a time, drawn in proportion to their residuals.
CANDIDATES = 8000
#: With more samples than candidates, at most this share of the landmarks is picked before all samples are considered:
#: the rest is for rare samples that were not among the first candidates.
FIRST_SHARE = 0.75
ROUNDS = 4
#: A residual below this share of ρ, or below rounding, adds nothing.
SMALLEST_RESIDUAL, ROUNDING = 1e-8, 1e-13


class Landmarks(NamedTuple):
    """Some samples of a class, and all of its samples as projected on them."""

    #: Which samples they are, in the order in which they were picked, (m,).
    rows: np.ndarray
    #: Lower triangle, ``L Lᵀ = K_UU``, (m, m).
    L: np.ndarray
    #: ``A Aᵀ`` with ``A = L⁻¹ K_Un``, (m, m).
    AAT: np.ndarray
    #: ``A 1``, (m,).
    A_ones: np.ndarray
    #: ``1 - q_iᵀq_i`` of each sample, in units of σ²; they sum to ``tr(K - Q)``, (n,).
    residuals: np.ndarray


def pick(X: np.ndarray, ell: float, ratio: float, *, most: int, enough: float, rng: np.random.Generator) -> Landmarks:
    """Landmarks until ``tr(K - Q)`` is at most `enough`, in units of σ², and no more than `most` of them.

    With 0, as many landmarks as allowed, or as double precision can separate. X (n, d) may be a memory map: rows are
    taken in blocks.

    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> found = pick(X, 3.0, 0.1, most=100, enough=0.05, rng=np.random.default_rng(0))
    >>> 5 < len(found.rows) < 60, bool(found.residuals.sum() <= 0.05)
    (True, True)
    """
    rows, L, residuals = np.empty(0, int), np.empty((0, 0)), np.ones(len(X))
    smallest = max(SMALLEST_RESIDUAL * ratio, ROUNDING)
    found = None
    for turn in range(ROUNDS):
        drawn, weights = _drawn(residuals, rng)
        upto = max(1, int(FIRST_SHARE * most)) if turn == 0 and weights is not None else most
        kernel = Kernel(X[drawn], ell, ratio)
        F = solve_triangular(L, kernel(X[rows]), lower=True) if turn else np.empty((0, len(drawn)))
        candidates = _Candidates(kernel, weights, F, upto)
        new = candidates.pick(enough, smallest, rng)
        rows, L = np.concatenate([rows, drawn[new]]), candidates.triangle(L, new)
        if len(new) and candidates.m == upto < most:
            residuals = _residuals(X, rows, L, ell, ratio)
            continue
        found = project(X, rows, L, ell, ratio) if len(new) or found is None else found
        residuals = found.residuals
        if len(new) == 0 or len(rows) >= most or residuals.sum() <= enough:
            break
    assert found is not None  # only the first turn goes without
    return found


def project(X: np.ndarray, rows: np.ndarray, L: np.ndarray, ell: float, ratio: float) -> Landmarks:
    """Project all samples on the landmarks: n m² operations for A, and as many for AAᵀ."""
    m = len(rows)
    AAT, A_ones, residuals = np.zeros((m, m), order="F"), np.zeros(m), np.empty(len(X))
    for block, A in _in_blocks(X, rows, L, ell, ratio):
        AAT = dsyrk(1.0, A, 1.0, AAT, lower=1, overwrite_c=1)
        A_ones += A.sum(axis=1)
        residuals[block] = _left(A)
    residuals[rows] = 0.0
    return Landmarks(rows, L, np.tril(AAT) + np.tril(AAT, -1).T, A_ones, residuals)


def _residuals(X: np.ndarray, rows: np.ndarray, L: np.ndarray, ell: float, ratio: float) -> np.ndarray:
    residuals = np.concatenate([_left(A) for _, A in _in_blocks(X, rows, L, ell, ratio)])
    residuals[rows] = 0.0
    return residuals


def _in_blocks(
    X: np.ndarray, rows: np.ndarray, L: np.ndarray, ell: float, ratio: float
) -> Iterator[tuple[slice, np.ndarray]]:
    """``A = L⁻¹K_Un``, some samples at a time."""
    kernel, L = Kernel(X[rows], ell, ratio), np.asfortranarray(L)
    for block in blocks(len(X)):
        yield block, dtrsm(1.0, L, kernel(X[block]).T, lower=1, overwrite_b=1)


def _left(A: np.ndarray) -> np.ndarray:
    """``1 - aᵀa`` of each column."""
    return np.maximum(1.0 - np.einsum("ij,ij->j", A, A), 0.0)


def _drawn(residuals: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray | None]:
    """Rows to pick from, and weights that make their residuals sum to that of the class; all and None if few."""
    n = len(residuals)
    if n <= CANDIDATES:
        return np.arange(n), None
    total = residuals.sum()
    rows, times = np.unique(rng.choice(n, CANDIDATES, p=residuals / total), return_counts=True)
    return rows, times * total / (CANDIDATES * residuals[rows])


class _Candidates:
    """Samples among which landmarks are picked; `F` is A for these samples alone, a row for each landmark so far."""

    def __init__(self, kernel: Kernel, weights: np.ndarray | None, F: np.ndarray, most: int) -> None:
        self.kernel, self.weights = kernel, weights
        self.m, n = F.shape
        self.F = np.concatenate([F, np.empty((most - self.m, n))])
        self.residuals = _left(F)
        self.free = np.ones(n, dtype=bool)

    def pick(self, enough: float, smallest: float, rng: np.random.Generator) -> np.ndarray:
        """Which candidates become landmarks, in the order in which they do."""
        new: list[int] = []
        while self.m < len(self.F) and self._trace() > enough:
            self.residuals[self.residuals < smallest] = 0.0
            total = self.residuals.sum()
            if total == 0.0:
                break
            new += self._take(rng.choice(len(self.free), PROPOSALS, p=self.residuals / total), smallest, rng)
        return np.array(new, dtype=int)

    def triangle(self, L: np.ndarray, new: np.ndarray) -> np.ndarray:
        """L with the new landmarks as further rows."""
        whole = np.zeros((self.m, self.m))
        whole[: len(L), : len(L)] = L
        whole[len(L) :] = self.F[: self.m, new].T
        return np.tril(whole)

    def _trace(self) -> float:
        """tr(K - Q) of the whole class.

        Where the candidates were drawn, it is an estimate from those that are not landmarks: the residual of a
        landmark is 0 and says nothing of the samples that it was drawn for.
        """
        if self.weights is None:
            return float(self.residuals.sum())
        weights = self.weights[self.free]
        return (
            float(self.weights.sum() * (weights @ self.residuals[self.free]) / weights.sum()) if len(weights) else 0.0
        )

    def _take(self, proposed: np.ndarray, smallest: float, rng: np.random.Generator) -> list[int]:
        """Make landmarks of those of the proposed that are accepted."""
        F, m = self.F[: self.m], self.m
        G = self.kernel(self.kernel.points[proposed]) - F[:, proposed].T @ F
        accepted, R = _accepted(G[:, proposed], len(self.F) - m, smallest, rng)
        taken = proposed[accepted]
        rows = solve_triangular(R, G[accepted], lower=True, check_finite=False)
        self.F[m : m + len(taken)] = rows
        self.m += len(taken)
        self.residuals = np.maximum(self.residuals - np.einsum("ij,ij->j", rows, rows), 0.0)
        self.residuals[taken], self.free[taken] = 0.0, False
        self.residuals[proposed[np.diag(G[:, proposed]) <= smallest]] = 0.0
        return taken.tolist()


def _accepted(G: np.ndarray, most: int, smallest: float, rng: np.random.Generator) -> tuple[list[int], np.ndarray]:
    """Accept each proposed sample with the probability that those before have left it; with their Cholesky factor.

    `G` holds the residual kernel between the proposed samples.
    """
    G, before = G.copy(), np.diag(G).copy()
    columns: list[np.ndarray] = []
    kept: list[int] = []
    for i, chance in enumerate(rng.random(len(G))):
        if len(kept) < most and G[i, i] > max(smallest, chance * before[i]):
            column = np.zeros(len(G))
            column[i:] = G[i:, i] / np.sqrt(G[i, i])
            G[i:, i:] -= np.outer(column[i:], column[i:])
            columns.append(column)
            kept.append(i)
    return kept, np.array(columns).reshape(len(kept), len(G)).T[kept]
