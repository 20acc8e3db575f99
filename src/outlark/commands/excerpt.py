"""An excerpt of a recording with as much around it as a detector needs."""

import math
from typing import Any, NamedTuple

import numpy as np

from outlark.audio.recording import Recording
from outlark.features.base import FrontEnd
from outlark.features.noise_floor import ENOUGH_FRAMES_PER_SECOND, LevelFloor

#: The noise floor looks this many seconds back and ahead, in chunks of one second that may start a second earlier.
BACK_S, AHEAD_S = 12.0, 4.0


class Surroundings(NamedTuple):
    """Samples of an excerpt with its surroundings, and the sample of the recording at which they start."""

    samples: np.ndarray
    start: int


def with_surroundings(sound: Recording, start_s: float, end_s: float, detector: Any) -> Surroundings:
    """An excerpt from which a detector finds, between two times, the same as in the whole recording."""
    front_end, rate = detector.front_end_, sound.sample_rate
    before, after = (n / detector.sample_rate_ for n in front_end.context_samples_)
    longest_s = float(np.max(detector.layout_.longest_s))
    # chunks are counted from the start of a recording: start where all of them start anew
    grain_s = _grain(front_end) / detector.sample_rate_
    n_grains = max(0, math.floor((start_s - BACK_S - before - longest_s) / grain_s))
    start = round(n_grains * grain_s * rate)
    end = math.ceil((end_s + AHEAD_S + after + 2 * longest_s) * rate)
    return Surroundings(sound.part(start, end), start)


def _grain(front_end: FrontEnd) -> int:
    """In samples: as many chunks of the noise floor as keep its thinning, and every second frame, in step."""
    frame_rate = front_end.frame_rate
    thinning = max(1, int(frame_rate // ENOUGH_FRAMES_PER_SECOND))
    return math.lcm(LevelFloor(frame_rate).chunk, 2 * thinning) * front_end.hop_samples_
