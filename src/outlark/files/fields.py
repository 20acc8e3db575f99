"""Values, labels and arrays of estimators for model files: stored by `Fields`, and checked when read back."""

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from outlark.errors import InputError, ModelFileError

NUMBERS = ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8")
NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
NEWER = "written by a newer outlark? pip install -U outlark"
OLDER = "it was written by an older version of outlark; train it again"
#: Most characters of an array of str, in which every entry takes as much room as the longest.
MOST_CHARACTERS = 100_000_000


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
            case {"tuple": list(entries), **rest} if not rest:
                return tuple(decoded(entry, where) for entry in entries)
            case {"mapping": list(pairs), **rest} if not rest:
                return {decoded(key, where): decoded(entry, where) for key, entry in pairs}
            case {"float": str(name), **rest} if not rest:
                return NOT_FINITE[name]
            case {"numpy": str(name), "value": entry, **rest} if not rest and name in (*NUMBERS, "bool"):
                return np.dtype(name).type(decoded(entry, where))
            case {"array": entries, "dtype": str(name), **rest} if not rest and name in NUMBERS:
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
    if not isinstance(given, dict):
        raise ModelFileError(f"the parameters of {kind} are {given!r:.100}, not a dict; save the model again")
    parameters = set(kinds[kind]().get_params(deep=False))
    unknown, missing = sorted(set(given) - parameters), sorted(parameters - set(given))
    if unknown:
        raise ModelFileError(f"{kind} has no parameters {unknown!s:.200}; {NEWER}")
    if missing:
        raise ModelFileError(f"the file lacks the parameters {missing!s:.200} of {kind}: {OLDER}")
    return kinds[kind](**{name: decoded(value, name) for name, value in given.items()})


def plain(value: Any) -> Any:
    """A NumPy scalar as the Python value it stands for."""
    return value.item() if isinstance(value, np.generic) else value


class Fields:
    """The stored state of an estimator.

    Attributes
    ----------
    settings : dict
        Strict JSON: "values", "labels" (of str or mixed kinds; numbers are arrays) and "fortran", the arrays in
        column-major order, which affects the last bit of matrix products.
    arrays : dict of str to ndarray
    """

    def __init__(self, settings: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        for key, kind in (("values", dict), ("labels", dict), ("fortran", list)):
            if not isinstance(settings.setdefault(key, kind()), kind):
                raise ModelFileError(
                    f"{key!r} of the model is {settings[key]!r:.100}, not a {kind.__name__}; save it again"
                )
        self.settings, self.arrays = settings, arrays

    # ----------------------------------------------------------------- putting in

    def put_value(self, name: str, value: Any) -> None:
        self.settings["values"][name] = encoded(value, name)

    def put_array(self, name: str, array: np.ndarray) -> None:
        if array.flags.f_contiguous and not array.flags.c_contiguous:
            self.settings["fortran"].append(name)
        self.arrays[name] = np.array(array, order="C")

    def put_labels(self, name: str, labels: np.ndarray) -> None:
        kind = labels.dtype.kind
        if kind == "U":
            width = max(1, labels.dtype.itemsize // 4)
            if width * len(labels) > MOST_CHARACTERS:
                raise InputError(f"{name} takes {width * len(labels)} characters; use shorter names")
            self.settings["labels"][name] = {"width": width, "entries": labels.tolist()}
        elif kind == "O":
            self.settings["labels"][name] = {"entries": [encoded(label, name) for label in labels]}
        elif labels.dtype.name in (*NUMBERS, "bool"):
            self.put_array(name, labels)
        else:
            raise InputError(f"{name} is of dtype {labels.dtype}, which a model file cannot hold; use str or int")

    # ----------------------------------------------------------------- taking out

    def value(self, name: str) -> Any:
        if name not in self.settings["values"]:
            raise ModelFileError(f"the file has no {name!r}: {OLDER}")
        return decoded(self.settings["values"][name], name)

    def array(self, name: str, *shape: int | None, finite: bool = True, kind: str = "f") -> np.ndarray:
        """An array of float64, int64 with ``kind="i"`` or bool with "b"; None in the shape stands for any length."""
        array = self.arrays.get(name)
        dtype = np.dtype({"f": np.float64, "i": np.int64, "b": np.bool_}[kind])
        wanted = f"{dtype} of shape ({', '.join('any' if n is None else str(n) for n in shape)})"
        if array is None:
            raise ModelFileError(f"array {name!r} is missing: {OLDER}")
        fits = array.dtype == dtype and len(array.shape) == len(shape)
        if not fits or any(n is not None and n != m for n, m in zip(shape, array.shape, strict=True)):
            found = f"{array.dtype} of shape {array.shape}"
            raise ModelFileError(f"array {name!r} is {found} and must be {wanted}; save the model again")
        if np.any(np.isnan(array)) or (finite and not np.all(np.isfinite(array))):
            raise ModelFileError(f"array {name!r} holds NaN or inf, where numbers must be; save the model again")
        return np.asfortranarray(array) if name in self.settings["fortran"] else array

    def labels(self, name: str, n: int | None) -> np.ndarray:
        """One label for each of n classes or samples, in its original dtype."""
        kept = self.settings["labels"].get(name)
        labels = self.arrays.get(name, np.empty(())) if kept is None else _listed_labels(kept, name)
        if labels.ndim != 1 or len(labels) != (len(labels) if n is None else n):
            expected = "one or more labels" if n is None else f"{n} labels"
            raise ModelFileError(f"{name} is of shape {labels.shape} and must be {expected}; save the model again")
        return labels


def _listed_labels(kept: Any, name: str) -> np.ndarray:
    match kept:
        case {"width": int(width), "entries": list(entries)} if all(isinstance(entry, str) for entry in entries):
            longest = max(map(len, entries), default=1)
            if max(longest, 1) <= width and width * len(entries) <= MOST_CHARACTERS and width is not True:
                return np.array(entries, dtype=f"<U{width}")
        case {"entries": list(entries), **rest} if not rest:
            labels = np.empty(len(entries), dtype=object)
            labels[:] = [scalar(decoded(entry, name), name) for entry in entries]
            with suppress(TypeError):  # None, or str and numbers together
                sorted(labels)
                return labels
    raise ModelFileError(f"{name} is {kept!r:.100}, which are not labels; save the model again")


def scalar(value: Any, name: str) -> Any:
    """The value, if it is None, a number or a str."""
    if plain(value) is not None and not isinstance(plain(value), bool | int | float | str):
        raise ModelFileError(f"{name} is {value!r:.100} and must be a number, a str or None; save the model again")
    return value
