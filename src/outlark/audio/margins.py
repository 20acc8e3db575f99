"""What is around the note in a clip: digital silence, which is no sound at all, and margins that are only quiet."""

from typing import NamedTuple

import numpy as np

#: A run of equal samples at an end of a clip is digital silence from this length on; shorter ones are in every fade.
SILENCE_S = 0.01
#: Levels are taken over windows of this length.
WINDOW_S = 0.005
#: A margin stays below the middle between the quiet windows and the loudest, which must be this far from both. Nothing
#: counts as further down than the second number.
QUIET_DB, FAR_DB = 15.0, 60.0
#: The quiet windows are this share of all.
QUIET_SHARE = 0.1
#: Margins are long if both together last this long, and longer than the note itself.
LONG_S = 0.1
#: What a trimmed clip keeps of its margins: notes fade in and out.
KEPT_S = 0.01


class Part(NamedTuple):
    """The samples start … end - 1 of a clip."""

    start: int
    end: int

    def outside_s(self, n_samples: int, rate: int) -> float:
        """How much of a clip of so many samples lies around the part, in seconds."""
        return (n_samples - self.end + self.start) / rate


def without_silence(samples: np.ndarray, rate: int) -> Part:
    """The clip without the digital silence at its ends; all of it if there is nothing else.

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
    """The clip without quiet margins, but for 10 ms of each; all of it where nothing stands out.

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
    """Whether the margins around a part are such that a model would learn them rather than the note."""
    outside_s = part.outside_s(n_samples, rate)
    return outside_s >= LONG_S and outside_s > (part.end - part.start) / rate
