"""A fitted estimator as settings and arrays for a file, and back: the same answers to the last bit.

What is kept is listed here field by field for each of the `KINDS`: a file chooses among them by name and can name
nothing else.
"""

from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from outlark.errors import InputError, ModelFileError
from outlark.estimators.mddkm import MDDKM
from outlark.estimators.open_set import check_outlier_label
from outlark.estimators.pknn import PKNN
from outlark.files.fields import Fields, put_kind, scalar, take_kind
from outlark.maths.choice import Trial
from outlark.maths.description import ClassModel, Description
from outlark.maths.pknn import Eta, Prototypes
from outlark.maths.size import Size
from outlark.maths.sparse import LandmarkDescription

#: The arrays that only a class described by landmarks has.
ONLY_WITH_LANDMARKS = ("landmarks", "W", "W_ones", "residuals")
KINDS: dict[str, type[MDDKM] | type[PKNN]] = {"MDDKM": MDDKM, "PKNN": PKNN}


def state_of(estimator: BaseEstimator) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """All that a fitted `MDDKM` or `PKNN` knows, as strict JSON and copies of its arrays.

    >>> model = MDDKM(outlier_label="?").fit([[0.0], [0.2], [5.0], [5.1]], ["a", "a", "b", "b"])
    >>> again = from_state(*state_of(model))
    >>> again.predict([[0.1], [5.0], [99.0]])
    array(['a', 'b', '?'], dtype='<U1')
    """
    if type(estimator) in KINDS.values():  # put_kind refuses all others
        check_is_fitted(estimator)
        _check_parameters(estimator)
    fields = Fields(put_kind(estimator, KINDS), {})
    _put_common(fields, estimator)
    (_put_mddkm if isinstance(estimator, MDDKM) else _put_pknn)(fields, estimator)
    return fields.settings, fields.arrays


def from_state(settings: Any, arrays: dict[str, np.ndarray]) -> MDDKM | PKNN:
    """The estimator that `state_of` was given. It takes the arrays over.

    A ModelFileError names the field that is missing or does not fit the rest.
    """
    try:
        estimator = take_kind(settings, KINDS, "model")
        _check_parameters(estimator)
        fields = Fields(dict(settings), arrays)
        _take_common(fields, estimator)
        (_take_mddkm if isinstance(estimator, MDDKM) else _take_pknn)(fields, estimator)
        check_outlier_label(estimator.outlier_label, estimator.classes_)
    except (InputError, RecursionError) as error:
        raise ModelFileError(f"the model is damaged: {error}") from None
    return estimator


# ------------------------------------------------------------------- parameters


def _check_parameters(estimator: Any) -> None:
    """As `fit` does, for a parameter may have been set since, and for what it does not look at."""
    for name, value in estimator.get_params(deep=False).items():
        if name == "random_state" and not (value is None or isinstance(value, int | np.integer)):
            raise InputError(
                f"random_state={value!r:.100} cannot be kept in a file; set a whole number or None: "
                "model.set_params(random_state=0)"
            )
        if name != "threshold":
            try:
                scalar(value, name)
            except ModelFileError:
                raise InputError(f"{name}={value!r:.100} must be a number, a str or None") from None
    try:
        estimator._check_parameters()
    except (TypeError, OverflowError) as error:
        raise InputError(f"a parameter is of the wrong type ({error}); give it again as fit wants it") from None


# ----------------------------------------------------------------- what all have


def _put_common(fields: Fields, model: Any) -> None:
    fields.put_labels("classes", model.classes_)
    fields.put_value("n_features", int(model.n_features_in_))
    if hasattr(model, "feature_names_in_"):
        fields.put_value("feature_names", list(model.feature_names_in_))
    fields.put_array("thresholds", model.thresholds_)
    for c in range(len(model.classes_)):
        fields.put_array(f"{c}/left_out_scores", model.left_out_scores_[c])
        fields.put_array(f"{c}/left_out_note_scores", model.left_out_note_scores_[c])


def _take_common(fields: Fields, model: Any) -> None:
    model.classes_ = fields.labels("classes", None)
    C = len(model.classes_)
    if C == 0 or len(set(model.classes_.tolist())) < C:
        raise ModelFileError(f"the classes {model.classes_.tolist()!r:.100} are none or not distinct")
    d = fields.positive("n_features")
    if type(d) is not int:
        raise ModelFileError(f"n_features is {d!r:.100} and must be a whole number; save the model again")
    model.n_features_in_ = d
    if "feature_names" in fields.settings["values"]:
        names = fields.value("feature_names")
        if not isinstance(names, list) or len(names) != d or not all(isinstance(name, str) for name in names):
            raise ModelFileError(f"feature_names is {names!r:.100} and must be {d} names; save the model again")
        model.feature_names_in_ = np.array(names, dtype=object)
    model.thresholds_ = fields.array("thresholds", C, finite=False)
    model.left_out_scores_ = [fields.array(f"{c}/left_out_scores", None) for c in range(C)]
    model.left_out_note_scores_ = [fields.array(f"{c}/left_out_note_scores", None) for c in range(C)]


# ------------------------------------------------------------------------- MDDKM


def _put_mddkm(fields: Fields, model: MDDKM) -> None:
    for name in ("sigma", "length_scale", "sigma_reg", "metric"):
        fields.put_value(name, getattr(model, f"{name}_"))
    fields.put_value("ratio", model._ratio)
    fields.put_value("reference_size", list(model.reference_size_))
    fields.put_value("trials", [list(trial) for trial in model.trials_])
    fields.put_value("trimmed", [list(pair) for pair in model.trimmed_])
    fields.put_array("feature_map", model.feature_map_)
    fields.put_array("origin", model._origin)
    fields.put_array("size_factors", model.size_factors_)
    for c, description in enumerate(model.descriptions_):
        _put_class_model(fields, c, description)
        fields.put_labels(f"{c}/notes", model.notes_[c])
        fields.put_labels(f"{c}/together", model._together[c])


def _take_mddkm(fields: Fields, model: MDDKM) -> None:
    C, d = len(model.classes_), model.n_features_in_
    model.sigma_, model.length_scale_ = fields.positive("sigma"), fields.positive("length_scale")
    model.sigma_reg_ = fields.positive("sigma_reg")
    model.metric_ = fields.value("metric")
    if model.metric_ not in ("euclidean", "within", "whiten"):
        raise ModelFileError(f"metric is {model.metric_!r:.100}, which is not known; save the model again")
    model._ratio = None if fields.value("ratio") is None else fields.positive("ratio")
    model.reference_size_ = Size(*_rows([fields.value("reference_size")], "reference_size", (int, int))[0])
    if min(model.reference_size_) < 1:
        raise ModelFileError(f"reference_size is {tuple(model.reference_size_)} and must be positive")
    model.trials_ = [Trial(*row) for row in _rows(fields.value("trials"), "trials", (str, Real, Real))]
    model.trimmed_ = [(row[0], row[1]) for row in _rows(fields.value("trimmed"), "trimmed", (object, object))]
    matrix = model.metric_ == "whiten" and fields.arrays.get("feature_map", np.empty(0)).ndim == 2
    model.feature_map_ = fields.array("feature_map", *((d, d) if matrix else (d,)))
    model._origin = fields.array("origin", d)
    model.size_factors_ = fields.array("size_factors", C)
    model.descriptions_ = [_take_class_model(fields, c, d) for c in range(C)]
    sizes = [len(description.X) for description in model.descriptions_]
    model.notes_ = [fields.labels(f"{c}/notes", n) for c, n in enumerate(sizes)]
    model._together = [fields.labels(f"{c}/together", n) for c, n in enumerate(sizes)]
    for c, (scores, n) in enumerate(zip(model.left_out_scores_, sizes, strict=True)):
        if len(scores) not in (0, n):
            raise ModelFileError(f"array '{c}/left_out_scores' has {len(scores)} entries for {n} samples")


def _rows(rows: Any, name: str, types: tuple[type, ...]) -> list[list[Any]]:
    """The rows, once each is found to be a list of these types."""
    for row in rows if isinstance(rows, list) else [rows]:
        fits = isinstance(row, list) and len(row) == len(types)
        if not fits or not all(isinstance(scalar(v, name), t) for v, t in zip(row, types, strict=True)):
            raise ModelFileError(f"{name} has {row!r:.100}, which does not belong there; save the model again")
    return rows


def _put_class_model(fields: Fields, c: int, model: ClassModel) -> None:
    """All of class c but its labels."""
    fields.put_array(f"{c}/X", model.X)
    fields.put_array(f"{c}/L_inv", _packed(model.L_inv))
    fields.put_value(f"{c}/ell", model.ell)
    fields.put_value(f"{c}/ratio", model.ratio)
    fields.put_value(f"{c}/center", bool(model.center))
    if isinstance(model, LandmarkDescription):
        fields.put_array(f"{c}/landmarks", model.rows.astype(np.int64))
        fields.put_array(f"{c}/W", _packed(model.W))
        fields.put_array(f"{c}/W_ones", model.W_ones)
        fields.put_array(f"{c}/residuals", model.residuals)


def _take_class_model(fields: Fields, c: int, d: int) -> ClassModel:
    """What `_put_class_model` was given, for samples of d features."""
    X = fields.array(f"{c}/X", None, d)
    n = len(X)
    if n == 0:
        raise ModelFileError(f"array '{c}/X' has no rows; save the model again")
    center = fields.value(f"{c}/center")
    if not isinstance(center, bool):
        raise ModelFileError(f"{c}/center is {center!r:.100} and must be true or false; save the model again")
    ell, ratio = fields.positive(f"{c}/ell"), fields.positive(f"{c}/ratio")
    if not any(f"{c}/{name}" in fields.arrays for name in ONLY_WITH_LANDMARKS):
        return Description(X, ell, ratio, _triangle(fields, f"{c}/L_inv", n), center)
    rows = fields.array(f"{c}/landmarks", None, kind="i")
    m = len(rows)
    if m == 0 or len(np.unique(rows)) < m or rows.min() < 0 or rows.max() >= n:
        raise ModelFileError(
            f"array '{c}/landmarks' must name rows from 0 to {n - 1}, each once, and one at least; save it again"
        )
    return LandmarkDescription(
        X=X,
        rows=rows,
        ell=ell,
        ratio=ratio,
        L_inv=_triangle(fields, f"{c}/L_inv", m),
        W=_triangle(fields, f"{c}/W", m),
        W_ones=fields.array(f"{c}/W_ones", m),
        residuals=fields.array(f"{c}/residuals", n),
        center=center,
    )


def _packed(triangle: np.ndarray) -> np.ndarray:
    """The entries on and below the diagonal; the others are 0."""
    return triangle[np.tri(len(triangle), dtype=bool)]


def _triangle(fields: Fields, name: str, n: int) -> np.ndarray:
    triangle = np.zeros((n, n))
    triangle[np.tri(n, dtype=bool)] = fields.array(name, n * (n + 1) // 2)
    return triangle


# -------------------------------------------------------------------------- PKNN


def _put_pknn(fields: Fields, model: PKNN) -> None:
    fields.put_array("points", model._model.points)
    fields.put_array("owners", model._model.owners.astype(np.int64))
    fields.put_array("fuzzy_labels", model._model.labels)
    fields.put_value("eta_shift", model._model.eta.shift)
    fields.put_value("eta_scale", model._model.eta.scale)


def _take_pknn(fields: Fields, model: PKNN) -> None:
    C, d = len(model.classes_), model.n_features_in_
    points = fields.array("points", None, d)
    owners = fields.array("owners", len(points), kind="i")
    if len(points) == 0 or owners.min() < 0 or owners.max() >= C:
        raise ModelFileError(f"array 'owners' must name classes from 0 to {C - 1}, at least one; save the model again")
    labels = fields.array("fuzzy_labels", len(points), C)
    shift = fields.value("eta_shift")
    if isinstance(shift, bool) or not isinstance(shift, float) or not 0.0 <= shift < np.inf:
        raise ModelFileError(f"eta_shift is {shift!r:.100} and must be a number from 0 up; save the model again")
    model._model = Prototypes(points, owners, labels, Eta(shift, fields.positive("eta_scale")))
    model.prototypes_, _, model.fuzzy_labels_, model.eta_ = model._model
    model.prototype_labels_ = model.classes_[owners]
