"""How far sounds rise above the noise, now and in the training recordings.

Noise masks part of a note and adds to the rest, so a true note scores less in noise than clean examples suggest: half
as much at 10 dB. How far the loud sounds of the last minute rise above the noise floor shows how noisy it is, whatever
the gain of the recorder, and scores are raised to make up for it.
"""

import numpy as np

#: Frames with at least this activity, in dB, are sounds.
SOUND_DB = 6.0
#: The contrast is this quantile of the activity of sounds.
LOUD = 0.9
#: Older sounds fade with this time constant, in seconds.
MEMORY_S = 60.0
#: Sounds of this age or more, in seconds, do not count: a moment depends on the five minutes before it only.
FORGOTTEN_S = 300.0
#: The contrast of the training counts as this many seconds of sound: recordings often start with small noises.
PRIOR_S = 0.1
#: More contrast than this, in dB, makes no difference.
CLEAR_DB = 40.0
#: Scores are raised by the inverse of this at most: any more would raise noise to notes.
LEAST = 0.4
#: Activity is counted in steps of 1 dB up to this.
HIGHEST_DB = 120


def contrast_of(activity: np.ndarray, frame_rate: float) -> float:
    """How far the loud sounds of a recording rise above the noise, in dB; `CLEAR_DB` at most, or without sounds.

    >>> contrast_of(np.repeat([0.0, 20.0, 30.0], [500, 80, 20]), frame_rate=500.0)
    30.0
    """
    sounds = activity[(activity >= SOUND_DB) & np.isfinite(activity)]
    if len(sounds) < PRIOR_S * frame_rate:
        return CLEAR_DB
    return min(CLEAR_DB, float(np.quantile(sounds, LOUD)))


class Contrast:
    """Activity in, block by block; out comes the score of true notes as a share of their score in training.

    Parameters
    ----------
    reference_db : float
        `contrast_of` the training recordings.
    frame_rate : float

    Attributes
    ----------
    look_back : int
        Frames: what came earlier makes no difference, to the last bit.

    >>> contrast = Contrast(reference_db=40.0, frame_rate=100.0)
    >>> contrast.push(np.full(10, 5.0)), contrast.push(np.full(1000, 30.0)), contrast.push(np.full(9000, 8.0))
    (1.0, 0.7530864197530864, 0.4)
    """

    def __init__(self, reference_db: float, frame_rate: float) -> None:
        self.reference_db, self._frame_rate = int(reference_db) + 0.5, frame_rate  # the middle of its step
        self._prior = np.zeros(HIGHEST_DB + 1)
        self._prior[int(reference_db)] = PRIOR_S * frame_rate
        self.look_back = int(np.ceil(FORGOTTEN_S * frame_rate))
        # for each block that still counts, the frames since then and its sounds in each step
        self._ages, self._counts = np.empty(0), np.empty((0, HIGHEST_DB + 1))

    def push(self, activity: np.ndarray) -> float:
        """The share after these frames, (T,)."""
        sounds = activity[(activity >= SOUND_DB) & np.isfinite(activity)]
        counts = np.bincount(np.minimum(sounds, HIGHEST_DB).astype(int), minlength=HIGHEST_DB + 1)
        kept = self._ages + len(activity) < self.look_back
        self._ages = np.append(self._ages[kept] + len(activity), 0.0)
        self._counts = np.vstack([self._counts[kept], counts])
        # summed afresh: what fades step by step never fades to the last bit
        heard = np.exp(-self._ages / (MEMORY_S * self._frame_rate)) @ self._counts
        up_to = np.cumsum(heard + self._prior)
        loud_db = int(np.searchsorted(up_to, LOUD * up_to[-1])) + 0.5
        return float(np.clip(loud_db / self.reference_db, LEAST, 1.0))
