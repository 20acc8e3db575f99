"""Notes as groups of samples: what is left out together, copies, and subsets that keep notes whole."""

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree
from scipy.spatial.distance import pdist

from outlark.maths.description import blocks

#: A class with a single note is cut into this many blocks of consecutive samples instead.
SINGLE_NOTE_BLOCKS = 5
#: Samples are the same when they are nearer than this share of the median distance between samples.
SAME_SAMPLE = 1e-3
#: Rows on which that median is taken.
MEDIAN_ROWS = 300
#: Up to one pair of near samples for this many samples, all pairs are taken as copies.
SAMPLES_PER_COPY = 20
#: Projections on which rows are compared before they are compared in full.
N_PROJECTIONS = 4


def parts_of(groups: np.ndarray) -> list[np.ndarray]:
    """The index arrays of the samples of each note, in the order of first appearance.

    >>> parts_of(np.array(["b", "a", "b"]))
    [array([0, 2]), array([1])]
    """
    _, first, inverse = np.unique(groups, return_index=True, return_inverse=True)
    rows = np.split(np.argsort(inverse, kind="stable"), np.cumsum(np.bincount(inverse))[:-1])
    return [rows[g] for g in np.argsort(first, kind="stable")]


def in_order_of_appearance(labels: np.ndarray) -> np.ndarray:
    """The distinct labels; what is drawn class by class in this order does not depend on the names of classes.

    >>> in_order_of_appearance(np.array([2, 0, 2, 1]))
    array([2, 0, 1])
    """
    classes, first = np.unique(labels, return_index=True)
    return classes[np.argsort(first)]


def canonical_order(X: np.ndarray) -> np.ndarray:
    """An order of the rows that does not depend on the order they are in, but for copies: what is drawn from rows in
    this order is the same however they are shuffled.

    >>> X = np.array([[3.0, 1.0], [1.0, 2.0], [2.0, 0.0]])
    >>> X[canonical_order(X)].tolist() == X[::-1][canonical_order(X[::-1])].tolist()
    True
    """
    direction = np.random.default_rng(0).normal(size=X.shape[1])
    return np.argsort(np.einsum("ij,j->i", X, direction), kind="stable")


def leave_out_parts(groups: np.ndarray) -> list[np.ndarray]:
    """What to leave out in turn: each note, or blocks of samples where there is one note only; [] for one sample.

    >>> [part.tolist() for part in leave_out_parts(np.array([7, 7, 7, 7]))]
    [[0], [1], [2], [3]]
    """
    parts = parts_of(groups)
    if len(parts) == 1:
        n = len(groups)
        parts = np.array_split(np.arange(n), min(SINGLE_NOTE_BLOCKS, n)) if n > 1 else []
    return parts


def leave_out_folds(parts: Sequence[Sequence[np.ndarray]], most: int) -> Iterator[np.ndarray]:
    """Rows to leave out together: part i of every class is in fold ``i mod n_folds``, with at most this many folds.

    Up to `most` parts, a class thus loses one part at a time.
    """
    n_folds = min(most, max((len(of_class) for of_class in parts), default=0))
    for fold in range(n_folds):
        yield np.sort(np.concatenate([part for of_class in parts for part in of_class[fold::n_folds]]))


def same_samples(X: np.ndarray) -> np.ndarray:
    """A number for each row, the same for rows that are the same up to `SAME_SAMPLE`; numbered as they appear.

    Rows that are near have near projections, so only rows with near projections are compared.

    >>> same_samples(np.array([[3.0], [1.0], [3.0], [3.0 + 1e-9]]))
    array([0, 1, 0, 0])
    """
    of_bytes = np.fromiter((hash(row.tobytes()) for row in X), np.int64, len(X))
    _, first, number = np.unique(of_bytes, return_index=True, return_inverse=True)
    distances = pdist(X[np.sort(first)[:: max(1, len(first) // MEDIAN_ROWS)]])
    if distances.size:
        d = X.shape[1]
        directions = np.linalg.qr(np.random.default_rng(0).normal(size=(d, min(d, N_PROJECTIONS))))[0]
        projected = cKDTree((X @ directions)[first])
        radius = _radius_of_copies(projected, SAME_SAMPLE * float(np.median(distances)))
        pairs = projected.query_pairs(radius, output_type="ndarray")
        pairs = pairs[_gaps(X, *first[pairs].T) <= radius]
        links = coo_array((np.ones(len(pairs)), pairs.T), shape=(len(first), len(first)))
        number = connected_components(links, directed=False)[1][number]
    _, first, number = np.unique(number, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[number]


def _gaps(X: np.ndarray, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The distance between the rows of each pair."""
    found = [np.linalg.norm(X[one[b]] - X[other[b]], axis=1) for b in blocks(len(one))]
    return np.concatenate([*found, np.empty(0)])


def _radius_of_copies(tree: cKDTree, radius: float) -> float:
    """The radius, or less where samples are so dense that neighbours are as near as copies.

    At a tenth of the radius such neighbours are a tenth as many, or fewer; copies are as many as before.

    >>> _radius_of_copies(cKDTree(np.linspace(0, 1, 10_001)[:, np.newaxis]), 1e-2) < 1e-4
    True
    """

    def pairs_within(r: float) -> int:
        return (int(tree.count_neighbors(tree, r)) - tree.n) // 2

    while (
        pairs_within(radius) > max(1, tree.n // SAMPLES_PER_COPY)
        and pairs_within(radius / 10) < pairs_within(radius) / 5
    ):
        radius /= 10
    return radius


def merge_copies(X: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Note ids in which a note and its copy are one note, so that they are left out together.

    Two notes are copies when at least half of the samples of one occur in the other as well, up to `SAME_SAMPLE`: a
    converted clip differs in its last digits. Left out alone, a note whose copy stays would score as if it had been
    seen.

    >>> merge_copies(np.array([[0.0], [1.0], [1e-6]]), np.array([5, 6, 7]))
    array([0, 1, 0])
    """
    row = same_samples(X)
    if row.max() + 1 == len(X):
        return groups
    ids, note = np.unique(groups, return_inverse=True)
    if len(ids) == len(X):
        return row
    times = coo_array((np.ones(len(X)), (note, row))).tocsr()  # how often each sample occurs in each note
    in_common = (times @ (times > 0).astype(float).T).tocoo()
    copies = in_common.data >= 0.5 * np.bincount(note)[in_common.row]
    graph = coo_array((copies[copies], (in_common.row[copies], in_common.col[copies])), shape=(len(ids), len(ids)))
    return connected_components(graph, directed=False)[1][note]


def draw_notes(groups: np.ndarray, n_notes: int, n_samples: int, rng: np.random.Generator) -> np.ndarray:
    """Row numbers of at most `n_notes` whole notes drawn at random, thinned to at most `n_samples` rows.

    >>> rng = np.random.default_rng(0)
    >>> len(draw_notes(np.repeat([0, 1, 2], 10), n_notes=2, n_samples=15, rng=rng))
    15
    """
    parts = parts_of(groups)
    chosen = rng.permutation(len(parts))[:n_notes]
    rows = np.concatenate([parts[i] for i in chosen])
    if len(rows) > n_samples:
        rows = rng.permutation(rows)[:n_samples]
    return np.sort(rows)


def balanced_subset(labels: np.ndarray, groups: np.ndarray, max_samples: int, rng: np.random.Generator) -> np.ndarray:
    """Row numbers of at most `max_samples` samples, as evenly over the classes as these allow, in ascending order.

    Notes are kept whole as long as two of a class fit; beyond that their samples are thinned at random.

    >>> rows = balanced_subset(np.repeat([0, 1], [90, 10]), np.arange(100), 40, np.random.default_rng(0))
    >>> np.bincount(np.repeat([0, 1], [90, 10])[rows])
    array([30, 10])
    """
    if len(labels) <= max_samples:
        return np.arange(len(labels))
    classes = in_order_of_appearance(labels)
    counts = np.array([np.sum(labels == c) for c in classes])
    quota, left = np.zeros(len(classes), int), max_samples
    for rank, c in enumerate(np.argsort(counts, kind="stable")):  # small classes first: what they leave goes round
        quota[c] = min(counts[c], left // (len(classes) - rank))
        left -= quota[c]
    chosen = []
    for c, size in zip(classes, quota, strict=True):
        rows = np.flatnonzero(labels == c)
        parts = parts_of(groups[rows])
        longest_first = np.sort([len(part) for part in parts])[::-1]
        n_notes = max(2, int(np.searchsorted(np.cumsum(longest_first), size, side="right")))
        chosen.append(rows[draw_notes(groups[rows], n_notes, size, rng)])
    return np.sort(np.concatenate(chosen))
