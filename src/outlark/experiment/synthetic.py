"""Made-up notes in place of the paper's: eight classes with its names and class sizes.

The recordings of Sec. 4.1 are not public. These notes are stand-ins, drawn from what is published about the calls of
the tufted titmouse (tuti) and the Carolina chickadee (cach): what is a harmonic stack, a chevron, a whistle or a buzz,
and about where in the spectrum. **They are not recordings, and a number obtained on them is not the paper's number.**
They serve to run the experiment from end to end, and to compare methods with one another on the same sounds.
"""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from outlark.errors import InputError
from outlark.experiment.joining import FLOOR, Note, concatenate
from outlark.experiment.sounds import RECIPES, SAMPLE_RATE, Hand

__all__ = ["CLASSES", "KNOWN", "SAMPLE_RATE", "UNKNOWN", "Note", "concatenate", "note", "notes"]

KNOWN = ("tuti-D", "tuti-F", "cach-Z")
UNKNOWN = ("tuti-A", "tuti-Z", "cach-C", "cach-D", "cach-E")
#: Class → number of instances, as in Sec. 4.1.
CLASSES: Mapping[str, int] = MappingProxyType(dict(zip(KNOWN + UNKNOWN, (15, 6, 4, 4, 4, 6, 7, 10), strict=True)))


def notes(seed: int = 0, *, variation: float = 1.0, counts: Mapping[str, int] | None = None) -> list[Note]:
    """All instances, class by class in the order of `CLASSES`.

    Instance i of a class depends on `seed`, the class and i only: more of one class changes nothing in the others.

    Parameters
    ----------
    seed : int
    variation : float
        Scales the spread within a class, see `note`.
    counts : mapping from class to number of instances, default `CLASSES`
        Classes that it does not name are left out.

    Examples
    --------
    >>> len(notes()), [n.label for n in notes(counts={"cach-Z": 1, "tuti-D": 2})]
    (56, ['tuti-D', 'tuti-D', 'cach-Z'])
    """
    counts = CLASSES if counts is None else counts
    for name, count in counts.items():
        _check_class(name)
        if count < 0:
            raise InputError(f"counts[{name!r}]={count}: expected 0 or more instances")
    return [
        Note(name, note(name, np.random.default_rng([seed, c, i]), variation=variation))
        for c, name in enumerate(CLASSES)
        for i in range(counts.get(name, 0))
    ]


def note(name: str, rng: np.random.Generator, *, variation: float = 1.0) -> np.ndarray:
    """One instance of a class: a stand-in, not a recording.

    Parameters
    ----------
    name : one of `CLASSES`
    rng : numpy.random.Generator
    variation : float, 0 to 3
        Scales how much instances differ in pitch (±.7 %), length (±3 %), loudness (±1.2 dB), modulation, onset,
        decay and jitter. With 0, they differ in phases and noise only.

    Returns
    -------
    samples : ndarray of shape (n,), within [-1, 1], n about .15 to .45 s

    Examples
    --------
    >>> samples = note("tuti-D", np.random.default_rng(0))
    >>> samples.ndim, bool(0.1 < len(samples) / SAMPLE_RATE < 0.35), bool(abs(samples).max() <= 1)
    (1, True, True)
    """
    _check_class(name)
    if not 0 <= variation <= 3:
        raise InputError(f"variation={variation!r}: expected a number from 0 to 3; 1 is natural")
    hand = Hand(rng, variation)
    sound = RECIPES[name](hand)
    loudness = min(hand.near(0.35, 0.14), 0.95)
    return loudness * sound / np.abs(sound).max() + FLOOR * rng.standard_normal(len(sound))


def _check_class(name: str) -> None:
    if name not in CLASSES:
        raise InputError(f"{name!r} is not a class of notes: expected one of {', '.join(CLASSES)}")
