"""Files that end. A pipe waits for whoever writes to it, and a device such as /dev/zero never stops."""

import os
import stat

#: What is wrong with a path that leads to something else, and what to do.
NOT_REGULAR = "is a device or a pipe, not a file; copy what it gives into a file first"


def is_endless(path: str | os.PathLike[str]) -> bool:
    """Whether a path leads to a device, a pipe or a socket, which must not be opened to read a file.

    What is not there, or cannot be looked at, is left to whoever opens it.

    >>> is_endless(os.devnull), is_endless("."), is_endless("no such file")
    (True, False, False)
    """
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
