"""Rows of tables that may be larger than memory: in blocks, and in unnamed temporary files; and the threads of BLAS.

A table counts as *on disk* when it is a memory map of more than `IN_MEMORY` bytes; smaller ones are read.
"""

import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from threadpoolctl import ThreadpoolController

from outlark.errors import InputError

#: Rows read at once.
BLOCK_ROWS = 4096
#: A memory map of at most this many bytes is read into memory.
IN_MEMORY = 2**26


def blocks(n: int, n_rows: int | None = None) -> Iterator[slice]:
    """The rows of a table, `n_rows` at a time, by default `BLOCK_ROWS`.

    >>> [(block.start, block.stop) for block in blocks(5000)]
    [(0, 4096), (4096, 5000)]
    """
    n_rows = BLOCK_ROWS if n_rows is None else n_rows
    return (slice(start, min(start + n_rows, n)) for start in range(0, n, n_rows))


def on_disk(X: np.ndarray) -> bool:
    """Whether X, or what it is a view of, is a memory map too large to be read."""
    base: object = X
    while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
        base = base.base
    return isinstance(base, np.memmap) and X.nbytes > IN_MEMORY


def gathered(X: np.ndarray, rows: np.ndarray, of: Callable[[np.ndarray], np.ndarray] | None = None) -> np.ndarray:
    """``of(X[rows])`` in double precision: in memory, or in an unnamed file if X is on disk.

    >>> gathered(np.array([[1.0], [2.0], [3.0]]), np.array([2, 0]), of=lambda X: 10.0 * X)
    array([[30.],
           [10.]])
    """
    of = np.asarray if of is None else of
    if not on_disk(X):
        return np.ascontiguousarray(of(X[rows]), dtype=np.float64)
    return spooled(of(X[rows[block]]) for block in blocks(len(rows)))


def joined(X: np.ndarray, more: np.ndarray) -> np.ndarray:
    """Both tables stacked: in memory, or in an unnamed file if X is on disk."""
    if not on_disk(X):
        return np.concatenate([X, more])
    return spooled(piece for table in (X, more) for piece in (table[block] for block in blocks(len(table))))


def spooled(pieces: Iterator[np.ndarray]) -> np.ndarray:
    """The pieces (n_i, d), stacked, as a memory map of a temporary file (in TMPDIR) that disappears with it."""
    n, d = 0, 0
    with tempfile.TemporaryFile() as file:
        try:
            for piece in pieces:
                n, d = n + len(piece), piece.shape[1]
                file.write(np.ascontiguousarray(piece, dtype=np.float64).data)
            file.flush()
        except OSError as error:
            raise InputError(
                f"cannot store the samples in {tempfile.gettempdir()} ({error.strerror or error}) after {n:,} rows; "
                "free some space, or set the environment variable TMPDIR to a folder on a larger disk"
            ) from error
        if n == 0 or d == 0:
            raise InputError("there are no samples; give at least one block with rows and columns")
        return np.asarray(np.memmap(file, dtype=np.float64, mode="r", shape=(n, d)))


_BLAS = ThreadpoolController().select(user_api="blas")
_LIMITED = threading.Lock()


def blas_threads() -> int:
    """The number of threads that BLAS may use now (``OMP_NUM_THREADS``, threadpoolctl)."""
    return max((library.num_threads for library in _BLAS.lib_controllers), default=1)


@contextmanager
def one_blas_thread() -> Iterator[bool]:
    """Hold BLAS to one thread; True if it is this call that does so.

    The number of BLAS threads is that of the whole process, so only one call at a time may set it; others leave it as
    it is.
    """
    if not _LIMITED.acquire(blocking=False):
        yield False
        return
    try:
        with _BLAS.limit(limits=1):
            yield True
    finally:
        _LIMITED.release()
