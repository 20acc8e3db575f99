"""Model files: named arrays and a JSON header in one safetensors file, which holds no code and names none.

The header is one JSON string under the key "outlark" of the safetensors metadata, with three entries that `write` adds
and `read` removes:

- ``format``: name and version. A new minor version adds entries, which an older outlark ignores; it refuses a new
  major version.
- ``arrays``: the dtype and shape of every array.
- ``sha256``: a digest of everything else. It reveals damage; it does not authenticate the file.
"""

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from outlark.errors import InputError, ModelFileError, OutlarkError
from outlark.files.io import NOT_REGULAR, SOUND_STARTS, dumps, is_endless, loads, opened_aside
from outlark.plain_text import first_bytes

NAME, MAJOR, MINOR = "outlark-model", 1, 0
OWN_KEYS = ("format", "arrays", "sha256")
#: Key of outlark's header in the metadata of safetensors.
KEY = "outlark"
AGAIN = "copy the file again, or train the model again"


def write(path: str | os.PathLike[str], header: dict[str, Any], arrays: Mapping[str, ArrayLike]) -> None:
    """Write a file completely or not at all; equal headers and arrays give equal bytes.

    Parameters
    ----------
    path : str or path
        Its folder must exist. An existing file is replaced, in one step, once the new one is on disk.
    header : dict
        Strict JSON: dict with str keys, list, str, int, finite float, bool, None.
    arrays : mapping of str to array
        Whole numbers, float16 to float64 or bool, of any shape and memory layout. NaN and inf are allowed.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write(f"{folder}/small.outlark", {"made_by": "me"}, {"thresholds": np.array([0.5, np.inf])})
    ...     header, arrays = read(f"{folder}/small.outlark")
    >>> header, arrays["thresholds"]
    ({'made_by': 'me'}, array([0.5, inf]))
    """
    stored = {name: _little_endian(np.asarray(array, order="C")) for name, array in arrays.items()}
    whole = {**header, "format": {"name": NAME, "major": MAJOR, "minor": MINOR}, "arrays": _listed(stored)}
    text = dumps({**whole, "sha256": _digest(whole, stored)}, "header")
    with about(path, "written", "free some space, or choose a folder that you may write to"):
        _replace(Path(os.path.realpath(path)), save(stored, metadata={KEY: text}))


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays (writable, in C order and native byte order) that `write` was given.

    A ModelFileError for anything but a complete, undamaged file in a version of the format that this outlark knows.
    """
    with about(path, "read", "check that the file exists and that you may read it"):
        _check_file(Path(path))
        try:
            with safe_open(path, framework="numpy") as file:
                header = _checked_header(file.metadata() or {})
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except OutlarkError:
            raise
        except (SafetensorError, ValueError, TypeError, LookupError, AttributeError) as error:
            raise ModelFileError(_reason(path, error)) from None
        sha256, listed = header.pop("sha256", None), header.get("arrays")
        if listed != _listed(arrays) or sha256 != _digest(header, arrays):
            raise ModelFileError(f"damaged: the digest does not match what is in the file; {AGAIN}")
        return {key: value for key, value in header.items() if key not in OWN_KEYS}, arrays


def _replace(target: Path, blob: bytes) -> None:
    if target.is_dir():
        raise ModelFileError("is a folder; give the name of a file in it")
    if not target.parent.is_dir():
        raise ModelFileError(f"the folder {target.parent} does not exist; create it first, or choose another")
    mode = target.stat().st_mode if target.exists() else None
    if mode is not None and not stat.S_ISREG(mode):
        raise ModelFileError("is a device or a pipe, not a file; choose another name")
    with opened_aside(target) as file:
        file.write(blob)
        if mode is not None:
            os.chmod(file.name, stat.S_IMODE(mode))


def _check_file(path: Path) -> None:
    try:
        found = path.stat()
    except FileNotFoundError:
        raise ModelFileError("there is no such file; check the name and the folder") from None
    if stat.S_ISDIR(found.st_mode):
        raise ModelFileError("is a folder, not a model file; give the path of a model")
    if is_endless(path):
        raise ModelFileError(NOT_REGULAR)
    if found.st_size == 0:
        raise ModelFileError(f"the file is empty; {AGAIN}")


def _reason(path: str | os.PathLike[str], error: Exception) -> str:
    """Why safetensors cannot read the file."""
    with open(path, "rb") as file:
        first = file.read(8)
    sound = next((name for start, name in SOUND_STARTS.items() if first.startswith(start)), None)
    if sound is not None:
        return f"not a model file, but a recording ({sound}); give a file that outlark saved"
    return (
        f"not a model file, or damaged or cut short: it begins with {first_bytes(first)} ({error!s:.200}); "
        "give a file that outlark saved, or copy it again"
    )


def _checked_header(metadata: Mapping[str, str]) -> dict[str, Any]:
    """outlark's header, once format and version are known to be ours."""
    if KEY not in metadata:
        raise ModelFileError("a safetensors file of another program; give a file that outlark saved")
    header = loads(metadata[KEY], "its header")
    match header.get("format"):
        case {"name": "outlark-model", "major": int(major)} if 1 <= major <= MAJOR:
            return header
        case {"name": "outlark-model", "major": int(major)} if major > MAJOR:
            raise ModelFileError(
                f"written by a newer outlark, file format {major!r:.20}; this one reads up to {MAJOR}: "
                "pip install -U outlark"
            )
        case other:
            raise ModelFileError(f"its format is {other!r:.100}, not {NAME!r}; give a file that outlark saved")


def _listed(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    return {name: {"dtype": array.dtype.name, "shape": list(array.shape)} for name, array in arrays.items()}


def _little_endian(array: np.ndarray) -> np.ndarray:
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def _digest(header: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 of the header, which lists the arrays, and of the bytes of the arrays by name."""
    sha = hashlib.sha256(dumps(header, "header").encode())
    for name in sorted(arrays):
        sha.update(_little_endian(arrays[name]).tobytes())
    return sha.hexdigest()


@contextmanager
def about(path: str | os.PathLike[str], done: str, remedy: str) -> Iterator[None]:
    """Turns failures into ModelFileErrors that begin with the path.

    >>> with about("song.outlark", "read", "see that the file is there"):
    ...     raise ModelFileError("no classes; save the model again")
    Traceback (most recent call last):
    outlark.errors.ModelFileError: song.outlark: no classes; save the model again
    """
    try:
        yield
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None
    except InputError as error:
        message = f"{path}: not a model file, or damaged: {error}; give a file that outlark saved, or copy it again"
        raise ModelFileError(message) from None
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be {done} ({error.strerror or error}); {remedy}") from error
    except MemoryError:
        raise ModelFileError(f"{path}: needs more memory than there is; use a larger machine") from None
    except ValueError as error:  # such as a zero byte in the path
        raise ModelFileError(f"{path!r}: cannot be {done} ({error}); choose another name") from None
