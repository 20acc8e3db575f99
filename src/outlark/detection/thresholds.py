"""Where the threshold of each class comes from, and thresholds that somebody sets by hand."""

import math
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from outlark.detection.valley import ClassCalibration
from outlark.errors import InputError

#: What a threshold can come from, as models keep it, and in words.
EXAMPLES, CALIBRATION, HAND = "examples", "calibration", "hand"
SOURCES = {EXAMPLES: "from the examples", CALIBRATION: "calibrated", HAND: "set by hand"}


def sources_of(calibration: Sequence[ClassCalibration]) -> list[str]:
    """Where each threshold of a model that was calibrated comes from."""
    return [HAND if c.by_hand else CALIBRATION if c.moved else EXAMPLES for c in calibration]


def by_class(thresholds: ArrayLike | Mapping[Any, float], classes: Sequence[Any]) -> dict[Any, float]:
    """Thresholds by class, from such a mapping for some of the classes, or from a sequence for all of them in order.

    Raises
    ------
    InputError
        For a class that the model does not know, for anything that is not a finite number above 0, and for a sequence
        of another length.

    Examples
    --------
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
    """A threshold, if it can be one."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 < float(value) < math.inf:
        raise InputError(f"{what} is {value!r:.60}; give a number above 0 for each class, not infinite")
    return float(value)


def there_are(name: Any, classes: Sequence[Any]) -> str:
    """What somebody who named a class that does not exist may have meant, and which classes there are.

    >>> there_are("Buz", ["buzz", "trill"]), there_are("x", ["buzz", "trill"])
    ("did you mean 'buzz'? There are buzz, trill", 'there are buzz, trill')
    """
    names = {str(label).casefold(): str(label) for label in classes}
    near = get_close_matches(str(name).casefold(), names, n=1)
    listed = f"here are {', '.join(map(str, classes))}"
    return f"did you mean {names[near[0]]!r}? T{listed}" if near else f"t{listed}"
