"""One recording on its way through a trained detector: samples in, scores and segments out once they are final."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from outlark.audio.sound import Resampler, resampled_length
from outlark.detection.decisions import DecisionStream
from outlark.detection.scorer import NoteScorer, Scorer
from outlark.detection.scores import ScoreBlock, joined_scores
from outlark.detection.second_stage import Memory, joint_score
from outlark.errors import InputError
from outlark.features.base import Frames, FrameSource, FrontEnd
from outlark.maths.description import one_blas_thread
from outlark.segments import Segment

if TYPE_CHECKING:
    from outlark.detection.detector import NoteDetector


class Found(NamedTuple):
    """The result of a push to `DetectorStream`: scores of new frames, and segments that are now final, in order."""

    scores: ScoreBlock
    segments: list[Segment]


class ScoreStream:
    """Samples in, class scores out; the first half of `DetectorStream`, which may start anywhere in a recording.

    The first frame to be scored is a multiple of the grain of a `NoteScorer`. The scores are those of the whole
    recording, to the bit, if samples are pushed from `first_sample` on. `memory` gets the samples at the rate of the
    model. `n_samples` and `n_model_samples` say up to where the recording was pushed, at its own rate and the model's.
    """

    def __init__(
        self,
        front_end: FrontEnd,
        scorer: Scorer,
        sample_rate: int,
        *,
        memory: Memory | None = None,
        first: int = 0,
    ) -> None:
        self._run_in = self.n_model_samples = 0
        self._frames: FrameSource = front_end.stream()
        if first:
            assert isinstance(scorer, NoteScorer)
            self._run_in = min(first, scorer.look_back)
            source = scorer.source_from(first - self._run_in)
            self._frames, self.n_model_samples = source, source.first_sample
        self._resampler = _resampler(front_end, sample_rate, self.n_model_samples)
        self.first_sample = self.n_samples = self._resampler.first_in if self._resampler else self.n_model_samples
        self._scorer, self._signal, self._memory = scorer, front_end.signal, memory
        if memory is not None:
            memory.begin(self.n_model_samples)

    def push(self, samples: ArrayLike) -> ScoreBlock:
        """Any number of samples; the scores that are now ready."""
        block = self._signal(samples)
        self.n_samples += len(block)
        # blocks are small: BLAS threads would wait for each other, and several recordings use all cores
        with one_blas_thread():
            return self._through(self._resampler.push(block) if self._resampler else block)

    def finish(self) -> ScoreBlock:
        """The rest: the recording has ended."""
        with one_blas_thread():
            parts = [self._through(self._resampler.finish())] if self._resampler else []
            return joined_scores([*parts, self._scored(self._frames.finish()), self._scorer.finish()])

    def none(self) -> ScoreBlock:
        """Scores of no frames."""
        return self._scorer.none()

    def _through(self, samples: np.ndarray) -> ScoreBlock:
        self.n_model_samples += len(samples)
        if self._memory is not None:
            self._memory.push(samples)
        return self._scored(self._frames.push(samples))

    def _scored(self, frames: Frames) -> ScoreBlock:
        if self._run_in:
            frames = self._after_the_run_in(frames)
        return self._scorer.push(frames)

    def _after_the_run_in(self, frames: Frames) -> Frames:
        assert isinstance(self._scorer, NoteScorer)
        early = min(self._run_in, len(frames))
        self._scorer.run_in(frames.between(0, early))
        self._run_in -= early
        return frames.between(early, len(frames))


class DetectorStream:
    """Samples in, scores and final segments out; made by `NoteDetector.stream`.

    With a second stage, `memory` holds the samples it may still need, which `scores` fills.
    """

    def __init__(self, scores: ScoreStream, decisions: DecisionStream, memory: Memory | None = None) -> None:
        self._scores, self._decisions, self._memory = scores, decisions, memory
        self.sample_rate = decisions.sample_rate
        self._finished = False

    @property
    def n_samples(self) -> int:
        """Pushed so far, at the rate of the stream."""
        return self._scores.n_samples

    @property
    def n_model_samples(self) -> int:
        """Pushed so far, at the model's rate."""
        return self._scores.n_model_samples

    def push(self, samples: ArrayLike) -> Found:
        """Any number of samples; what is now ready."""
        if self._finished:
            raise InputError("this stream is finished; make a new one with detector.stream()")
        return self._decided(self._scores.push(samples))

    def finish(self) -> Found:
        """The rest: the recording has ended."""
        found = self._decided(self._scores.finish())
        self._finished = True
        last = self._decisions.finish(self.n_model_samples, self.n_samples)
        return Found(found.scores, found.segments + last)

    def _decided(self, block: ScoreBlock) -> Found:
        segments = self._decisions.push(block)
        if self._memory is not None:
            self._memory.forget(self._decisions.needed_from)
        return Found(block, segments)


def score_blocks(stream: DetectorStream, blocks: Iterable[np.ndarray]) -> Iterator[ScoreBlock]:
    """The scores of a recording, pushed block by block."""
    yield from (stream.push(block).scores for block in blocks)
    yield stream.finish().scores


def together(found: Sequence[Found]) -> Found:
    """The results of consecutive pushes, as one."""
    return Found(joined_scores([f.scores for f in found]), [segment for f in found for segment in f.segments])


def _resampler(front_end: FrontEnd, sample_rate: int, first: int) -> Resampler | None:
    model_rate = front_end.sample_rate_
    if sample_rate == model_rate:
        return None
    if not front_end.is_sound:
        raise InputError(f"a series at {sample_rate} Hz for a model of series at {model_rate} Hz; resample it first")
    return Resampler(sample_rate, model_rate, first)


def first_frame(detector: "NoteDetector", seconds: float) -> int:
    """The first frame of a part that starts about this long after the start of a recording."""
    assert detector.grain is not None
    return round(seconds * detector.front_end_.frame_rate / detector.grain) * detector.grain


class PartStream:
    """Samples in, from `first_sample` on; out come the scores of the frames first … stop - 1, or up to the end.

    A part is scored from some minutes before its first frame on; whatever came earlier makes no difference, to the last
    bit. Decisions can depend on hours: on a silence that started before the part, or on the first of many notes without
    a gap. `WholeStream` makes them once the scores of all parts are there, which takes little time.

    With a second stage, candidates are embedded here, and `second` holds their scores by first sample and the one after
    the last. Candidates are chosen without the preceding part, so those near its edges may change; `WholeStream` then
    embeds them again.
    """

    def __init__(self, detector: "NoteDetector", sample_rate: int, first: int, stop: int | None) -> None:
        self._left = None if stop is None else max(0, stop - first)
        self.second: dict[tuple[int, int], np.ndarray] = {}
        stage, hop = detector.second_stage_, detector.layout_.hop_samples
        self._memory = None if stage is None else Memory(stage, detector.sample_rate_)
        self._scores = detector.score_stream(sample_rate, first=first, memory=self._memory)
        self._offset = first * hop
        self._decisions = None if stage is None else detector.decision_stream(self._rescored)
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

    def _rescored(self, scores: np.ndarray, start: int, end: int) -> np.ndarray:
        assert self._memory is not None
        at = self._offset + start, self._offset + end
        self.second[at] = self._memory.scores(*at)
        return joint_score(scores, self.second[at])


class WholeStream:
    """The scores of all parts in, one after the other, the segments of the recording out.

    With a second stage, `second` holds the scores of the candidates of all parts (`PartStream.second`), and `blocks`
    returns the recording from a sample on, for candidates that no part has embedded.
    """

    def __init__(
        self,
        detector: "NoteDetector",
        sample_rate: int,
        second: Mapping[tuple[int, int], np.ndarray],
        blocks: Callable[[int], Iterator[np.ndarray]],
    ) -> None:
        self._detector, self._rate, self._second, self._blocks = detector, sample_rate, second, blocks
        staged = detector.second_stage_ is not None
        self._decisions = detector.decision_stream(self._rescored if staged else None, sample_rate)

    def push(self, block: ScoreBlock) -> list[Segment]:
        """The segments that are now final."""
        return self._decisions.push(block)

    def finish(self, n_samples: int) -> list[Segment]:
        """The rest, given the length of the recording."""
        n_model_samples = resampled_length(n_samples, self._rate, self._detector.sample_rate_)
        return self._decisions.finish(n_model_samples, n_samples)

    def _rescored(self, scores: np.ndarray, start: int, end: int) -> np.ndarray:
        second = self._second.get((start, end))
        if second is None:
            assert self._detector.second_stage_ is not None
            samples = self._samples(start, end)
            second = self._detector.second_stage_.scores(samples, self._detector.sample_rate_)
        return joint_score(scores, second)

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
