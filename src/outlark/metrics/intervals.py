"""How sure a share of counted things is."""

import math

#: 95 % of a normal distribution.
Z = 1.959964


def wilson(right: int, n: int) -> tuple[float, float]:
    """95 % limits of a share (Wilson 1927); NaN of nothing.

    >>> tuple(round(limit, 3) for limit in wilson(9, 10))
    (0.596, 0.982)
    """
    if not n:
        return math.nan, math.nan
    share, z2 = right / n, Z * Z
    centre, spread = share + z2 / (2 * n), Z * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return max(0.0, (centre - spread) / (1 + z2 / n)), min(1.0, (centre + spread) / (1 + z2 / n))
