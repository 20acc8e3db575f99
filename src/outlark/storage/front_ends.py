"""A fitted front end as settings and arrays that a file can hold, and back: the same frames to the last bit.

Two of the `KINDS` learn nothing: their parameters and the sample rate are all there is. What `ArrayFrontEnd` learns is
listed here field by field. A file chooses among the kinds by name and can name nothing else.
"""

from numbers import Real
from typing import Any

import numpy as np

from outlark.errors import InputError, ModelFileError
from outlark.features.array import ArrayFrontEnd, check_series_rate
from outlark.features.base import FrontEnd
from outlark.features.hlds import HLDSFrontEnd
from outlark.features.note import NoteFrontEnd
from outlark.features.spectrum import check_count
from outlark.files.fields import Fields, put_kind, take_kind

KINDS: dict[str, type[FrontEnd]] = {kind.__name__: kind for kind in (HLDSFrontEnd, NoteFrontEnd, ArrayFrontEnd)}
#: No more than this: otherwise a file could ask for all the memory there is. In samples, and in layers.
MOST_SAMPLES = {"window_s": 2**18, "surroundings_s": 2**18, "lag_s": 2**22}
MOST_LAYERS = 100
#: What wrong settings raise, one way or another, where they are used.
WRONG = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError)


def state_of(front_end: FrontEnd) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """All that a fitted front end knows but the sample rate: strict JSON, and arrays.

    Examples
    --------
    >>> settings, arrays = state_of(HLDSFrontEnd.paper().fit([], sample_rate=22050))
    >>> settings["kind"], settings["parameters"]["output"], arrays
    ('HLDSFrontEnd', 'top', {})
    >>> from_state(settings, arrays, sample_rate=22050, width=12).layers_
    (96, 24, 12)
    """
    fields = Fields(put_kind(front_end, KINDS), {})
    _check_size(front_end, front_end.sample_rate_)
    if isinstance(front_end, ArrayFrontEnd):
        for name in ("n_channels", "window_samples", "hop_samples", "floor_s"):
            fields.put_value(name, getattr(front_end, f"{name}_"))
        for name in ("power", "mean", "scale"):
            fields.put_array(name, getattr(front_end, f"{name}_"))
    return fields.settings, fields.arrays


def from_state(settings: Any, arrays: dict[str, np.ndarray], sample_rate: Any, width: int) -> FrontEnd:
    """The front end that `state_of` was given.

    Parameters
    ----------
    settings, arrays
        It takes the arrays over.
    sample_rate : int
    width : int
        How many features the describer takes: of a frame, or of a whole note.

    Raises
    ------
    ModelFileError
        When something is missing or does not fit the rest; the message names the field.
    """
    front_end = take_kind(settings, KINDS, "front end")
    if isinstance(front_end, NoteFrontEnd) and "surroundings_s" not in settings["parameters"]:
        front_end.surroundings_s = 0.0  # files from before notes had surroundings
    try:
        _check_size(front_end, check_series_rate(sample_rate))
        fields = Fields(dict(settings), arrays)
        if isinstance(front_end, ArrayFrontEnd):
            _take_array(fields, front_end, sample_rate, width)
        else:
            if isinstance(front_end, NoteFrontEnd):  # first, for it tells whether the numbers are sensible
                _check_width(front_end, front_end.n_slices * front_end.n_bands, width)
            front_end.fit([], sample_rate)
            if isinstance(front_end, HLDSFrontEnd):
                _check_width(front_end, front_end.n_features_, width)
    except ModelFileError:
        raise
    except WRONG as error:
        raise ModelFileError(f"its front end is damaged: {error!s:.300}; save the model again") from None
    return front_end


def _check_size(front_end: Any, sample_rate: int) -> None:
    """Refuse what would take more memory than a front end ever needs."""
    for name, most in MOST_SAMPLES.items():
        value = getattr(front_end, name, None)
        if isinstance(value, Real) and float(value) * sample_rate > most:
            raise InputError(f"{name}={value!r:.100} is more than {most} samples, too many to keep; give less")
    for name in ("layers", "output"):
        entries: Any = getattr(front_end, name, "")
        if not isinstance(entries, str) and len(entries) > MOST_LAYERS:
            raise InputError(f"{name} has {len(entries)} entries, too many to keep; give {MOST_LAYERS} or fewer")
    for name in ("n_slices", "n_bands"):
        check_count(name, getattr(front_end, name, 1))


def _check_width(front_end: FrontEnd, found: int, width: int) -> None:
    if found != width:
        raise ModelFileError(
            f"its {type(front_end).__name__} gives {found!r:.100} features, but its describer takes {width}; save the "
            "model again"
        )


def _take_array(fields: Fields, front_end: ArrayFrontEnd, sample_rate: Any, width: int) -> None:
    n_channels, window, hop = (fields.positive(name) for name in ("n_channels", "window_samples", "hop_samples"))
    if not all(type(n) is int for n in (n_channels, window, hop)) or not hop <= window <= MOST_SAMPLES["window_s"]:
        raise ModelFileError(
            f"its windows of {window!r:.20} samples, one every {hop!r:.20}, of {n_channels!r:.20} channels cannot be; "
            "save the model again"
        )
    front_end._check_settings()
    front_end.power_ = fields.array("power", n_channels)
    front_end.mean_ = fields.array("mean", n_channels * (2 + front_end.n_bands))
    front_end.scale_ = fields.array("scale", len(front_end.mean_))
    if (front_end.power_ < 0.0).any() or (front_end.scale_ <= 0.0).any():
        raise ModelFileError("arrays 'power' and 'scale' must be positive; save the model again")
    front_end.sample_rate_, front_end.n_channels_ = check_series_rate(sample_rate), n_channels
    front_end.n_features_ = len(front_end.mean_)
    _check_width(front_end, front_end.n_features_, width)
    front_end._set_samples(window, hop, float(fields.positive("floor_s")))
