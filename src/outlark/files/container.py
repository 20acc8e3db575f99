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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save

from outlark.errors import InputError, ModelFileError
from outlark.files.aside import opened_aside
from outlark.files.places import NOT_REGULAR, SOUND_STARTS, is_endless
from outlark.files.strict_json import dumps, loads
from outlark.plain_text import first_bytes

NAME, MAJOR, MINOR = "outlark-model", 1, 0
OWN_KEYS = ("format", "arrays", "sha256")
#: Key of the metadata in safetensors, and of outlark's header in it.
METADATA, KEY = "__metadata__", "outlark"
#: The dtypes of safetensors that a file may hold.
CODES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BOOL": "bool",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8",
    "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8",
}  # fmt: skip
#: A file begins with the length of its safetensors header, which safetensors limits.
LENGTH_BYTES, LONGEST_HEADER = 8, 100_000_000
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
    stored = {name: _storable(name, array) for name, array in arrays.items()}
    taken = [key for key in OWN_KEYS if key in header]
    if taken:
        raise InputError(f"the header has {taken}, which the file format adds itself; use other keys")
    listed = {name: {"dtype": a.dtype.name, "shape": list(a.shape)} for name, a in stored.items()}
    whole = {**header, "format": {"name": NAME, "major": MAJOR, "minor": MINOR}, "arrays": listed}
    text = dumps({**whole, "sha256": _digest(whole, stored)}, "header")
    blob = save(stored, metadata={KEY: text})
    length = int.from_bytes(blob[:LENGTH_BYTES], "little")
    if length > LONGEST_HEADER:
        raise InputError(f"the header takes {length} bytes, at most {LONGEST_HEADER} can be read; use arrays instead")
    with about(path, "written", "free some space, or choose a folder that you may write to"):
        _replace(Path(os.path.realpath(path)), blob)


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays (writable, in C order and native byte order) that `write` was given.

    A ModelFileError for anything but a complete, undamaged file in a version of the format that this outlark knows.
    """
    with about(path, "read", "check that the file exists and that you may read it"):
        size = _file_size(Path(path))
        with open(path, "rb") as file:
            header = _checked_header(_table(file.read, size))
            file.seek(0)
            arrays = _arrays(file.read(size))
        sha256 = header.pop("sha256", None)
        if sha256 != _digest(header, arrays):
            raise ModelFileError(f"damaged: the digest does not match what is in the file; {AGAIN}")
        return {key: value for key, value in header.items() if key not in OWN_KEYS}, arrays


# ---------------------------------------------------------------------- writing


def _storable(name: str, array: ArrayLike) -> np.ndarray:
    """The array in C order and little-endian, as safetensors requires."""
    if not isinstance(name, str) or name == METADATA or not name.isascii():
        raise InputError(f"an array is named {name!r}; use ASCII characters, and not {METADATA!r}")
    values = np.asarray(array)
    kind = "masked" if np.ma.isMaskedArray(array) else values.dtype.name
    if kind not in CODES.values():
        raise InputError(f"array {name!r} is {kind}, which a model file cannot hold; use {', '.join(CODES.values())}")
    return np.asarray(values, dtype=values.dtype.newbyteorder("<"), order="C")


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


# ---------------------------------------------------------------------- reading


def _file_size(path: Path) -> int:
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
    return found.st_size


def _table(read_bytes: Callable[[int], bytes], size: int) -> dict[str, Any]:
    """The safetensors header: name → dtype, shape and position of every array, and the metadata."""
    first = read_bytes(LENGTH_BYTES)
    length, room = int.from_bytes(first, "little"), max(size - LENGTH_BYTES, 0)
    if not 2 <= length <= LONGEST_HEADER:
        raise ModelFileError(f"not a model file, but {_other_kind(first)}; give a file that outlark saved")
    if length > room:
        raise ModelFileError(
            f"not a model file, or cut short: its first bytes announce a header of {length} bytes and {room} follow; "
            "give a file that outlark saved, or copy it again"
        )
    return loads(read_bytes(length), "its safetensors header")


def _other_kind(first: bytes) -> str:
    """What kind of file begins with these bytes.

    >>> _other_kind(b"RIFF...."), _other_kind(b"label,st")
    ('a recording (WAV)', "a file that begins with 'label,st'")
    """
    found = next((name for start, name in SOUND_STARTS.items() if first.startswith(start)), None)
    return f"a file that begins with {first_bytes(first)}" if found is None else f"a recording ({found})"


def _checked_header(table: dict[str, Any]) -> dict[str, Any]:
    """outlark's header, after checking format, version and the list of arrays."""
    metadata = table.pop(METADATA, None)
    text = metadata.get(KEY) if isinstance(metadata, dict) else None
    if not isinstance(text, str):
        raise ModelFileError("a safetensors file of another program; give a file that outlark saved")
    header = loads(text, "its header")
    version = header.get("format")
    if not isinstance(version, dict) or version.get("name") != NAME:
        raise ModelFileError(f"its format is {version!r:.100}, not {NAME!r}; give a file that outlark saved")
    major = version.get("major")
    if type(major) is not int or major < 1:
        raise ModelFileError(f"damaged: version {major!r:.100} of the file format does not exist; {AGAIN}")
    if major > MAJOR:
        raise ModelFileError(
            f"written by a newer outlark, file format {major!r:.20}; this one reads up to {MAJOR}: "
            "pip install -U outlark"
        )
    held = {name: _listed(entry) for name, entry in table.items()}
    if held != header.get("arrays"):
        raise ModelFileError(f"damaged: the arrays in it are not those that its header lists; {AGAIN}")
    return header


def _listed(entry: Any) -> dict[str, Any]:
    """An entry of ``arrays``, from what safetensors says about the array."""
    code = entry.get("dtype") if isinstance(entry, dict) else None
    if not isinstance(code, str) or code not in CODES:
        raise ModelFileError(f"damaged: an array of dtype {code!r:.100}; {AGAIN}")
    return {"dtype": CODES[code], "shape": entry.get("shape")}


def _arrays(blob: bytes) -> dict[str, np.ndarray]:
    arrays = {}
    try:
        for name, view in deserialize(blob):
            dtype = np.dtype(CODES[view["dtype"]])
            stored = np.ndarray(view["shape"], dtype.newbyteorder("<"), buffer=view["data"])
            if dtype.kind == "b" and np.any(stored.view(np.uint8) > 1):
                raise ValueError(f"{name!r:.100} holds values other than True and False")
            arrays[name] = stored.astype(dtype, order="C", copy=True)
    except (SafetensorError, ValueError, TypeError, KeyError, OverflowError) as error:
        raise ModelFileError(f"damaged: its arrays cannot be read ({error!s:.300}); {AGAIN}") from None
    return arrays


# ------------------------------------------------------------------------- both


def _digest(header: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 of the header, which lists the arrays, and of the bytes of the arrays by name."""
    sha = hashlib.sha256(dumps(header, "header").encode())
    for name in sorted(arrays):
        array = arrays[name]
        sha.update(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
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
