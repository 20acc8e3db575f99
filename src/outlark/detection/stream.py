"""One recording on its way through a trained detector: samples in, scores and segments out once they are final."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from outlark.audio.resampling import Resampler
from outlark.detection.decode.decisions import Decisions
from outlark.detection.frame_level import FrameScorer
from outlark.detection.scorers import NoteScorer
from outlark.detection.scores import ScoreBlock, ScoreLayout, joined_scores
from outlark.detection.second_stage import Memory
from outlark.errors import InputError
from outlark.features.base import Frames, FrameSource, FrontEnd
from outlark.maths.threads import one_blas_thread
from outlark.segments import Segment
from outlark.verdict_names import SILENCE


class Found(NamedTuple):
    """The result of a push to `DetectorStream`: scores of new frames, and segments that are now final, in order."""

    scores: ScoreBlock
    segments: list[Segment]


class ScoreStream:
    """Samples in, class scores out; the first half of `DetectorStream`, which may start anywhere in a recording.

    Parameters
    ----------
    front_end : FrontEnd, fitted
        Its sample rate is the model's.
    scorer : FrameScorer or NoteScorer, fresh
    sample_rate : int
        Of the samples to come.
    memory : Memory, optional
        Gets the samples at the rate of the model.
    first : int
        The first frame to be scored, a multiple of the grain of a `NoteScorer`. The scores are those of the whole
        recording, to the bit, if samples are pushed from `first_sample` on.

    Attributes
    ----------
    first_sample : int
        Of the recording, at its own rate.
    n_samples, n_model_samples : int
        Up to where the recording was pushed, at its own rate and at that of the model.
    """

    def __init__(
        self,
        front_end: FrontEnd,
        scorer: FrameScorer | NoteScorer,
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

    Parameters
    ----------
    scores : ScoreStream
        From the start of a recording.
    decisions : Decisions
    layout : ScoreLayout
        Its sample rate is the model's.
    sample_rate : int
        Of the samples to come.
    memory : Memory, optional
        With a second stage: the samples it may still need, which `scores` fills; the layout is then that of
        `SecondStage.layout`.
    """

    def __init__(
        self,
        scores: ScoreStream,
        decisions: Decisions,
        layout: ScoreLayout,
        *,
        sample_rate: int,
        memory: Memory | None = None,
    ) -> None:
        self.sample_rate = sample_rate
        self._finished = False
        self._scores, self._memory = scores, memory
        self._decisions = decisions.stream(layout, None if memory is None else memory.joined)

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
        segments = last_segments(
            self._decisions.finish(self.n_model_samples), self.sample_rate, self.n_samples, self.n_model_samples
        )
        self._finished = True
        return together([found, Found(self._scores.none(), segments)])

    def _decided(self, block: ScoreBlock) -> Found:
        segments = self._decisions.push(block)
        if self._memory is not None:
            self._memory.forget(self._decisions.needed_from)
        return Found(block, at_rate(segments, self.sample_rate))


def at_rate(segments: list[Segment], rate: int) -> list[Segment]:
    """Segments in samples of a recording's own rate, in whole numbers: nothing drifts.

    >>> segment, = at_rate([Segment(start=3, end=4, sample_rate=8000)], 48000)
    >>> segment.start, segment.end
    (18, 24)
    """
    return [s if s.sample_rate == rate else _moved(s, rate) for s in segments]


def last_segments(segments: list[Segment], rate: int, n_samples: int, n_model_samples: int) -> list[Segment]:
    """The last segments of a recording at its own rate, up to its very end.

    A recording too short for one sample at the rate of the model is one segment of silence.
    """
    segments = [s for s in at_rate(segments, rate) if s.start < n_samples]
    if segments:
        segments[-1] = replace(segments[-1], end=n_samples)
    elif n_samples and not n_model_samples:
        reason = "shorter than one frame"
        segments = [Segment(start=0, end=n_samples, sample_rate=rate, verdict=SILENCE, reason=reason)]
    return segments


def _moved(s: Segment, rate: int) -> Segment:
    start, end = ((2 * at * rate + s.sample_rate) // (2 * s.sample_rate) for at in (s.start, s.end))
    return replace(s, start=start, end=max(end, start + 1), sample_rate=rate)


def together(found: Sequence[Found]) -> Found:
    """The results of consecutive pushes, as one."""
    return Found(joined_scores([f.scores for f in found]), [segment for f in found for segment in f.segments])


def _resampler(front_end: FrontEnd, sample_rate: int, first: int) -> Resampler | None:
    model_rate = front_end.sample_rate_
    if sample_rate == model_rate:
        return None
    if not front_end.resamples:
        raise InputError(f"a series at {sample_rate} Hz for a model of series at {model_rate} Hz; resample it first")
    return Resampler(sample_rate, model_rate, first)
