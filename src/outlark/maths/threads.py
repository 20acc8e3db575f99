"""How many threads BLAS may use.

Many small factorisations are slower with several BLAS threads than with one, a hundred times slower on a busy machine,
because the threads wait for each other; and with one thread a fit gives the same numbers everywhere.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import ThreadpoolController

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
