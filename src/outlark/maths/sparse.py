r"""The model of a class by landmarks (the paper's future work: "sparsification"), for classes of any size.

Only the landmarks U are described, and all samples determine what is known about them. With ``K_UU = L Lᵀ``,
``A = L⁻¹K_Un``, ``q = L⁻¹k_U*`` and everything in units of σ²:

.. math::

   d(x_*) = 1 - qᵀq + ρ qᵀ (AAᵀ + ρI)^{-1} q

(deterministic training conditional; Seeger et al. 2003, Quiñonero-Candela and Rasmussen 2005). It lies between
ρ/(n + ρ) and 1, is 1 far from everything, and Eq. (11) itself where the landmarks are all samples. It costs n m² in
place of n³. ``tr(K - Q)``, the *certificate*, says how much of the class the landmarks miss.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh, qr
from scipy.linalg.blas import dtrmm
from scipy.linalg.lapack import dtrtri

from outlark.maths.description import OneClass, describe, far_distance, lowest_distance
from outlark.maths.gp import regularised_factor
from outlark.maths.landmarks import CANDIDATES, Landmarks, pick
from outlark.maths.rows import BLOCK_ROWS
from outlark.maths.scoring import Kernel

#: "auto" describes classes of up to this many samples exactly: below, landmarks are no faster.
EXACT_UP_TO = 3000
#: Up to here it does so where landmarks do not reach the certificate: an exact model is still cheap.
EXACT_IF_NEEDED = 6000
#: "auto" takes at most this many landmarks, and at most this share of the samples.
MOST_LANDMARKS, MOST_OF_CLASS = 2000, 1 / 3
#: "auto" stops when ``tr(K - Q)`` is at most this share of ρn.
ENOUGH = 0.003


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
            return None if n <= EXACT_UP_TO else min(MOST_LANDMARKS, int(MOST_OF_CLASS * n))
        return None if n <= self.landmarks else int(self.landmarks)

    def bytes_for(self, n: int) -> tuple[float, float]:
        """Memory for the model of a class of n samples besides the samples, and how much more while it is made."""
        m = self.most(n)
        if m is None or (isinstance(self.landmarks, str) and n <= EXACT_IF_NEEDED):
            return 8.0 * n**2, 24.0 * n**2
        return 8.0 * (2.0 * m**2 + 2.0 * n), 8.0 * (6.0 * m**2 + m * min(n, CANDIDATES) + 3.0 * m * BLOCK_ROWS)


class LandmarkDescription(NamedTuple):
    """The model of a class by m of its n samples; see the module docstring."""

    #: All samples of the class, in the units in which ℓ is given. They may lie in a memory map, (n, d).
    X: np.ndarray
    #: Which of them are the landmarks, (m,).
    rows: np.ndarray
    ell: float
    ratio: float
    #: A lower triangle with ``1 - d = ‖L_inv k‖²``: that of an exact description, if there were one of these m, (m, m).
    L_inv: np.ndarray
    #: A lower triangle with ``w = W k``, where ``wᵀw = qᵀ(AAᵀ + ρI)⁻¹q``: by it samples are left out, (m, m).
    W: np.ndarray
    #: The sum of w over all samples, (m,).
    W_ones: np.ndarray
    #: ``1 - qᵀq`` of each sample, (n,).
    residuals: np.ndarray
    center: bool = False

    @property
    def points(self) -> np.ndarray:
        return self.X[self.rows]

    @property
    def P_ones(self) -> np.ndarray:
        return self.W.T @ self.W_ones

    @property
    def ones_P_ones(self) -> float:
        return float(len(self.X) - self.W_ones @ self.W_ones) / self.ratio

    @property
    def floor(self) -> float:
        return lowest_distance(self)

    @property
    def far(self) -> float:
        return far_distance(self)

    @property
    def trace(self) -> float:
        return float(self.residuals.sum())

    def left_out(self, parts: Sequence[np.ndarray]) -> list[np.ndarray]:
        """For each part the distances of its samples under the model **without this part**, landmarks where they were.

        Closed form, no refitting: leaving out a part G takes ``A_G A_Gᵀ`` off ``AAᵀ``. A landmark is a place, not a
        sample: one that lies in G stays and is known less well.
        """
        found: list[np.ndarray] = [np.empty(0)] * len(parts)
        kernel = Kernel(self.points, self.ell, self.ratio)
        for chunk in _chunks(parts, len(self.rows)):
            together = self._without_short if len(parts[chunk[0]]) <= len(self.rows) else self._without_long
            for i, d in zip(chunk, together(kernel, [parts[i] for i in chunk]), strict=True):
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

    def _without_long(self, kernel: Kernel, parts: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Parts of more samples than there are landmarks: a matrix as large as the landmarks for each."""
        return [self._without_one(kernel, G) for G in parts]

    def _without_one(self, kernel: Kernel, G: np.ndarray) -> np.ndarray:
        blocks = [G[start : start + BLOCK_ROWS] for start in range(0, len(G), BLOCK_ROWS)]
        M, u = np.eye(len(self.rows)), self.W_ones.copy()
        for block in blocks:
            w = self._whitened(kernel, block)
            M -= w.T @ w
            u -= w.sum(axis=0)
        M_inv = np.linalg.inv(M)
        found = []
        for block in blocks:
            w = self._whitened(kernel, block)
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
    enough = ENOUGH * ratio * len(X) if isinstance(landmarks, str) else 0.0
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
        X=np.asarray(X),
        rows=rows,
        ell=ell,
        ratio=ratio,
        L_inv=np.ascontiguousarray(np.tril(R[::-1, ::-1] @ L_inv)),
        W=np.ascontiguousarray(np.tril(L_B_inv @ L_inv)),
        W_ones=L_B_inv @ A_ones,
        residuals=residuals,
        center=center,
    )


def _chunks(parts: Sequence[np.ndarray], m: int) -> Iterator[list[int]]:
    """The numbers of the parts, in groups of similar length with at most `BLOCK_ROWS` samples."""
    sizes = np.array([len(G) for G in parts])
    chunk: list[int] = []
    for i in np.argsort(sizes, kind="stable").tolist():
        if chunk and ((len(chunk) + 1) * sizes[i] > BLOCK_ROWS or (sizes[i] > m) != (sizes[chunk[0]] > m)):
            yield chunk
            chunk = []
        chunk.append(i)
    if chunk:
        yield chunk
