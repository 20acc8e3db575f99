"""One run at a time in an output folder. The system lets go of a lock when its process ends, however it ends."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

#: Seconds between two attempts.
PAUSE_S = 0.05

if sys.platform == "win32":
    import msvcrt

    def _take(file: IO[bytes], shared: bool) -> None:
        if not shared:  # of several workers all can have the file open, which is as much as this system needs
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _take(file: IO[bytes], shared: bool) -> None:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)


class TakenError(Exception):
    """Another process has the lock."""


@contextmanager
def lock(path: Path, *, shared: bool = False, wait_s: float = 0.0) -> Iterator[None]:
    """Hold a lock on a file, which is made if it is not there and stays.

    Parameters
    ----------
    path : Path
    shared : bool
        Others may hold it as well, if they share it too.
    wait_s : float
        How long to try.

    Raises
    ------
    TakenError
        When it could not be had.
    """
    give_up = time.monotonic() + wait_s
    with path.open("ab") as file:
        while True:
            try:
                _take(file, shared)
                break
            except (BlockingIOError, PermissionError):
                if time.monotonic() >= give_up:
                    raise TakenError(str(path)) from None
                time.sleep(PAUSE_S)
        yield
