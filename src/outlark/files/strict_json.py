"""JSON that is read back unchanged: no NaN, no repeated keys, no tuples, no deep nesting."""

import json
import math
from typing import Any

from outlark.errors import InputError

#: Nesting of lists and dicts.
DEEPEST = 50


def dumps(value: Any, what: str) -> str:
    """One line of ASCII, the same for equal values; `what` names the value in errors.

    >>> dumps({"b": 0.1, "a": [None, True]}, "header")
    '{"a":[null,true],"b":0.1}'
    >>> dumps({"tau": {"song": float("nan")}}, "header")
    Traceback (most recent call last):
    outlark.errors.InputError: header.tau.song is nan, which JSON does not have; keep it in an array
    """
    _check(value, what)
    return json.dumps(value, sort_keys=True, allow_nan=False, separators=(",", ":"))


def loads(text: str | bytes, what: str) -> dict[str, Any]:
    """The object in `text`; an InputError for anything that `dumps` does not write."""
    try:
        if isinstance(text, bytes):
            text = text.decode()  # json would guess the encoding
        value = json.loads(text, object_pairs_hook=without_doubles)
        _check(value, what)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{what} is not strict JSON ({error})") from None
    if not isinstance(value, dict):
        raise InputError(f"{what} is not a JSON object")
    return value


class RepeatedKeyError(ValueError):
    """A JSON object with a repeated key."""


def without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """For `object_pairs_hook` of `json.loads`, which otherwise takes the last of equal keys.

    >>> without_doubles([("label", "song"), ("label", "call")])
    Traceback (most recent call last):
    outlark.files.strict_json.RepeatedKeyError: the key 'label' occurs twice
    """
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise RepeatedKeyError(f"the key {key!r:.60} occurs twice")
        found[key] = value
    return found


def _check(value: Any, where: str, depth: int = 0) -> None:
    """Refuse what would not be read back unchanged, naming the key."""
    if depth > DEEPEST:
        raise InputError(f"{where} is nested more than {DEEPEST} levels deep; flatten it")
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{where} is {value!r}, which JSON does not have; keep it in an array")
    if isinstance(value, dict):
        for key, entry in value.items():
            if not isinstance(key, str):
                raise InputError(f"{where} has the key {key!r}; keys must be str")
            _check(entry, f"{where}.{key:.40}", depth + 1)
    elif isinstance(value, list):
        for i, entry in enumerate(value):
            _check(entry, f"{where}[{i}]", depth + 1)
    elif type(value) not in (str, int, float, bool, type(None)):
        raise InputError(f"{where} is of type {type(value).__name__}; use dict, list, str, int, float, bool or None")
