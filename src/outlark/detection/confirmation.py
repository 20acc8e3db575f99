r"""Does the note end? What scores well is described again with wide surroundings.

A description with 20 ms around a note cannot show that a song of 1.5 s ends: pieces of longer songs look the same.
Spans that come near their threshold are therefore described once more, with a share of their own length around them,
by the same slices and under the same kernel, and the two scores are joined:

.. math:: s = \sqrt{s_{narrow} s_{wide}}

Examples that are clips show nothing around their notes, and are not confirmed (docs/decisions/018-confirmation.md).
"""

from collections.abc import Sequence

import numpy as np

from outlark.features.note import NoteFrontEnd, cumulated
from outlark.maths.description import Description, Distances, score

#: Wide surroundings as a share of the length of a note, and at most as a multiple of the narrow ones: 300 ms for 20 ms.
WIDE_SHARE, MAX_TIMES_NARROW = 0.3, 15.0
#: Scores from this share of their threshold on are confirmed: lower ones decide nothing.
CONFIRMED_SHARE = 0.4


def wide_surroundings(front_end: NoteFrontEnd, length: float) -> float:
    """Frames before and after a note of this length that show whether it ends.

    >>> front_end = NoteFrontEnd().fit([], 22000)
    >>> [wide_surroundings(front_end, n) for n in (10.0, 100.0, 2000.0)]
    [10.0, 30.0, 150.0]
    """
    return max(front_end.surroundings, min(WIDE_SHARE * length, MAX_TIMES_NARROW * front_end.surroundings))


def joined(narrow: np.ndarray, wide: np.ndarray) -> np.ndarray:
    """The scores of spans with narrow and with wide surroundings, as one."""
    return np.sqrt(narrow * wide)


class Confirmation:
    """Scores of spans with wide surroundings, from one description of its notes for each class."""

    def __init__(self, front_end: NoteFrontEnd, descriptions: Sequence[Description]) -> None:
        self._front_end, self._classes = front_end, [Distances([d]) for d in descriptions]

    def scores(self, spectra: np.ndarray, starts: np.ndarray, lengths: np.ndarray, c: int) -> np.ndarray:
        """The wide score of class c for spans at these starts, of these lengths in frames, (N,)."""
        sums, found = cumulated(spectra), np.zeros(len(starts))
        for length in np.unique(lengths).tolist():
            rows = np.flatnonzero(lengths == length)
            Z = self._front_end.describe_spans(sums, starts[rows], length, wide_surroundings(self._front_end, length))
            found[rows] = score(self._classes[c](Z)[:, 0])
        return found
