"""What fitted objects know, as strict JSON and arrays for a model file, and back, by tables of their fields."""

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from outlark.errors import InputError, ModelFileError

#: Name in the file → attribute, and what it is: a function that makes it from a JSON value, or the kind of an array and
#: its sizes as letters (C classes, d features, n samples, …), each bound by the first array that has it. "*" stands for
#: any size, "n?" for n or 0, "m<n" for m numbers of rows of n, "d|dd" for a vector or a matrix; an "optional" array may
#: be None. Triangles are stored without their zeros.
Table = dict[str, tuple[str, str | Callable[[Any], Any]]]
NUMBERS = ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8")
NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
NEWER = "written by a newer outlark? pip install -U outlark"
OLDER = "it was written by an older version of outlark; train it again"
#: Most characters of an array of str, in which every entry takes as much room as the longest.
MOST_CHARACTERS = 100_000_000


def require(fits: Any, found: str) -> None:
    """A ModelFileError with what was found, unless it fits."""
    if not fits:
        raise ModelFileError(f"{found}; save the model again")


# ------------------------------------------------------------------------ values


def encoded(value: Any, where: str) -> Any:
    """A parameter or a label as strict JSON; `decoded` restores value and type.

    >>> encoded({"a": 0.5, "b": np.float32(2.0)}, "threshold")
    {'mapping': [['a', 0.5], ['b', {'numpy': 'float32', 'value': 2.0}]]}
    >>> decoded(encoded((1, np.inf), "threshold"), "threshold")
    (1, inf)
    """
    if isinstance(value, np.generic) and value.dtype.name in (*NUMBERS, "bool"):
        return {"numpy": value.dtype.name, "value": encoded(value.item(), where)}
    if isinstance(value, np.ndarray) and value.dtype.name in NUMBERS:
        return {"array": encoded(value.tolist(), where), "dtype": value.dtype.name}
    if isinstance(value, str):
        return str(value)
    if type(value) in (type(None), bool, int):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, list):
        return [encoded(entry, where) for entry in value]
    if isinstance(value, tuple):
        return {"tuple": [encoded(entry, where) for entry in value]}
    if isinstance(value, Mapping):
        return {"mapping": [[encoded(key, where), encoded(entry, where)] for key, entry in value.items()]}
    raise InputError(
        f"{where} is {value!r:.100}, of type {type(value).__name__}, which a model file cannot hold; use numbers, str, "
        "None, or lists and dicts of these"
    )


def decoded(value: Any, where: str) -> Any:
    """The reverse of `encoded`."""
    try:
        match value:
            case None | bool() | int() | float() | str():
                return value
            case list():
                return [decoded(entry, where) for entry in value]
            case {"tuple": list(entries)}:
                return tuple(decoded(entry, where) for entry in entries)
            case {"mapping": list(pairs)}:
                return {decoded(key, where): decoded(entry, where) for key, entry in pairs}
            case {"float": str(name)}:
                return NOT_FINITE[name]
            case {"numpy": str(name), "value": entry} if name in (*NUMBERS, "bool"):
                return np.dtype(name).type(decoded(entry, where))
            case {"array": entries, "dtype": str(name)} if name in NUMBERS:
                return np.array(decoded(entries, where), dtype=name)
    except (ValueError, TypeError, KeyError, OverflowError):
        pass
    raise ModelFileError(f"{where} is {value!r:.100}, which is not a stored value; save the model again")


def put_kind(estimator: BaseEstimator, kinds: Mapping[str, type[BaseEstimator]]) -> dict[str, Any]:
    """The name and the parameters of an estimator of one of these kinds, as strict JSON."""
    kind = type(estimator).__name__
    if type(estimator) is not kinds.get(kind):
        raise InputError(f"{kind} cannot be saved; use one of {', '.join(kinds)}")
    parameters = estimator.get_params(deep=False).items()
    return {"kind": kind, "parameters": {name: encoded(value, name) for name, value in parameters}}


def take_kind(settings: Any, kinds: Mapping[str, type[BaseEstimator]], what: str) -> Any:
    """The reverse of `put_kind`, not fitted. Defaults change, so a missing parameter is an error."""
    kind = settings.get("kind") if isinstance(settings, dict) else None
    if not isinstance(kind, str) or kind not in kinds:
        raise ModelFileError(f"a {what} of kind {kind!r:.100}; this outlark knows {', '.join(kinds)}; {NEWER}")
    given = settings.get("parameters")
    require(isinstance(given, dict), f"the parameters of {kind} are {given!r:.100}, not a dict")
    parameters = kinds[kind]().get_params(deep=False).keys()
    if given.keys() - parameters:
        raise ModelFileError(f"{kind} has no parameters {sorted(given.keys() - parameters)!s:.200}; {NEWER}")
    if parameters - given.keys():
        missing = sorted(parameters - given.keys())
        raise ModelFileError(f"the file lacks the parameters {missing!s:.200} of {kind}: {OLDER}")
    return kinds[kind](**{name: decoded(value, name) for name, value in given.items()})


# ------------------------------------------------------------------------ fields


class Fields:
    """The fields of an object as `settings` and `arrays`.

    `settings` are strict JSON: "values", "labels" (of str or mixed kinds; numbers are arrays) and "fortran", the names
    of arrays in column-major order, which affects the last bit of matrix products.
    """

    def __init__(self, settings: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        self.settings = {"values": {}, "labels": {}, "fortran": [], **settings}
        self.arrays = arrays
        for name, kind in (("values", dict), ("labels", dict), ("fortran", list)):
            found = self.settings[name]
            require(isinstance(found, kind), f"{name!r} of the model is {found!r:.100}, not a {kind.__name__}")

    def put(self, table: Table, attribute: Callable[[str], Any], prefix: str = "") -> None:
        """Store what a table lists; `attribute` gives the value of an attribute."""
        for name, (own, spec) in table.items():
            value = attribute(own)
            if callable(spec):
                self.settings["values"][prefix + name] = encoded(_as_lists(value), prefix + name)
            elif spec.startswith("triangle"):
                self.put_array(prefix + name, value[np.tri(len(value), dtype=bool)])
            elif value is not None:
                self.put_labels(prefix + name, value.astype(np.int64) if spec.startswith("int") else value)

    def put_array(self, name: str, array: np.ndarray) -> None:
        if array.flags.f_contiguous and not array.flags.c_contiguous:
            self.settings["fortran"].append(name)
        self.arrays[name] = np.array(array, order="C")

    def put_labels(self, name: str, labels: np.ndarray) -> None:
        """Labels of any kind; numbers become an array."""
        if labels.dtype.kind == "U":
            width = max(1, labels.dtype.itemsize // 4)
            self.settings["labels"][name] = {"width": width, "entries": labels.tolist()}
        elif labels.dtype.kind == "O":
            self.settings["labels"][name] = {"entries": [encoded(label, name) for label in labels]}
        elif labels.dtype.name in (*NUMBERS, "bool"):
            self.put_array(name, labels)
        else:
            raise InputError(f"{name} is of dtype {labels.dtype}, which a model file cannot hold; use str or int")

    def take(self, table: Table, sizes: dict[str, int], prefix: str = "") -> dict[str, Any]:
        """What `put` stored, by attribute; a ModelFileError names an entry that is missing or does not fit the rest."""
        return {own: self._taken(prefix + name, spec, sizes) for name, (own, spec) in table.items()}

    def _taken(self, name: str, spec: str | Callable[[Any], Any], sizes: dict[str, int]) -> Any:
        if callable(spec):
            return self._value(name, spec)
        kind, shapes, *optional = spec.split()
        if optional and name not in self.arrays:
            return None
        if kind == "triangle":
            n = sizes[shapes]
            matrix = np.zeros((n, n))
            matrix[np.tri(n, dtype=bool)] = self.array(name, n * (n + 1) // 2)
            return matrix
        return self._sized(name, kind, shapes, sizes)

    def _value(self, name: str, made: Callable[[Any], Any]) -> Any:
        if name not in self.settings["values"]:
            raise ModelFileError(f"the file has no {name!r}: {OLDER}")
        found = decoded(self.settings["values"][name], name)
        with suppress(TypeError, ValueError, KeyError, OverflowError):
            return made(found)
        raise ModelFileError(f"{name} is {found!r:.100}, which is not valid; save the model again")

    def _sized(self, name: str, kind: str, shapes: str, sizes: dict[str, int]) -> np.ndarray:
        """An array or labels of sizes that are known, or become known with it."""
        letters, _, below = shapes.rstrip("?").partition("<")
        ndim = np.ndim(self.arrays.get(name, 0.0))
        letters = next((shape for shape in letters.split("|") if len(shape) == ndim), letters.split("|")[0])
        empty = shapes.endswith("?") and self.arrays.get(name, np.ones(1)).shape == (0,)
        wanted = [0 if empty else sizes.get(letter) for letter in letters]
        if kind == "label":
            array = self.labels(name, wanted[0])
        else:
            array = self.array(name, *wanted, finite=kind != "float+inf", kind="f" if kind == "positive" else kind[0])
        require(array.size or empty or "*" in letters, f"array {name!r} has no rows")
        require(kind != "positive" or (array > 0.0).all(), f"array {name!r} must be positive")
        if below:
            fits = np.isin(array, np.arange(sizes[below])).all()
            require(fits, f"array {name!r} must name rows from 0 to {sizes[below] - 1}")
        sizes.update((letter, n) for letter, n in zip(letters, array.shape, strict=True) if not empty and letter != "*")
        return array

    def array(self, name: str, *shape: int | None, finite: bool = True, kind: str = "f") -> np.ndarray:
        """An array of float64, int64 with ``kind="i"`` or bool with "b"; None in the shape stands for any length."""
        array, dtype = self.arrays.get(name), np.dtype({"f": np.float64, "i": np.int64, "b": np.bool_}[kind])
        if array is None:
            raise ModelFileError(f"array {name!r} is missing: {OLDER}")
        fits = array.dtype == dtype and len(array.shape) == len(shape)
        fits = fits and all(n in (None, m) for n, m in zip(shape, array.shape, strict=True))
        wanted = f"{dtype} of shape ({', '.join('any' if n is None else str(n) for n in shape)})"
        require(fits, f"array {name!r} is {array.dtype} of shape {array.shape} and must be {wanted}")
        fits = not np.isnan(array).any() and (not finite or np.isfinite(array).all())
        require(fits, f"array {name!r} holds NaN or inf, where numbers must be")
        return np.asfortranarray(array) if name in self.settings["fortran"] else array

    def labels(self, name: str, n: int | None) -> np.ndarray:
        """One label for each of n classes or samples, in its original dtype."""
        kept = self.settings["labels"].get(name)
        labels = self.arrays.get(name, np.empty(())) if kept is None else _listed_labels(kept, name)
        expected = "one or more labels" if n is None else f"{n} labels"
        fits = labels.ndim == 1 and n in (None, len(labels))
        require(fits, f"{name} is of shape {labels.shape} and must be {expected}")
        return labels


def _listed_labels(kept: Any, name: str) -> np.ndarray:
    match kept:
        case {"width": int(width), "entries": list(entries)} if all(isinstance(entry, str) for entry in entries):
            longest = max([1, *map(len, entries)])
            if longest <= width and width * len(entries) <= MOST_CHARACTERS and width is not True:
                return np.array(entries, dtype=f"<U{width}")
        case {"entries": list(entries), **rest} if not rest:
            labels = np.empty(len(entries), dtype=object)
            labels[:] = [decoded(entry, name) for entry in entries]
            with suppress(TypeError):  # None, or str and numbers together
                sorted(labels)
                return labels
    raise ModelFileError(f"{name} is {kept!r:.100}, which are not labels; save the model again")


def _as_lists(value: Any) -> Any:
    if isinstance(value, list | tuple | np.ndarray):
        return [_as_lists(entry) for entry in value]
    return bool(value) if isinstance(value, np.bool_) else value
