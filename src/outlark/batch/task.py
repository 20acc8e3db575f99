"""What a run has to do, in terms that a file and another process understand, and how recordings are recognised."""

import hashlib
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any

from outlark.errors import ModelFileError
from outlark.files.io import NOT_REGULAR, is_endless, is_url, mark_of
from outlark.version import __version__

DETECT, DECIDE = "detect", "decide"
#: Suffix of score files.
SCORES = ".scores"
#: Suffix of outlark's own CSV files: `outlark.annotations.FORMATS["csv"].suffix`, which is slow to import.
ROWS = ".outlark.csv"
#: The folder in an output folder that holds the journal, the locks and unfinished work.
WORKSHOP = ".outlark"
#: A file as it was at some moment; None if it was not there.
Print = Mapping[str, Any] | None
#: Bytes read at the head and at the tail for a fingerprint, and in each block between.
ENDS, BLOCK = 2**16, 2**12
#: Blocks between head and tail, evenly spread. Files up to 192 KiB are read as a whole.
BLOCKS = 16


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is done to every file, and where the results go.

    Attributes
    ----------
    verb : "detect" or "decide"
        From recordings, or from kept scores.
    formats : tuple of str
        Annotation files to write; names of `outlark.annotations.FORMATS`.
    verdicts : tuple of str
        Segments to write.
    decisions : dict
        Parameters of `Decisions` that replace those of the model.
    channel : int or None
        Counted from 1; None for the mean of all.
    thresholds : tuple of float or None
        For the classes, in their order, in place of those of the model; None where it keeps its own.
    """

    model: str
    model_sha256: str
    output: str
    formats: tuple[str, ...]
    verdicts: tuple[str, ...]
    verb: str = DETECT
    decisions: Mapping[str, Any] = field(default_factory=dict)
    channel: int | None = None
    keep_scores: bool = False
    thresholds: tuple[float | None, ...] | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """Everything besides the recording that the results depend on, to the last digit."""
        thresholds = {} if self.thresholds is None else {"thresholds": list(self.thresholds)}
        return {
            "version": __version__,
            "model_sha256": self.model_sha256,
            "decisions": dict(self.decisions),
            "channel": self.channel,
            "verdicts": list(self.verdicts),
            **thresholds,
            "arithmetic": arithmetic(),
        }

    @property
    def workshop(self) -> Path:
        return Path(self.output, WORKSHOP)


def file_sha256(path: str | PathLike[str]) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of(path: str | Path) -> str:
    """The digest of a model file, which identifies the model in everything that is written."""
    if is_endless(path):
        raise ModelFileError(f"{path}: {NOT_REGULAR}")
    try:
        return file_sha256(path)
    except OSError as error:
        message = f"{path}: cannot be read ({error.strerror}); give the path of a model that outlark saved"
        raise ModelFileError(message) from error


@cache
def arithmetic() -> dict[str, str]:
    """Machine, kernels and libraries of this process.

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


def fingerprint(path: str | PathLike[str]) -> Print:
    """Size, time and a digest of head, tail and some blocks of a file; None if it is missing, or a pipe.

    Recorders that are switched on together write files of the same name, size and time, but a few blocks tell them
    apart, so that a terabyte is checked in seconds. At a URL, the checksum of the store replaces the blocks.

    Examples
    --------
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
    """Start and length of what is read of a file of this size.

    >>> _places(100), len(_places(10**9))
    ([(0, 100)], 18)
    """
    between = size - 2 * ENDS
    if between <= BLOCKS * BLOCK:
        return [(0, size)]
    starts = (ENDS + i * (between - BLOCK) // (BLOCKS - 1) for i in range(BLOCKS))
    return [(0, ENDS), *((start, BLOCK) for start in starts), (size - ENDS, ENDS)]
