"""Scores of classes that know what they are not: nearer to a rejected sound than to the class is not the class."""

from collections.abc import Sequence

import numpy as np

from outlark.detection.absolute_scale import LEAST_SHARE, LOWEST
from outlark.detection.scorers import ClassScorer
from outlark.detection.second_stage import CANDIDATE
from outlark.maths.description import Description, score
from outlark.maths.scoring import distances_to_all

#: Nothing below this score is a note or, with a second stage, a candidate, so that less need not be compared.
WEAK = CANDIDATE * LOWEST * LEAST_SHARE


class Rejecting:
    """The scores of a class model, but 0 for a class that somebody has rejected for a sound nearer than the class.

    Parameters
    ----------
    describer : ClassScorer
        For samples (n, d), on the absolute scale.
    rejected : sequence of Description or None
        For each class the sounds that are not notes of it, None where there are none; with the kernel of the classes,
        so that the scores of both can be compared.

    Examples
    --------
    >>> from outlark.estimators.mddkm import MDDKM
    >>> from outlark.maths.description import describe
    >>> settings = {"metric": "euclidean", "sigma": 1.0, "sigma_reg": 0.1**0.5, "length_scale": 1.0}
    >>> describer = MDDKM(**settings, balance=None, threshold=0.1).fit([[0.0], [0.1]], ["a", "a"])
    >>> rejecting = Rejecting(describer, [describe(np.array([[1.0]]), 1.0, 0.1)])
    >>> near = np.array([[0.0], [0.9]])
    >>> describer.class_scores(near).round(2).ravel(), rejecting.class_scores(near).round(2).ravel()
    (array([1.48, 0.15]), array([1.48, 0.  ]))
    """

    def __init__(self, describer: ClassScorer, rejected: Sequence[Description | None]) -> None:
        self._describer, self._rejected = describer, rejected

    def class_scores(self, X: np.ndarray) -> np.ndarray:
        """High = member, (n, C)."""
        found = np.array(self._describer.class_scores(X))
        for c, description in enumerate(self._rejected):
            rows = np.flatnonzero(found[:, c] >= WEAK) if description is not None else ()
            if description is not None and len(rows):
                nearer = score(distances_to_all([description], X[rows])[:, 0]) > found[rows, c]
                found[rows[nearer], c] = 0.0
        return found
