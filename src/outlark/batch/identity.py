"""By which a recording is known again: its size, its time, and what is in it here and there."""

import hashlib
import os
import platform
from collections.abc import Mapping
from functools import cache
from os import PathLike
from typing import Any

from outlark.files.places import is_endless, is_url, mark_of


@cache
def arithmetic() -> dict[str, str]:
    """Machine, kernels and libraries of this process, in words.

    >>> sorted(arithmetic())
    ['blas', 'machine', 'numpy', 'scipy', 'simd', 'soundfile', 'soxr']
    """
    import numpy
    import scipy
    import soundfile
    import soxr
    from threadpoolctl import threadpool_info

    blas = [one for one in threadpool_info() if one.get("user_api") == "blas"]
    # scipy brings one of its own, which follows the same rule and may not be loaded yet
    blas = [one for one in blas if "numpy" in one.get("filepath", "")] or blas
    simd = numpy.show_config(mode="dicts").get("SIMD Extensions", {}).get("found", [])
    return {
        "machine": platform.machine(),
        "blas": ", ".join(sorted(set(map(_kernel, blas)))) or "unknown",
        "simd": " ".join(simd) or "baseline",
        **{library.__name__: library.__version__ for library in (numpy, scipy, soundfile, soxr)},
    }


def _kernel(library: dict[str, str]) -> str:
    parts = (library.get("internal_api"), library.get("version"), library.get("architecture"))
    return " ".join(str(part) for part in parts if part)


#: Of a file as it was at some moment; None if it was not there.
Print = Mapping[str, Any] | None
#: Bytes at the head and at the tail that are looked at, and of each block in between.
ENDS, BLOCK = 2**16, 2**12
#: Blocks between head and tail, evenly spread. Files up to 192 KiB are looked at as a whole.
BLOCKS = 16


def fingerprint(path: str | PathLike[str]) -> Print:
    """Size, time and a digest of head, tail and some blocks of a file; None if it is not there, or a pipe.

    Recorders that are switched on together write files of the same name, size and time. What is in them differs
    everywhere, so that a few blocks tell them apart, and a folder of a terabyte is looked through in seconds. At a URL,
    what the store says of the content takes the place of the blocks.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     for name in ("a", "b"):
    ...         _ = Path(folder, name).write_bytes(b"recorder " + name.encode())
    ...         os.utime(Path(folder, name), (0, 0))
    ...     a, b = (fingerprint(Path(folder, name)) for name in ("a", "b"))
    >>> a["size"] == b["size"], a["mtime_ns"] == b["mtime_ns"], a["sha256"] == b["sha256"]
    (True, True, False)
    """
    if is_endless(path):
        return None
    try:
        if is_url(path):
            return mark_of(str(path))
        with open(path, "rb", buffering=0) as file:
            found = os.fstat(file.fileno())
            digest = hashlib.sha256()
            for start, size in _places(found.st_size):
                file.seek(start)
                digest.update(file.read(size))
    except OSError:
        return None
    return {"size": found.st_size, "mtime_ns": found.st_mtime_ns, "sha256": digest.hexdigest()}


def _places(size: int) -> list[tuple[int, int]]:
    """Start and length of what is looked at in a file of this size.

    >>> _places(100), len(_places(10**9))
    ([(0, 100)], 18)
    """
    between = size - 2 * ENDS
    if between <= BLOCKS * BLOCK:
        return [(0, size)]
    starts = (ENDS + i * (between - BLOCK) // (BLOCKS - 1) for i in range(BLOCKS))
    return [(0, ENDS), *((start, BLOCK) for start in starts), (size - ENDS, ENDS)]
