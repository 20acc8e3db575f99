r"""Classes by landmarks (the paper's future work: "sparsification"): a few samples that represent all of them.

**Picking.** With the landmarks U, ``Q = K_nU K_UU⁻¹ K_Un`` is what they capture of the kernel matrix K of all n
samples, and ``tr(K - Q)`` what they miss. The next landmark is a sample drawn with a probability in proportion to its
own part of that, its *residual* ``1 - q_iᵀq_i`` (randomly pivoted Cholesky; Chen, Epperly, Tropp, Webber 2024). Many
are proposed at once and each is accepted with the probability that it would still have had: the same distribution as
one by one, in matrix products (Epperly, Tropp, Webber 2024).

**Distances.** Only the landmarks are described, and all samples determine what is known about them. With
``K_UU = L Lᵀ``, ``A = L⁻¹K_Un``, ``q = L⁻¹k_U*`` and everything in units of σ²:

.. math::

   d(x_*) = 1 - qᵀq + ρ qᵀ (AAᵀ + ρI)^{-1} q

(deterministic training conditional; Seeger et al. 2003, Quiñonero-Candela and Rasmussen 2005). It lies between
ρ/(n + ρ) and 1, is 1 far from everything, and Eq. (11) itself where the landmarks are all samples. It costs n m² in
place of n³. ``tr(K - Q)``, the *certificate*, says how much of the class the landmarks miss.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh, qr, solve_triangular
from scipy.linalg.blas import dsyrk, dtrmm, dtrsm
from scipy.linalg.lapack import dtrtri

from outlark.maths.description import TABLE_BLOCK_ROWS, Kernel, OneClass, blocks, describe
from outlark.maths.gp import regularised_factor

#: "auto" describes classes of up to this many samples exactly: below, landmarks are no faster.
EXACT_UP_TO = 3000
#: Up to here it does so where landmarks do not reach the certificate: an exact model is still cheap.
EXACT_IF_NEEDED = 6000
#: "auto" takes at most this many landmarks, and at most this share of the samples.
MAX_LANDMARKS, MAX_LANDMARK_SHARE = 2000, 1 / 3
#: "auto" stops when ``tr(K - Q)`` is at most this share of ρn.
CERTIFICATE_SHARE = 0.003
#: Landmarks that are proposed at once.
PROPOSALS = 100
#: Landmarks are picked among this many samples at a time, drawn in proportion to their residuals.
CANDIDATE_SAMPLES = 8000
#: With more samples than candidates, at most this share of the landmarks is picked before all samples are considered:
#: the rest is for rare samples that were not among the first candidates.
FIRST_ROUND_SHARE = 0.75
PICKING_ROUNDS = 4
#: A residual below this share of ρ, or below rounding, adds nothing.
MIN_RESIDUAL_SHARE, MIN_RESIDUAL = 1e-8, 1e-13


class Setting(NamedTuple):
    """How classes are described."""

    #: ℓ and ρ.
    ell: float
    ratio: float
    #: Whether the kernel is centred in the feature space.
    center: bool = False
    #: How many for each class. None: exactly.
    landmarks: str | int | None = None
    #: Of the landmarks, and of subsets that are drawn.
    seed: int | None = 0

    def most(self, n: int) -> int | None:
        """How many landmarks a class of n samples may have; None where it is described exactly.

        >>> Setting(1.0, 0.1, landmarks="auto").most(100_000), Setting(1.0, 0.1, landmarks=500).most(400)
        (2000, None)
        """
        if self.landmarks is None:
            return None
        if isinstance(self.landmarks, str):
            return None if n <= EXACT_UP_TO else min(MAX_LANDMARKS, int(MAX_LANDMARK_SHARE * n))
        return None if n <= self.landmarks else int(self.landmarks)

    def bytes_for(self, n: int) -> tuple[float, float]:
        """Memory for the model of a class of n samples besides the samples, and how much more while it is made."""
        m = self.most(n)
        if m is None or (isinstance(self.landmarks, str) and n <= EXACT_IF_NEEDED):
            return 8.0 * n**2, 24.0 * n**2
        working = 6.0 * m**2 + m * min(n, CANDIDATE_SAMPLES) + 3.0 * m * TABLE_BLOCK_ROWS
        return 8.0 * (2.0 * m**2 + 2.0 * n), 8.0 * working


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


@dataclass(frozen=True, kw_only=True, eq=False)
class LandmarkDescription(OneClass):
    """The model of a class by m of its n samples; see the module docstring.

    ``L_inv`` is that of an exact description, if there were one of these m: ``1 - d = ‖L_inv k‖²``.
    """

    #: Which of the samples are the landmarks, (m,).
    landmarks: np.ndarray
    #: A lower triangle with ``w = W k``, where ``wᵀw = qᵀ(AAᵀ + ρI)⁻¹q``: by it samples are left out, (m, m).
    W: np.ndarray
    #: The sum of w over all samples, (m,).
    W_ones: np.ndarray
    #: ``1 - qᵀq`` of each sample, (n,).
    residuals: np.ndarray

    @property
    def rows(self) -> np.ndarray:
        return self.landmarks

    @property
    def points(self) -> np.ndarray:
        return self.X[self.landmarks]

    @property
    def trace(self) -> float:
        return float(self.residuals.sum())

    @property
    def P_ones(self) -> np.ndarray:
        return self.W.T @ self.W_ones

    @property
    def ones_P_ones(self) -> float:
        return float(len(self.X) - self.W_ones @ self.W_ones) / self.ratio

    def left_out(self, parts: Sequence[np.ndarray]) -> list[np.ndarray]:
        """For each part the distances of its samples under the model **without this part**, landmarks where they were.

        Closed form, no refitting: leaving out a part G takes ``A_G A_Gᵀ`` off ``AAᵀ``. A landmark is a place, not a
        sample: one that lies in G stays and is known less well.
        """
        found: list[np.ndarray] = [np.empty(0)] * len(parts)
        kernel = Kernel(self.points, self.ell, self.ratio)
        for chunk in _chunks(parts, len(self.rows)):
            of_chunk = [parts[i] for i in chunk]
            short = len(of_chunk[0]) <= len(self.rows)
            left = self._without_short(kernel, of_chunk) if short else [self._without_long(kernel, G) for G in of_chunk]
            for i, d in zip(chunk, left, strict=True):
                found[i] = np.maximum(d, self.floor)
        return found

    def _whitened(self, kernel: Kernel, rows: np.ndarray) -> np.ndarray:
        """w of each of these samples, (len(rows), m)."""
        return dtrmm(1.0, self.W.T, kernel(self.X[rows]).T, lower=0, trans_a=1, overwrite_b=1).T

    def _without_short(self, kernel: Kernel, parts: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Parts of no more samples than there are landmarks, all at once: a matrix as large as the part for each."""
        sizes = np.array([len(G) for G in parts])
        filled = np.arange(sizes.max()) < sizes[:, np.newaxis]
        w = np.zeros((*filled.shape, len(self.rows)))  # short parts end in rows of 0, which change nothing
        w[filled] = self._whitened(kernel, np.concatenate(parts))
        M_inv = np.linalg.inv(np.eye(filled.shape[1]) - w @ w.transpose(0, 2, 1))
        known = np.einsum("pii->pi", M_inv) - 1.0  # wᵀ(I - Σ_G wwᵀ)⁻¹w by Woodbury
        linear, total = np.zeros(filled.shape), np.zeros(len(parts))
        if self.center:
            u = self.W_ones - w.sum(axis=1)
            w_u = np.einsum("pim,pm->pi", w, u)
            linear = np.einsum("pij,pj->pi", M_inv, w_u)
            total = np.einsum("pm,pm->p", u, u) + np.einsum("pi,pi->p", w_u, linear)
        return [
            self._distances(G, known[p, : len(G)], linear[p, : len(G)], float(total[p])) for p, G in enumerate(parts)
        ]

    def _without_long(self, kernel: Kernel, G: np.ndarray) -> np.ndarray:
        """A part of more samples than there are landmarks: a matrix as large as the landmarks."""
        pieces = [G[block] for block in blocks(len(G))]
        M, u = np.eye(len(self.rows)), self.W_ones.copy()
        for piece in pieces:
            w = self._whitened(kernel, piece)
            M -= w.T @ w
            u -= w.sum(axis=0)
        M_inv = np.linalg.inv(M)
        found = []
        for piece in pieces:
            w = self._whitened(kernel, piece)
            found.append((np.einsum("im,im->i", w @ M_inv, w), w @ (M_inv @ u)))
        known, linear = (np.concatenate(column) for column in zip(*found, strict=True))
        return self._distances(G, known, linear, float(u @ M_inv @ u))

    def _distances(self, G: np.ndarray, known: np.ndarray, linear: np.ndarray, total: float) -> np.ndarray:
        """Distances without G from wᵀMw, uᵀMw and uᵀMu: ``M = (I - Σ_G wwᵀ)⁻¹``, u the sum of all w but those of G."""
        d = self.residuals[G] + self.ratio * known
        if self.center:
            n = len(self.X) - len(G)
            d = d + self.ratio * ((1.0 - linear) ** 2 / (n - total) - 1.0 / n)
        return d


def describe_class(X: np.ndarray, setting: Setting) -> OneClass:
    """The model of a class: exact or by landmarks, depending on the setting and the size of the class.

    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> exact, sparse = (describe_class(X, Setting(3.0, 0.1, landmarks=m)) for m in (None, 30))
    >>> len(exact.points), len(sparse.points), sparse.trace < 0.05
    (500, 30, True)
    """
    ell, ratio, center, landmarks, seed = setting
    most = setting.most(len(X))
    if most is None:
        return describe(X, ell, ratio, center)
    enough = CERTIFICATE_SHARE * ratio * len(X) if isinstance(landmarks, str) else 0.0
    found = pick(X, ell, ratio, most=most, enough=enough, rng=np.random.default_rng(seed))
    if isinstance(landmarks, str) and len(X) <= EXACT_IF_NEEDED and found.residuals.sum() > enough:
        return describe(X, ell, ratio, center)
    return describe_by_landmarks(X, found, ell, ratio, center)


def describe_by_landmarks(
    X: np.ndarray, landmarks: Landmarks, ell: float, ratio: float, center: bool = False
) -> LandmarkDescription:
    """The model of a class by landmarks that are picked already."""
    rows, L, AAT, A_ones, residuals = landmarks
    L_inv = np.tril(dtrtri(L, lower=1)[0])
    L_B_inv = np.tril(dtrtri(regularised_factor(AAT.copy(), ratio), lower=1)[0])
    values, directions = eigh(AAT, check_finite=False)
    # I - ρ(AAᵀ + ρI)⁻¹ = EᵀE; with its columns turned round, QR makes a lower triangle of E
    values = np.maximum(values, 0.0)
    E = np.sqrt(values / (values + ratio))[:, np.newaxis] * directions.T
    (R,) = qr(E[:, ::-1], mode="r", overwrite_a=True, check_finite=False)
    return LandmarkDescription(
        X=X,
        landmarks=rows,
        ell=ell,
        ratio=ratio,
        L_inv=np.ascontiguousarray(np.tril(R[::-1, ::-1] @ L_inv)),
        W=np.ascontiguousarray(np.tril(L_B_inv @ L_inv)),
        W_ones=L_B_inv @ A_ones,
        residuals=residuals,
        center=center,
    )


def _chunks(parts: Sequence[np.ndarray], m: int) -> Iterator[list[int]]:
    """The numbers of the parts, in groups of similar length with at most `TABLE_BLOCK_ROWS` samples."""
    sizes = np.array([len(G) for G in parts])
    chunk: list[int] = []
    for i in np.argsort(sizes, kind="stable").tolist():
        if chunk and ((len(chunk) + 1) * sizes[i] > TABLE_BLOCK_ROWS or (sizes[i] > m) != (sizes[chunk[0]] > m)):
            yield chunk
            chunk = []
        chunk.append(i)
    if chunk:
        yield chunk


def pick(X: np.ndarray, ell: float, ratio: float, *, most: int, enough: float, rng: np.random.Generator) -> Landmarks:
    """Landmarks until ``tr(K - Q)`` is at most `enough`, in units of σ², and no more than `most` of them.

    With 0, as many landmarks as allowed, or as double precision can separate.

    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> found = pick(X, 3.0, 0.1, most=100, enough=0.05, rng=np.random.default_rng(0))
    >>> 5 < len(found.rows) < 60, bool(found.residuals.sum() <= 0.05)
    (True, True)
    """
    rows, L, residuals = np.empty(0, int), np.empty((0, 0)), np.ones(len(X))
    smallest = max(MIN_RESIDUAL_SHARE * ratio, MIN_RESIDUAL)
    found = None
    for turn in range(PICKING_ROUNDS):
        drawn, weights = _drawn(residuals, rng)
        upto = max(1, int(FIRST_ROUND_SHARE * most)) if turn == 0 and weights is not None else most
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
    if n <= CANDIDATE_SAMPLES:
        return np.arange(n), None
    total = residuals.sum()
    rows, times = np.unique(rng.choice(n, CANDIDATE_SAMPLES, p=residuals / total), return_counts=True)
    return rows, times * total / (CANDIDATE_SAMPLES * residuals[rows])


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
