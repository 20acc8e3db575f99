"""The model of one class as arrays that a file can hold, and back: exact, or by landmarks."""

import numpy as np

from outlark.errors import ModelFileError
from outlark.files.fields import Fields
from outlark.maths.description import ClassModel, Description
from outlark.maths.sparse import LandmarkDescription

#: The arrays that only a model by landmarks has.
ONLY_WITH_LANDMARKS = ("landmarks", "W", "W_ones", "residuals")


def put_class_model(fields: Fields, c: int, model: ClassModel) -> None:
    """All that is kept of class c but for its labels."""
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


def take_class_model(fields: Fields, c: int, d: int) -> ClassModel:
    """What `put_class_model` was given, for samples of d features."""
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
