"""The margins around the note in a clip: digital silence, and quiet sound."""

from typing import NamedTuple

import numpy as np

#: A run of equal samples at an end of a clip is digital silence from this length on; fades have shorter ones.
SILENCE_S = 0.01
#: Windows over which levels are measured.
WINDOW_S = 0.005
#: A margin stays below the middle between the quiet windows and the loudest, which must be this far from both. Levels
#: further below the loudest than the second number count as that far.
QUIET_DB, FAR_DB = 15.0, 60.0
#: Share of the windows that is quiet.
QUIET_SHARE = 0.1
#: Margins are long if together they last this long, and longer than the note.
LONG_S = 0.1
#: Kept of each margin, because notes fade in and out.
KEPT_S = 0.01


class Part(NamedTuple):
    """The samples start … end - 1 of a clip."""

    start: int
    end: int

    def outside_s(self, n_samples: int, rate: int) -> float:
        """Seconds of a clip of `n_samples` that lie outside the part."""
        return (n_samples - self.end + self.start) / rate


def without_silence(samples: np.ndarray, rate: int) -> Part:
    """The clip without digital silence at its ends; all of it if there is nothing else.

    >>> clip = np.concatenate([np.zeros(100), [0.1, 0.0, 0.2], np.zeros(5)])
    >>> without_silence(clip, rate=1000)
    Part(start=100, end=108)
    """
    changes = np.flatnonzero(np.diff(samples))
    if not len(changes):
        return Part(0, len(samples))
    least = max(2, round(SILENCE_S * rate))
    first, last = int(changes[0]) + 1, int(changes[-1]) + 1
    return Part(first if first >= least else 0, last if len(samples) - last >= least else len(samples))


def without_quiet(samples: np.ndarray, rate: int) -> Part:
    """The clip without quiet margins except 10 ms of each; all of it if nothing stands out.

    >>> rng = np.random.default_rng(0)
    >>> loud = np.repeat([0.001, 1.0, 0.001], [4000, 2000, 4000])
    >>> without_quiet(loud * rng.normal(size=10000), rate=10000)
    Part(start=3900, end=6100)
    """
    window, whole = max(1, round(WINDOW_S * rate)), Part(0, len(samples))
    starts = np.arange(0, len(samples), window)
    if not len(starts):
        return whole
    counts = np.diff([*starts, len(samples)])
    powers = np.add.reduceat(np.square(samples - np.mean(samples)), starts) / counts
    levels = 10.0 * np.log10(powers + np.finfo(float).tiny)
    loudest = levels.max()
    quiet = max(np.quantile(levels, QUIET_SHARE), loudest - FAR_DB)
    if loudest - quiet < 2.0 * QUIET_DB:
        return whole
    loud = np.flatnonzero(levels >= (loudest + quiet) / 2.0)
    kept = round(KEPT_S * rate)
    return Part(max(0, int(starts[loud[0]]) - kept), min(len(samples), int(starts[loud[-1]] + counts[loud[-1]]) + kept))


def is_long(part: Part, n_samples: int, rate: int) -> bool:
    """Whether a model would learn the margins around a part rather than the note."""
    outside_s = part.outside_s(n_samples, rate)
    return outside_s >= LONG_S and outside_s > (part.end - part.start) / rate
