"""A long recording in independent parts, and the whole from the parts, to the last bit.

A part is scored from some minutes before its first frame on; whatever came earlier makes no difference
(`NoteDetector.score_stream`). Decisions can depend on hours: on a silence that started before the part, or on the
first of many notes without a gap. They are made once the scores of all parts are there, and take little time.
"""

from collections.abc import Callable, Iterator, Mapping

import numpy as np
from numpy.typing import ArrayLike

from outlark.audio.resampling import Resampler, resampled_length
from outlark.detection.detector import NoteDetector
from outlark.detection.scores import ScoreBlock
from outlark.detection.second_stage import Memory, joined
from outlark.detection.stream import at_rate, last_segments
from outlark.segments import Segment


def first_frame(detector: NoteDetector, seconds: float) -> int:
    """The first frame of a part that starts about this long after the start of a recording."""
    assert detector.grain is not None
    return round(seconds * detector.front_end_.frame_rate / detector.grain) * detector.grain


class PartStream:
    """Samples in, the scores of a part of a recording out.

    With a second stage, candidates are embedded here. Which they are is decided without knowing what came before; at
    the edges of the part it may turn out otherwise, and `WholeStream` then embeds them again.

    Parameters
    ----------
    detector : NoteDetector, fitted, whose `grain` is not None
    sample_rate : int
    first : int
        The first frame of the part, a multiple of the grain.
    stop : int or None
        The frame after its last; None for the end of the recording.

    Attributes
    ----------
    first_sample : int
        The recording has to be pushed from here on.
    second : dict
        With a second stage, the scores of the candidates so far, by first sample and the one after the last.
    """

    def __init__(self, detector: NoteDetector, sample_rate: int, first: int, stop: int | None) -> None:
        self._left = None if stop is None else max(0, stop - first)
        self.second: dict[tuple[int, int], np.ndarray] = {}
        stage, hop = detector.second_stage_, detector.layout_.hop_samples
        self._memory = None if stage is None else Memory(stage, detector.sample_rate_)
        self._scores = detector.score_stream(sample_rate, first=first, memory=self._memory)
        self._offset = first * hop
        self._decisions = None if stage is None else detector.decision_stream(self._noted)
        self.first_sample = self._scores.first_sample

    @property
    def n_samples(self) -> int:
        """Up to where the recording was pushed."""
        return self._scores.n_samples

    @property
    def complete(self) -> bool:
        """Whether all frames of the part are scored."""
        return self._left == 0

    def push(self, samples: ArrayLike) -> ScoreBlock:
        """The scores of the part that are now ready."""
        return self._of_this_part(self._scores.push(samples))

    def finish(self) -> ScoreBlock:
        """The rest: the recording has ended."""
        block = self._of_this_part(self._scores.finish())
        if self._decisions is not None and self._left is None and self._scores.n_model_samples > self._offset:
            self._decisions.finish(self._scores.n_model_samples - self._offset)
        return block

    def _of_this_part(self, block: ScoreBlock) -> ScoreBlock:
        if self._left is not None:
            block = block if len(block) <= self._left else block.between(0, self._left)
            self._left -= len(block)
        if self._decisions is not None:
            assert self._memory is not None
            self._decisions.push(block)
            self._memory.forget(self._offset + self._decisions.needed_from)
        return block

    def _noted(self, scores: np.ndarray, start: int, end: int) -> np.ndarray:
        assert self._memory is not None
        at = self._offset + start, self._offset + end
        self.second[at] = self._memory.second(*at)
        return joined(scores, self.second[at])


class WholeStream:
    """The scores of all parts in, one after the other, the segments of the recording out.

    Parameters
    ----------
    detector : NoteDetector, fitted
    sample_rate : int
        Of the recording.
    second : mapping
        With a second stage, the scores of the candidates of all parts (`PartStream.second`).
    blocks : function, with a second stage
        From a sample of the recording to its blocks from there on; for candidates that no part has embedded.
    """

    def __init__(
        self,
        detector: NoteDetector,
        sample_rate: int,
        second: Mapping[tuple[int, int], np.ndarray],
        blocks: Callable[[int], Iterator[np.ndarray]],
    ) -> None:
        self._detector, self._rate, self._second, self._blocks = detector, sample_rate, second, blocks
        staged = detector.second_stage_ is not None
        self._decisions = detector.decision_stream(self._recalled if staged else None)

    def push(self, block: ScoreBlock) -> list[Segment]:
        """The segments that are now final."""
        return at_rate(self._decisions.push(block), self._rate)

    def finish(self, n_samples: int) -> list[Segment]:
        """The rest, given the length of the recording."""
        n_model_samples = resampled_length(n_samples, self._rate, self._detector.sample_rate_)
        return last_segments(self._decisions.finish(n_model_samples), self._rate, n_samples, n_model_samples)

    def _recalled(self, scores: np.ndarray, start: int, end: int) -> np.ndarray:
        second = self._second.get((start, end))
        if second is None:
            assert self._detector.second_stage_ is not None
            samples = self._samples(start, end)
            second = self._detector.second_stage_.scores(samples, self._detector.sample_rate_)
        return joined(scores, second)

    def _samples(self, start: int, end: int) -> np.ndarray:
        """Samples start … end - 1 at the rate of the model."""
        resampler = Resampler(self._rate, self._detector.sample_rate_, first=start)
        found, missing = [np.empty(0)], end - start
        for block in self._blocks(resampler.first_in):
            found.append(resampler.push(block))
            missing -= len(found[-1])
            if missing <= 0:
                break
        else:
            found.append(resampler.finish())
        return np.concatenate(found)[: end - start]
