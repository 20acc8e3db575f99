"""Files of values and arrays: a JSON header and named arrays in one safetensors file, which holds no code.

The header is one JSON string under the key "outlark" of the safetensors metadata, with three entries that `write` adds
and `read` removes:

- ``format``: name and version. A new minor version adds entries, which an older outlark ignores; it refuses a new
  major version.
- ``arrays``: the dtype and shape of every array.
- ``sha256``: a digest of everything else. It reveals damage; it does not authenticate the file.

`pack` turns values of any kind into such a header and arrays, `unpack` restores them.
"""

import hashlib
import math
import os
import stat
from collections.abc import Callable, Iterator, Mapping
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

FORMAT_NAME, MAJOR, MINOR = "outlark-model", 1, 0
#: Of the header of a model. Files of another version are refused.
MODEL_VERSION = 2
OWN_ENTRIES = ("format", "arrays", "sha256")
#: Key of outlark's header in the metadata of safetensors.
METADATA_KEY = "outlark"
COPY_AGAIN = "copy the file again, or train the model again"
NUMBERS = ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8")
NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
Arrays = dict[str, np.ndarray]


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
    whole = {**header, "format": {"name": FORMAT_NAME, "major": MAJOR, "minor": MINOR}, "arrays": _listed(stored)}
    text = dumps({**whole, "sha256": digest_of(whole, stored)}, "header")
    with about(path, "written", "give the name of a file that you may write, or free some space"):
        try:
            with opened_aside(Path(path)) as file:
                file.write(save(stored, metadata={METADATA_KEY: text}))
        except FileNotFoundError:
            folder = Path(os.path.realpath(path)).parent
            raise ModelFileError(f"the folder {folder} does not exist; create it first, or choose another") from None


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Arrays]:
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
        if listed != _listed(arrays) or sha256 != digest_of(header, arrays):
            raise ModelFileError(f"damaged: the digest does not match what is in the file; {COPY_AGAIN}")
        return {key: value for key, value in header.items() if key not in OWN_ENTRIES}, arrays


def digest_of(header: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 of a header and of the bytes of arrays by name."""
    sha = hashlib.sha256(dumps(header, "header").encode())
    for name in sorted(arrays):
        sha.update(_little_endian(arrays[name]).tobytes())
    return sha.hexdigest()


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
        raise ModelFileError(f"the file is empty; {COPY_AGAIN}")


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
    if METADATA_KEY not in metadata:
        raise ModelFileError("a safetensors file of another program; give a file that outlark saved")
    header = loads(metadata[METADATA_KEY], "its header")
    match header.get("format"):
        case {"name": "outlark-model", "major": int(major)} if 1 <= major <= MAJOR:
            return header
        case {"name": "outlark-model", "major": int(major)} if major > MAJOR:
            raise ModelFileError(
                f"written by a newer outlark, file format {major!r:.20}; this one reads up to {MAJOR}: "
                "pip install -U outlark"
            )
        case other:
            raise ModelFileError(f"its format is {other!r:.100}, not {FORMAT_NAME!r}; give a file that outlark saved")


def _listed(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    return {name: {"dtype": array.dtype.name, "shape": list(array.shape)} for name, array in arrays.items()}


def _little_endian(array: np.ndarray) -> np.ndarray:
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


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


# ------------------------------------------------------------------ values


def pack(value: Any, name: str, arrays: Arrays, of_object: Callable[[Any, str], Any] | None = None) -> Any:
    """A value as strict JSON; its arrays are added to `arrays` under names that begin with `name`.

    `of_object` does the same for objects of other classes, and returns a dict with their "kind".

    >>> arrays = {}
    >>> pack({"a": (1, np.inf), "b": np.array([2.0])}, "both", arrays)
    {'dict': {'a': {'tuple': [1, {'float': 'inf'}]}, 'b': {'array': 'C'}}}
    >>> arrays
    {'both/b': array([2.])}
    """

    def each(values: Any) -> list[Any]:
        return [pack(entry, f"{name}/{i}", arrays, of_object) for i, entry in enumerate(values)]

    if isinstance(value, np.ndarray):
        return _pack_array(value, name, arrays)
    if isinstance(value, np.generic) and value.dtype.name in (*NUMBERS, "bool"):
        return {"numpy": value.dtype.name, "value": pack(value.item(), name, arrays)}
    if isinstance(value, str):
        return str(value)
    if type(value) in (type(None), bool, int):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if type(value) is list:
        return each(value)
    if type(value) is tuple:
        return {"tuple": each(value)}
    if isinstance(value, Mapping) and all(type(key) is str for key in value):
        return {"dict": {key: pack(entry, f"{name}/{key}", arrays, of_object) for key, entry in value.items()}}
    if isinstance(value, Mapping):
        return {"mapping": each([list(pair) for pair in value.items()])}
    if of_object is not None:
        return of_object(value, name)
    raise InputError(
        f"{name} is {value!r:.100}, of type {type(value).__name__}, which a model file cannot hold; use numbers, str, "
        "None, or lists and dicts of these"
    )


def _pack_array(array: np.ndarray, name: str, arrays: Arrays) -> dict[str, Any]:
    if array.dtype.kind in "UO":
        entries = [pack(label, name, arrays) for label in array.tolist()]
        return {"labels": entries, "object": array.dtype.kind == "O"}
    if array.dtype.name not in (*NUMBERS, "bool"):
        raise InputError(f"{name} is of dtype {array.dtype}, which a model file cannot hold; use str or int")
    if array.ndim == 2 and len(array) > 1 and array.shape[0] == array.shape[1] and not np.triu(array, 1).any():
        order = "lower F" if array.flags.f_contiguous else "lower C"
        arrays[name] = array[np.tri(len(array), dtype=bool)]  # half the size
    else:
        # the memory layout affects the last bit of matrix products
        order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        arrays[name] = np.array(array, order="C")
    return {"array": order}


def unpack(node: Any, name: str, arrays: Arrays, to_object: Callable[[dict[str, Any], str], Any] | None = None) -> Any:
    """The value that `pack` was given; a ModelFileError if there cannot be one.

    `to_object` makes objects from dicts with a "kind".
    """

    def each(nodes: list[Any]) -> list[Any]:
        return [unpack(entry, f"{name}/{i}", arrays, to_object) for i, entry in enumerate(nodes)]

    match node:
        case None | bool() | int() | float() | str():
            return node
        case list():
            return each(node)
        case {"tuple": list(nodes)}:
            return tuple(each(nodes))
        case {"dict": dict(nodes)}:
            return {key: unpack(entry, f"{name}/{key}", arrays, to_object) for key, entry in nodes.items()}
        case {"mapping": list(pairs)}:
            return dict(each(pairs))
        case {"float": str(text)} if text in NOT_FINITE:
            return NOT_FINITE[text]
        case {"numpy": str(dtype), "value": entry} if dtype in (*NUMBERS, "bool"):
            return np.dtype(dtype).type(unpack(entry, name, arrays))
        case {"array": str(order)} if name in arrays:
            return _unpack_array(arrays[name], order)
        case {"labels": list(entries), "object": bool(mixed)}:
            labels = np.empty(len(entries), dtype=object)
            labels[:] = [unpack(entry, name, arrays) for entry in entries]
            return labels if mixed or not len(labels) else labels.astype(str)
        case {"kind": _} if to_object is not None:
            return to_object(node, name)
    raise ModelFileError(f"{name} is {node!r:.100}, which is not a stored value; save it again")


def _unpack_array(stored: np.ndarray, order: str) -> np.ndarray:
    if order.startswith("lower"):
        n = math.isqrt(2 * len(stored))
        array = np.zeros((n, n), dtype=stored.dtype, order="F" if order.endswith("F") else "C")
        array[np.tri(n, dtype=bool)] = stored
        return array
    return np.asfortranarray(stored) if order == "F" else stored
