"""The numbers behind the figure: score curves, the leading class, spectrogram levels and clock ticks."""

from datetime import datetime, timedelta

import numpy as np
from scipy.fft import rfft
from scipy.ndimage import maximum_filter1d

from outlark.audio.header import RecorderTime
from outlark.detection.scores import ScoreBlock

#: Approximate length of spectrogram windows: a compromise between time and frequency that suits birds.
WINDOW_S = 0.02
#: Lowest level shown, in dB re full scale.
LOWEST_DB = -130.0
#: Smallest and largest range of the colours.
LEAST_RANGE_DB, MOST_RANGE_DB = 40.0, 80.0
#: Windows transformed at once.
AT_ONCE = 512
#: Steps between clock ticks in seconds, and the largest number of ticks.
CLOCK_STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600)
MOST_MARKS = 8


def curves(block: ScoreBlock) -> np.ndarray:
    """The score of each class at each moment, (T, C).

    Frame-level scores are that already. Note-level scores stand at the onset; each moment gets the best of the notes
    that are sounding.

    >>> values, lengths = np.array([[0.0], [2.0], [1.0], [0.0], [0.0]]), np.array([[1], [2], [3], [1], [1]])
    >>> curves(ScoreBlock(values, np.zeros(5), lengths)).ravel()
    array([0., 2., 2., 1., 1.])
    """
    if block.lengths is None:
        return np.maximum(block.values, 0.0)
    best = np.zeros(block.values.shape)
    for length in np.unique(block.lengths[block.values > 0.0]).tolist():
        starting = np.where(block.lengths == length, block.values, 0.0)
        # the window of a moment ends with it: it holds the onsets of the notes that are still sounding
        covering = maximum_filter1d(starting, length, axis=0, mode="constant", origin=(length - 1) // 2)
        np.maximum(best, covering, out=best)
    return best


def thinned(values: np.ndarray, most: int) -> tuple[np.ndarray, int]:
    """At most `most` rows, each the maximum of several consecutive rows, and how many these are.

    >>> thinned(np.array([[1.0], [5.0], [2.0], [0.0], [3.0]]), most=3)
    (array([[5.],
           [2.],
           [3.]]), 2)
    """
    step = max(1, -(-len(values) // most))
    if step == 1:
        return values, 1
    return np.maximum.reduceat(values, np.arange(0, len(values), step), axis=0), step


def leaders(values: np.ndarray) -> np.ndarray:
    """Where a class leads, up to the next point because a line needs two, bool (T, C); nowhere if all are 0.

    >>> leaders(np.array([[1.0, 2.0], [3.0, 1.0], [3.0, 1.0], [0.0, 0.0], [0.0, 0.0]]))
    array([[False,  True],
           [ True,  True],
           [ True, False],
           [ True, False],
           [False, False]])
    """
    best = values.argmax(axis=1)
    leading = (np.arange(values.shape[1]) == best[:, np.newaxis]) & (values > 0.0)
    leading[1:] |= leading[:-1]
    return leading


def spectrogram_window(sample_rate: int) -> int:
    """Samples of a window: the power of two closest to `WINDOW_S`.

    >>> spectrogram_window(22050)
    512
    """
    return int(2 ** max(4, round(np.log2(WINDOW_S * sample_rate))))


def spectrogram(samples: np.ndarray, window: int, n_samples: int, most: int) -> tuple[np.ndarray, float, float]:
    """Levels in dB re a full-scale sine, (window // 2 + 1, columns); and between which samples they lie.

    `samples` are the excerpt of `n_samples` with half a window before and after it. There are at most `most` columns,
    each the maximum over its windows.

    >>> sine = np.sin(2 * np.pi * np.arange(1024 + 64) / 8)
    >>> levels, first, last = spectrogram(sine, window=64, n_samples=1024, most=10)
    >>> levels.shape, int(levels[:, 5].argmax()), round(float(levels.max()), 1), first, last
    ((33, 9), 8, 0.0, -16.0, 1136.0)
    """
    hop = max(1, min(n_samples // most, window // 2))
    starts = np.arange(0, n_samples + hop, hop)
    shape = np.hanning(window + 1)[:-1]
    shape *= 2.0 / shape.sum()
    padded = np.concatenate([samples, np.zeros(max(0, n_samples + hop + window - len(samples)))])
    windows = np.lib.stride_tricks.sliding_window_view(padded, window)
    per_column = -(-len(starts) // most)
    columns = []
    at_once = AT_ONCE - AT_ONCE % per_column or per_column
    for at in range(0, len(starts), at_once):
        power = np.abs(rfft(windows[starts[at : at + at_once]] * shape, axis=1)) ** 2
        columns.append(np.maximum.reduceat(power, np.arange(0, len(power), per_column), axis=0))
    levels = 10.0 * np.log10(np.maximum(np.concatenate(columns), 1e-30))
    return np.maximum(levels, LOWEST_DB).T, -hop / 2, len(levels) * per_column * hop - hop / 2


def level_range(levels: np.ndarray) -> tuple[float, float]:
    """Levels of the darkest and the brightest colour: about the noise floor, and the loudest.

    >>> level_range(np.array([-130.0, -100.0, -100.0, -20.0]))
    (-100.0, -20.0)
    """
    high = float(levels.max())
    low = min(max(float(np.quantile(levels, 0.3)), high - MOST_RANGE_DB), high - LEAST_RANGE_DB)
    return max(low, LOWEST_DB), max(high, LOWEST_DB + LEAST_RANGE_DB)


def clock_marks(clock: RecorderTime, start_s: float, end_s: float) -> tuple[float, list[float]]:
    """The step between clock ticks, and where in the recording the clock shows round times.

    >>> clock_marks(RecorderTime(began=datetime(2023, 10, 24, 12, 34, 56), source="comment"), 1.0, 31.0)
    (5, [4.0, 9.0, 14.0, 19.0, 24.0, 29.0])
    """
    first, last = (clock.at(time_s) for time_s in (start_s, end_s))
    midnight = first.replace(hour=0, minute=0, second=0, microsecond=0)
    since, until = ((at - midnight).total_seconds() for at in (first, last))
    step_s = next((step for step in CLOCK_STEPS if until - since <= MOST_MARKS * step), CLOCK_STEPS[-1])
    rounds = np.arange(np.ceil(since / step_s - 1e-6), np.floor(until / step_s + 1e-6) + 1)
    return step_s, (start_s + (rounds * step_s - since) * clock.expansion).tolist()


def clock_text(at: datetime, digits: int) -> str:
    """The time of day, rounded to this number of decimals of a second.

    >>> clock_text(datetime(2023, 10, 24, 12, 34, 56, 949_999), digits=0)
    '12:34:57'
    """
    at += timedelta(microseconds=0.5 * 10 ** (6 - digits) if digits else 500_000)
    return f"{at:%H:%M:%S}" + (f".{at.microsecond:06d}"[: digits + 1] if digits else "")


def score_range(values: np.ndarray) -> tuple[float, float]:
    """From 0, or just below the lowest score if all are high, to just above the highest.

    >>> score_range(np.array([0.0, 2.0, np.inf])), score_range(np.array([0.1, 2.0]))
    ((1.7, 2.12), (0.0, 2.12))
    """
    shown = values[np.isfinite(values) & (values > 0.0)]
    low, high = float(shown.min(initial=np.inf)), float(shown.max(initial=1e-9))
    return (0.85 * low if 0.35 * high < low < np.inf else 0.0), 1.06 * high
