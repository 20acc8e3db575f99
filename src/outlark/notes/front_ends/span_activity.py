"""How far long spans of a recording rise above its noise, from the levels of short pieces of them."""

import numpy as np

from outlark.notes.background import ActivityStream, LevelFloor, decibels, noise_rise
from outlark.notes.blocks import Reblock
from outlark.notes.front_ends.base import Frames

#: The noise floor is that of pieces of a span of this length: within seconds of song only the pauses are at the floor.
STEP_S = 0.01
#: Pieces are no shorter than this many samples, nor are spans: the level of fewer says nothing.
LEAST_STEP = 16


class SpanActivity:
    """The samples of one span after the other in; how far each rises above the noise floor out, once that is known.

    Spans are cut into pieces of `STEP_S`, whose levels without their mean have the floor (`LevelFloor`); a span is as
    loud as its pieces are in the mean, so that a short call in it counts.

    Attributes
    ----------
    delay : int
        How many spans after a span its activity is known, at most.

    Examples
    --------
    >>> spans = SpanActivity(hop=800, sample_rate=8000)
    >>> x = np.random.default_rng(0).normal(size=(2, 800)) * np.array([[0.001], [0.1]])
    >>> spans.push(x[0]), spans.push(x[1]), np.round(spans.finish())
    ([], [], array([-2., 38.]))
    """

    def __init__(self, hop: int, sample_rate: int) -> None:
        n_steps = max(1, min(round(hop / (STEP_S * sample_rate)), hop // LEAST_STEP))
        self._starts = np.arange(n_steps) * hop // n_steps
        spans_in_chunk = LevelFloor(
            sample_rate / hop
        ).chunk  # whole spans, for what begins in the middle of a recording
        floor = LevelFloor(sample_rate * n_steps / hop, chunk_s=spans_in_chunk * hop / sample_rate)
        self._steps = ActivityStream(0, floor, noise_rise(hop // n_steps - 1))
        self._spans = Reblock(n_steps)
        self.delay = floor.delay // n_steps

    def push(self, span: np.ndarray) -> list[float]:
        """The samples of a span; only the last may be shorter than the others."""
        starts = self._starts[self._starts < len(span)]
        lengths = np.diff(starts, append=len(span))
        means, powers = (np.add.reduceat(x, starts) / lengths for x in (span, span**2))
        levels = decibels(powers - means**2)
        return self._together(self._steps.push(np.empty((len(levels), 0)), levels))

    def finish(self) -> list[float]:
        """The rest: the recording has ended."""
        found = self._together(self._steps.finish())
        rest = self._spans.finish()
        return found if rest is None else [*found, _mean_level(rest)]

    def _together(self, steps: Frames) -> list[float]:
        return [_mean_level(span) for span in self._spans.push(steps.activity)]


def _mean_level(levels: np.ndarray) -> float:
    """The level of the mean power, in dB."""
    return float(decibels(np.mean(10.0 ** (levels / 10.0), keepdims=True))[0])


def activity_of(x: np.ndarray, hop: int, sample_rate: int) -> np.ndarray:
    """The activity of every span of a whole signal, (⌈n / hop⌉,).

    >>> activity_of(np.zeros(1601), hop=800, sample_rate=8000).shape
    (3,)
    """
    spans = SpanActivity(hop, sample_rate)
    found = [spans.push(x[start : start + hop]) for start in range(0, len(x), hop)]
    return np.concatenate([np.empty(0), *found, spans.finish()])
