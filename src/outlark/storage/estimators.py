"""What a fitted estimator knows, as settings and arrays for a file, and back: the same answers to the last bit.

Tables list the entries of a file, and `put` and `take` walk over them. A file chooses among the `KINDS` by name and can
name nothing else.
"""

from collections.abc import Callable
from functools import partial
from numbers import Real
from types import NoneType
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from outlark.errors import InputError, ModelFileError
from outlark.estimators.mddkm import MDDKM
from outlark.estimators.open_set import check_outlier_label
from outlark.estimators.pknn import PKNN
from outlark.files.fields import Fields, put_kind, take_kind
from outlark.maths.choice import Trial
from outlark.maths.description import Description
from outlark.maths.pknn import Eta, Prototypes
from outlark.maths.size import Size
from outlark.maths.sparse import LandmarkDescription

KINDS: dict[str, type[MDDKM] | type[PKNN]] = {"MDDKM": MDDKM, "PKNN": PKNN}
#: Name in the file → attribute, and what it is: a function that makes it from a JSON value, or the kind of an array and
#: its sizes as letters (C classes, d features, n samples, …), each bound by the first array that has it. "*" stands for
#: any size, "n?" for n or 0, "m<n" for m numbers of rows of n. Triangles are stored without their zeros.
Table = dict[str, tuple[str, str | Callable[[Any], Any]]]
Sizes = dict[str, int]
SCALAR = (str, Real, NoneType)


def number(found: Any) -> Any:
    """A finite number above 0."""
    if isinstance(found, str | bool) or not 0.0 < float(found) < np.inf:
        raise ValueError
    return found


def count(found: Any) -> int:
    """A whole number above 0."""
    if type(found) is not int or found < 1:
        raise ValueError
    return found


def one_of(*values: Any) -> Callable[[Any], Any]:
    """One of these, and of the same type."""
    return lambda found: {(type(value), value): value for value in values}[type(found), found]


def rows_of(kind: Callable[[list[Any]], Any], *types: Any) -> Callable[[Any], list[Any]]:
    """A list of rows, each with entries of these types."""

    def made(found: list[list[Any]]) -> list[Any]:
        if not all(isinstance(v, t) for row in found for v, t in zip(row, types, strict=True)):
            raise TypeError
        return [kind(row) for row in found]

    return made


COMMON: Table = {
    "classes": ("classes_", "label C"),
    "n_features": ("n_features_in_", count),
    "thresholds": ("thresholds_", "float+inf C"),
}
NAMES: Table = {"feature_names": ("feature_names_in_", lambda names: np.array([*map(str, names)], dtype=object))}
OF_MDDKM: Table = {
    "sigma": ("sigma_", number),
    "length_scale": ("length_scale_", number),
    "sigma_reg": ("sigma_reg_", number),
    "metric": ("metric_", one_of("euclidean", "within", "whiten")),
    "ratio": ("_ratio", lambda found: None if found is None else number(found)),
    "reference_size": ("reference_size_", lambda found: Size(*map(count, found))),
    "trials": ("trials_", rows_of(Trial._make, str, Real, Real)),
    "trimmed": ("trimmed_", rows_of(tuple, SCALAR, SCALAR)),
    "feature_map": ("feature_map_", "float d|dd"),
    "origin": ("_origin", "float d"),
    "size_factors": ("size_factors_", "float C"),
}
EXACT: Table = {
    "X": ("X", "float nd"),
    "ell": ("ell", number),
    "ratio": ("ratio", number),
    "center": ("center", one_of(True, False)),
    "L_inv": ("L_inv", "triangle n"),
}
LANDMARKS: Table = EXACT | {
    "landmarks": ("rows", "int m<n"),
    "L_inv": ("L_inv", "triangle m"),
    "W": ("W", "triangle m"),
    "W_ones": ("W_ones", "float m"),
    "residuals": ("residuals", "float n"),
}
PROTOTYPES: Table = {
    "points": ("points", "float Pd"),
    "owners": ("owners", "int P<C"),
    "fuzzy_labels": ("labels", "float PC"),
}
ETA: Table = {
    "eta_shift": ("shift", lambda found: found if found == 0.0 else number(found)),
    "eta_scale": ("scale", number),
}
#: Lists with an entry for each class.
LISTS_OF_PKNN: Table = {
    "left_out_scores": ("left_out_scores_", "float *"),
    "left_out_note_scores": ("left_out_note_scores_", "float *"),
}
LISTS_OF_MDDKM: Table = LISTS_OF_PKNN | {
    "left_out_scores": ("left_out_scores_", "float n?"),
    "notes": ("notes_", "label n"),
    "together": ("_together", "label n"),
}


# --------------------------------------------------------------------- the walk


def put(fields: Fields, attribute: Callable[[str], Any], table: Table, prefix: str = "") -> None:
    """Store what a table lists."""
    for name, (own, spec) in table.items():
        value = attribute(own)
        if callable(spec):
            fields.put_value(prefix + name, _as_json(value))
        elif spec.startswith("triangle"):
            fields.put_array(prefix + name, value[np.tri(len(value), dtype=bool)])
        else:
            fields.put_labels(prefix + name, value.astype(np.int64) if spec.startswith("int") else value)


def take(fields: Fields, table: Table, sizes: Sizes, prefix: str = "") -> dict[str, Any]:
    """What `put` stored, by attribute; a ModelFileError names an entry that is missing or does not fit the rest."""
    return {own: _taken(fields, prefix + name, spec, sizes) for name, (own, spec) in table.items()}


def set_all(model: Any, attributes: dict[str, Any]) -> None:
    """Set what `take` returned."""
    for name, value in attributes.items():
        setattr(model, name, value)


def _taken(fields: Fields, name: str, spec: str | Callable[[Any], Any], sizes: Sizes) -> Any:
    if callable(spec):
        found = fields.value(name)
        try:
            return spec(found)
        except (TypeError, ValueError, KeyError, OverflowError):
            raise ModelFileError(f"{name} is {found!r:.100}, which is not valid; save the model again") from None
    kind, shapes, *optional = spec.split()
    if optional and name not in fields.arrays:
        return None
    if kind == "triangle":
        n = sizes[shapes]
        matrix = np.zeros((n, n))
        matrix[np.tri(n, dtype=bool)] = fields.array(name, n * (n + 1) // 2)
        return matrix
    return _array(fields, name, kind, shapes, sizes)


def _array(fields: Fields, name: str, kind: str, shapes: str, sizes: Sizes) -> np.ndarray:
    letters, _, below = shapes.rstrip("?").partition("<")
    ndim = np.ndim(fields.arrays.get(name, 0.0))
    letters = next((shape for shape in letters.split("|") if len(shape) == ndim), letters.split("|")[0])
    empty = shapes.endswith("?") and fields.arrays.get(name, np.ones(1)).shape == (0,)
    wanted = [0 if empty else sizes.get(letter) for letter in letters]
    if kind == "label":
        array = fields.labels(name, wanted[0])
    else:
        array = fields.array(name, *wanted, finite=kind != "float+inf", kind="f" if kind == "positive" else kind[0])
    if 0 in array.shape and not empty and "*" not in letters:
        raise ModelFileError(f"array {name!r} has no rows; save the model again")
    if kind == "positive" and not (array > 0.0).all():
        raise ModelFileError(f"array {name!r} must be positive; save the model again")
    if below and not np.isin(array, np.arange(sizes[below])).all():
        raise ModelFileError(f"array {name!r} must name rows from 0 to {sizes[below] - 1}; save the model again")
    sizes.update((letter, n) for letter, n in zip(letters, array.shape, strict=True) if not empty and letter != "*")
    return array


def _as_json(value: Any) -> Any:
    if isinstance(value, list | tuple | np.ndarray):
        return [_as_json(entry) for entry in value]
    return bool(value) if isinstance(value, np.bool_) else value


# ------------------------------------------------------------------- estimators


def state_of(model: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """All that a fitted `MDDKM` or `PKNN` knows, as strict JSON and copies of its arrays.

    >>> model = MDDKM(outlier_label="?").fit([[0.0], [0.2], [5.0], [5.1]], ["a", "a", "b", "b"])
    >>> again = from_state(*state_of(model))
    >>> again.predict([[0.1], [5.0], [99.0]])
    array(['a', 'b', '?'], dtype='<U1')
    """
    if type(model) in KINDS.values():  # put_kind refuses all others
        check_is_fitted(model)
        _check_parameters(model)
    fields, own = Fields(put_kind(model, KINDS), {}), partial(getattr, model)
    put(fields, own, COMMON | NAMES if hasattr(model, "feature_names_in_") else COMMON)
    if isinstance(model, MDDKM):
        put(fields, own, OF_MDDKM)
        for c, description in enumerate(model.descriptions_):
            table = LANDMARKS if isinstance(description, LandmarkDescription) else EXACT
            put(fields, partial(getattr, description), table, f"{c}/")
    else:
        put(fields, partial(getattr, model._model), PROTOTYPES)
        put(fields, partial(getattr, model._model.eta), ETA)
    for c in range(len(model.classes_)):
        put(fields, partial(_of_class, model, c), _lists_of(model), f"{c}/")
    return fields.settings, fields.arrays


def from_state(settings: Any, arrays: dict[str, np.ndarray]) -> MDDKM | PKNN:
    """The estimator that `state_of` was given. It takes the arrays over."""
    try:
        model = take_kind(settings, KINDS, "model")
        _check_parameters(model)
        fields, sizes = Fields(dict(settings), arrays), Sizes()
        named = "feature_names" in fields.settings["values"]
        set_all(model, take(fields, COMMON | NAMES if named else COMMON, sizes))
        sizes["d"] = model.n_features_in_
        if len(set(model.classes_.tolist())) < sizes["C"]:
            raise ModelFileError(f"the classes {model.classes_.tolist()!r:.100} are not distinct; save the model again")
        if named and len(model.feature_names_in_) != sizes["d"]:
            raise ModelFileError(f"feature_names must be {sizes['d']} names; save the model again")
        _take(fields, model, sizes)
        check_outlier_label(model.outlier_label, model.classes_)
    except (InputError, RecursionError) as error:
        raise ModelFileError(f"the model is damaged: {error}") from None
    return model


def _take(fields: Fields, model: MDDKM | PKNN, sizes: Sizes) -> None:
    of_classes = [dict(sizes) for _ in range(sizes["C"])]
    if isinstance(model, MDDKM):
        set_all(model, take(fields, OF_MDDKM, sizes))
        model.descriptions_ = [_description(fields, own, f"{c}/") for c, own in enumerate(of_classes)]
    else:
        model._model = Prototypes(**take(fields, PROTOTYPES, sizes), eta=Eta(**take(fields, ETA, sizes)))
        model.prototypes_, owners, model.fuzzy_labels_, model.eta_ = model._model
        model.prototype_labels_ = model.classes_[owners]
    found = [take(fields, _lists_of(model), own, f"{c}/") for c, own in enumerate(of_classes)]
    set_all(model, {name: [of_class[name] for of_class in found] for name in found[0]})


def _description(fields: Fields, sizes: Sizes, prefix: str) -> Description | LandmarkDescription:
    if any(prefix + name in fields.arrays for name in LANDMARKS.keys() - EXACT.keys()):
        sizes["m"] = fields.array(f"{prefix}landmarks", None, kind="i").size
        return LandmarkDescription(**take(fields, LANDMARKS, sizes, prefix))
    return Description(**take(fields, EXACT, sizes, prefix))


def _lists_of(model: MDDKM | PKNN) -> Table:
    return LISTS_OF_MDDKM if isinstance(model, MDDKM) else LISTS_OF_PKNN


def _of_class(model: MDDKM | PKNN, c: int, attribute: str) -> Any:
    return getattr(model, attribute)[c]


def _check_parameters(estimator: Any) -> None:
    """As `fit` does, for a parameter may have been set since, and for what it does not look at."""
    for name, value in estimator.get_params(deep=False).items():
        if name == "random_state" and not (value is None or isinstance(value, int | np.integer)):
            raise InputError(
                f"random_state={value!r:.100} cannot be kept in a file; set a whole number or None: "
                "model.set_params(random_state=0)"
            )
        if name != "threshold" and not isinstance(value, SCALAR):
            raise InputError(f"{name}={value!r:.100} must be a number, a str or None")
    try:
        estimator._check_parameters()
    except (TypeError, OverflowError) as error:
        raise InputError(f"a parameter is of the wrong type ({error}); give it again as fit wants it") from None
