r"""Thresholds after training: set by hand, or calibrated on the recordings to be searched, without labels.

Notes of a class and other sounds have few scores in common. Over many recordings the peaks of a class's score show a
valley between the two, and t0 (`outlark.detection.absolute_scale`) says where to look for it:

.. math:: \arg\min_t \; \ln(1 + \hat n(t)) + \frac{(\ln t/t_0)^2}{2 w^2}

with the number :math:`\hat n(t)` of peaks near t, smoothed on the logarithmic axis. Without t0 the emptiest place is
often among the notes themselves; with few peaks there is no valley to see, and t0 stays.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from outlark.errors import InputError

#: Where a threshold comes from, as models keep it, and in words.
EXAMPLES, CALIBRATION, HAND = "examples", "calibration", "hand"
SOURCES = {EXAMPLES: "from the examples", CALIBRATION: "calibrated", HAND: "set by hand"}
#: w, in natural logarithms: how far from t0 the valley may lie. At .3, songs in the field lose up to .05.
WIDTH = 0.2
#: Smoothing of the peaks, in natural logarithms.
SMOOTHING = 0.06
#: Peaks needed above t0, and between half of it and t0.
LEAST_PEAKS = 10
#: Peaks are collected from this share of t0 on.
FROM = 0.4
#: Places tried lie between t0 divided and multiplied by this.
SPAN, N_PLACES = 2.0, 81
#: Bins of the histogram that is kept, in units of t0.
BINS = np.geomspace(FROM, 8.0, 61)


@dataclass(frozen=True, kw_only=True)
class ClassCalibration:
    """The calibration of one class.

    Attributes
    ----------
    label : class label
    prior : float
        t0, the threshold before.
    threshold : float
        The threshold now; `prior` if there were too few peaks.
    n_below, n_above : int
        Peaks from half of t0 up to t0, and above.
    counts : tuple of int
        Peaks in each of `BINS` · prior; the first and the last include those outside.
    by_hand : bool
        Whether `threshold` was set by hand, which takes precedence.
    """

    label: Any
    prior: float
    threshold: float
    n_below: int
    n_above: int
    counts: tuple[int, ...]
    by_hand: bool = False

    @property
    def moved(self) -> bool:
        """Whether there were enough peaks to find the valley."""
        return not self.by_hand and min(self.n_below, self.n_above) >= LEAST_PEAKS

    @property
    def in_words(self) -> str:
        """The result in a sentence."""
        if self.by_hand:
            return f"threshold {self.threshold:.3f} set by hand: kept"
        peaks = f"{self.n_above} peaks above it and {self.n_below} below"
        if self.moved:
            return f"threshold {self.prior:.3f} → {self.threshold:.3f}: {peaks}"
        return f"threshold {self.prior:.3f} kept: {peaks}, {LEAST_PEAKS} of each are needed; give more recordings"


def calibrated(label: Any, prior: float, peaks: ArrayLike) -> ClassCalibration:
    """The calibration of a class from the peaks of its score.

    >>> peaks = [*np.linspace(0.1, 0.26, 40), *np.linspace(0.36, 0.9, 40)]
    >>> found = calibrated("A", 0.3, peaks)
    >>> round(found.threshold, 2), found.n_below, found.n_above
    (0.31, 27, 40)
    >>> calibrated("A", 0.3, [0.9, 0.8]).in_words
    'threshold 0.300 kept: 2 peaks above it and 0 below, 10 of each are needed; give more recordings'
    """
    x = np.asarray(peaks, dtype=float)
    n_above, n_below = int((x >= prior).sum()), int(((x < prior) & (x >= prior / SPAN)).sum())
    enough = min(n_above, n_below) >= LEAST_PEAKS
    inside = np.clip(x / prior, BINS[0], np.nextafter(BINS[-1], 0.0))
    counts, _ = np.histogram(inside, BINS)
    return ClassCalibration(
        label=label,
        prior=float(prior),
        threshold=valley(x, prior) if enough else float(prior),
        n_below=n_below,
        n_above=n_above,
        counts=tuple(counts.tolist()),
    )


def valley(peaks: np.ndarray, prior: float) -> float:
    """The emptiest place near the prior; see the module's docstring."""
    places = np.geomspace(prior / SPAN, prior * SPAN, N_PLACES)
    distance = np.log(places)[:, np.newaxis] - np.log(peaks[peaks > 0.0])
    near = np.exp(-0.5 * (distance / SMOOTHING) ** 2).sum(axis=1)
    cost = np.log1p(near) + 0.5 * (np.log(places / prior) / WIDTH) ** 2
    return float(places[np.argmin(cost)])


def by_class(thresholds: ArrayLike | Mapping[Any, float], classes: Sequence[Any]) -> dict[Any, float]:
    """Thresholds by class, from a mapping for some of the classes, or a sequence for all of them in order.

    >>> by_class({"song": 0.5}, ["alarm", "song"]), by_class([0.3, 0.5], ["alarm", "song"])
    ({'song': 0.5}, {'alarm': 0.3, 'song': 0.5})
    >>> by_class({"sogn": 0.5}, ["alarm", "song"])
    Traceback (most recent call last):
    outlark.errors.InputError: a threshold for 'sogn', which is not a class; did you mean 'song'? There are alarm, song
    """
    if isinstance(thresholds, Mapping):
        for label in thresholds:
            if label not in classes:
                raise InputError(f"a threshold for {label!r}, which is not a class; {there_are(label, classes)}")
        return {label: checked(value, f"the threshold of {label!r}") for label, value in thresholds.items()}
    given = np.asarray(thresholds, dtype=object)
    if given.shape != (len(classes),):
        raise InputError(f"thresholds={thresholds!r:.200}; give a number above 0 for each class of {list(classes)}")
    return {
        label: checked(value, f"thresholds[{c}]") for c, (label, value) in enumerate(zip(classes, given, strict=True))
    }


def checked(value: Any, what: str) -> float:
    """The value as a threshold, or an error."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 < float(value) < math.inf:
        raise InputError(f"{what} is {value!r:.60}; give a number above 0 for each class, not infinite")
    return float(value)


def there_are(name: Any, classes: Sequence[Any]) -> str:
    """The classes, and the one that a misspelt name probably means.

    >>> there_are("Buz", ["buzz", "trill"]), there_are("x", ["buzz", "trill"])
    ("did you mean 'buzz'? There are buzz, trill", 'there are buzz, trill')
    """
    names = {str(label).casefold(): str(label) for label in classes}
    near = get_close_matches(str(name).casefold(), names, n=1)
    listed = f"here are {', '.join(map(str, classes))}"
    return f"did you mean {names[near[0]]!r}? T{listed}" if near else f"t{listed}"
