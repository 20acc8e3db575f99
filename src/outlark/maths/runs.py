"""Runs of equal values in a sequence: encoding, decoding, dropping short ones."""

from typing import NamedTuple

import numpy as np


class Runs(NamedTuple):
    """Maximal runs of equal values: items ``starts[i]`` to ``ends[i]`` of the sequence are all ``values[i]``."""

    starts: np.ndarray
    ends: np.ndarray
    values: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        return self.ends - self.starts


def encode(values: np.ndarray) -> Runs:
    """Run-length encoding of a sequence (T,).

    >>> encode(np.array([7, 7, 0, 7])).lengths
    array([2, 1, 1])
    """
    if len(values) == 0:
        none = np.empty(0, dtype=int)
        return Runs(none, none, values)
    borders = np.flatnonzero(values[1:] != values[:-1]) + 1
    starts = np.concatenate([[0], borders])
    return Runs(starts, np.concatenate([borders, [len(values)]]), values[starts])


def decode(runs: Runs) -> np.ndarray:
    """The sequence that `encode` took.

    >>> decode(encode(np.array([7, 7, 0, 7])))
    array([7, 7, 0, 7])
    """
    return np.repeat(runs.values, runs.lengths)


def drop_short(mask: np.ndarray, least: int) -> np.ndarray:
    """A boolean sequence without its runs of True that are shorter than `least`.

    >>> drop_short(np.array([True, True, False, True]), 2)
    array([ True,  True, False, False])
    """
    runs = encode(mask)
    return decode(runs._replace(values=runs.values & (runs.lengths >= least)))
