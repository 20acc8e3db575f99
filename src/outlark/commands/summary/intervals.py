"""Exact confidence intervals of rates and shares, for arrays of counts."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv, gammaincinv

Interval = tuple[np.ndarray, np.ndarray]


def rate_interval(counts: ArrayLike, hours: ArrayLike, confidence: float = 0.95) -> Interval:
    """The exact interval of the rate of a Poisson process (Garwood 1936): events per hour.

    Parameters
    ----------
    counts, hours : array-like that broadcast
        Events, and the time in which they were counted.
    confidence : float

    Returns
    -------
    tuple of arrays
        Lower and upper limits; nan where there are no hours.

    Examples
    --------
    >>> low, high = rate_interval([0, 10], [2.0, 2.0])
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.0, 2.398], [1.844, 9.195])
    """
    counts, hours = np.broadcast_arrays(np.asarray(counts, float), np.asarray(hours, float))
    tail = (1.0 - confidence) / 2.0
    low = np.where(counts > 0, gammaincinv(np.maximum(counts, 1.0), tail), 0.0)
    high = gammaincinv(counts + 1.0, 1.0 - tail)
    with np.errstate(divide="ignore", invalid="ignore"):
        return tuple(np.where(hours > 0, limit / hours, np.nan) for limit in (low, high))  # type: ignore[return-value]


def share_interval(counts: ArrayLike, totals: ArrayLike, confidence: float = 0.95) -> Interval:
    """The exact interval of a share (Clopper and Pearson 1934).

    Parameters
    ----------
    counts, totals : array-like that broadcast
    confidence : float

    Returns
    -------
    tuple of arrays
        Lower and upper limits; nan where the total is 0.

    Examples
    --------
    >>> low, high = share_interval([0, 3, 10], 10)
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.0, 0.067, 0.692], [0.308, 0.652, 1.0])
    """
    counts, totals = np.broadcast_arrays(np.asarray(counts, float), np.asarray(totals, float))
    tail, rest = (1.0 - confidence) / 2.0, totals - counts
    low = np.where(counts > 0, betaincinv(np.maximum(counts, 1.0), rest + 1.0, tail), 0.0)
    high = np.where(rest > 0, betaincinv(counts + 1.0, np.maximum(rest, 1.0), 1.0 - tail), 1.0)
    return tuple(np.where(totals > 0, limit, np.nan) for limit in (low, high))  # type: ignore[return-value]
