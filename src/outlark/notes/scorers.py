"""From frames to class scores: of each frame, or of every whole note that could start there."""

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from outlark.notes.blocks import Reblock
from outlark.notes.contrast import Contrast
from outlark.notes.edges import LOOK, MOST, Edges
from outlark.notes.front_ends.base import Frames
from outlark.notes.front_ends.note import NoteFrontEnd, cumulated
from outlark.notes.note_bounds import spans_of
from outlark.notes.scores import ScoreBlock, joined_scores

#: Frames, or starts of notes, that are scored at once: the same blocks whatever came in, so the same scores.
FRAMES_AT_ONCE = 512
#: The edges of notes that reach this share of their threshold are looked at closely.
LOOKED_AT = 0.5
#: At least this share of the frames of a note must rise above the noise.
ACTIVE_SHARE = 0.5


class ClassScorer(Protocol):
    """What gives scores, (n, C), to samples, (n, d): a fitted describer."""

    def class_scores(self, X: np.ndarray) -> np.ndarray:
        """High = member."""
        ...


class FrameScorer:
    """Each frame is a sample. Frames that do not rise above the noise score 0: there is nothing to know."""

    def __init__(self, describer: ClassScorer, n_classes: int) -> None:
        self._describer, self._n_classes = describer, n_classes
        self._blocks = Reblock(FRAMES_AT_ONCE)

    def push(self, frames: Frames) -> ScoreBlock:
        """The scores of the frames that have made up a block."""
        packed = np.column_stack([frames.features, frames.activity])
        return joined_scores([self.none(), *map(self._scored, self._blocks.push(packed))])

    def finish(self) -> ScoreBlock:
        """The scores of the rest."""
        rest = self._blocks.finish()
        return self.none() if rest is None else self._scored(rest)

    def _scored(self, packed: np.ndarray) -> ScoreBlock:
        features, activity = packed[:, :-1], packed[:, -1]
        values = np.zeros((len(packed), self._n_classes))
        heard = activity > 0.0
        if heard.any():
            values[heard] = self._describer.class_scores(features[heard])[:, : self._n_classes]
        return ScoreBlock(values, activity)

    def none(self) -> ScoreBlock:
        """Scores of no frames."""
        return ScoreBlock(np.empty((0, self._n_classes)), np.empty(0))


class NoteScorer:
    """Every span of a training length is a sample; what is kept is the best length for each start and class.

    Parameters
    ----------
    front_end : NoteFrontEnd, fitted
    describer : fitted on descriptions of whole notes
    lengths : ndarray (L,)
        Lengths in frames at which notes are looked for.
    allowed : ndarray (L, C) of bool
        Which class can have which length.
    step : int
        Notes start at every so many frames.
    edges : Edges, optional
        With it the edges of notes are looked at closely.
    thresholds : ndarray (C,), optional
        Goes with `edges`: notes that reach half of it are looked at, so that thresholds may be lowered afterwards.
    contrast : Contrast, optional
        With it scores are what they would be in as little noise as the training notes had.

    Attributes
    ----------
    grain : int
        Starts are scored in blocks of this many; a part of a recording begins with a multiple of it.
    look_back : int
        How many frames before its first start a part depends on, a multiple of the grain; see `run_in`.
    """

    def __init__(
        self,
        front_end: NoteFrontEnd,
        describer: ClassScorer,
        lengths: np.ndarray,
        allowed: np.ndarray,
        step: int,
        edges: Edges | None = None,
        thresholds: np.ndarray | None = None,
        contrast: Contrast | None = None,
    ) -> None:
        self._front_end, self._describer = front_end, describer
        self._lengths, self._allowed, self._step = lengths, allowed, step
        self._edges, self._thresholds, self._contrast = edges, thresholds, contrast
        # spectra that are looked at before and after a note: its surroundings, and those around its edges
        self._around = max(LOOK + MOST, int(np.ceil(front_end.surroundings)) + 1)
        self._after = int(np.ceil(lengths.max())) + 2 + self._around
        self._at_once = max(step, FRAMES_AT_ONCE - FRAMES_AT_ONCE % step)
        depends_on = max(self._around, 0 if contrast is None else contrast.look_back)
        self.grain, self.look_back = self._at_once, -(-depends_on // self._at_once) * self._at_once
        self._held, self._activity = np.empty((0, front_end.n_features_)), np.empty(0)
        self._before = np.zeros((self._around, front_end.n_features_))  # silence before a recording begins

    def run_in(self, frames: Frames) -> None:
        """What comes before the first start, without scores of its own.

        In pieces of any size, all together `look_back` frames, or as many as there are.
        """
        self._before = np.concatenate([self._before, frames.features])[-self._around :]
        if self._contrast is not None:
            self._activity = np.concatenate([self._activity, frames.activity])
            for at in range(0, len(self._activity) - self.grain + 1, self.grain):
                self._contrast.push(self._activity[at : at + self.grain])
            self._activity = self._activity[len(self._activity) // self.grain * self.grain :]

    def push(self, frames: Frames) -> ScoreBlock:
        """The scores of the starts from which the longest note has been heard in full."""
        if not len(frames):
            return self.none()
        self._held = np.concatenate([self._held, frames.features])
        self._activity = np.concatenate([self._activity, frames.activity])
        n_ready = max(0, len(self._held) - self._after) // self._at_once * self._at_once
        blocks = [self._block_at(at) for at in range(0, n_ready, self._at_once)]
        if n_ready:
            self._before = np.concatenate([self._before, self._held[:n_ready]])[-self._around :]
        self._held, self._activity = self._held[n_ready:], self._activity[n_ready:]
        return joined_scores([self.none(), *blocks])

    def finish(self) -> ScoreBlock:
        """The scores of the rest; notes that would reach beyond the end score 0."""
        blocks = [self._block_at(at) for at in range(0, len(self._held), self._at_once)]
        return joined_scores([self.none(), *blocks])

    def _block_at(self, at: int) -> ScoreBlock:
        """Scores of the block of starts that begins `at` frames after the first start that is held."""
        end = at + self._at_once + self._after
        before = np.concatenate([self._before, self._held[max(0, at - self._around) : at]])[-self._around :]
        spectra = np.concatenate([before, self._held[at:end]])
        block = self._scored(spectra, self._activity[at:end])
        if self._contrast is not None:
            block.values[...] /= self._contrast.push(block.activity)
        heard = Frames(self._held[at : at + len(block)], block.activity)
        spans = spans_of(heard, self._front_end.spectrum_)
        moves = None if self._edges is None else self._moves(block, spectra)
        return ScoreBlock(block.values, block.activity, block.lengths, moves, spans)

    def _moves(self, block: ScoreBlock, spectra: np.ndarray) -> np.ndarray:
        """Of a block of starts, from the spectra around it."""
        assert self._edges is not None
        assert self._thresholds is not None
        assert block.lengths is not None
        moves = np.zeros((*block.values.shape, 2), dtype=np.int64)
        starts, classes = np.nonzero(block.values >= LOOKED_AT * self._thresholds)
        if len(starts):
            ends = starts + block.lengths[starts, classes]
            found = self._edges.moves(spectra, self._around + starts, self._around + ends, classes)
            moves[starts, classes] = found
        return moves

    def _scored(self, spectra: np.ndarray, activity: np.ndarray) -> ScoreBlock:
        """Scores of a block of starts, from the spectra around it and the activity of its frames and those after it."""
        values = np.zeros((min(self._at_once, len(activity)), self._allowed.shape[1]))
        lengths = np.ones(values.shape, dtype=np.int64)
        block = ScoreBlock(values, activity[: len(values)], lengths)
        spans = list(self._spans(spectra, activity > 0.0, len(values)))
        if not spans:
            return block
        # one call for all lengths: calls cost more than rows
        scores = self._describer.class_scores(np.concatenate([samples for *_, samples in spans]))
        ends = np.cumsum([len(starts) for _, starts, _ in spans])
        for (number, starts, _), of_length in zip(spans, np.split(scores, ends[:-1]), strict=True):
            found = np.where(self._allowed[number], of_length[:, : values.shape[1]], 0.0)
            better = found > values[starts]
            values[starts] = np.where(better, found, values[starts])
            lengths[starts] = np.where(better, _whole(self._lengths[number]), lengths[starts])
        return block

    def _spans(
        self, spectra: np.ndarray, active: np.ndarray, n_starts: int
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """For each length, by its number: the starts of spans that rise above the noise, and their descriptions."""
        heard = np.concatenate([[0], np.cumsum(active)])
        silence = np.zeros((self._around, spectra.shape[1]))  # after a recording has ended
        starts, sums = np.arange(0, n_starts, self._step), cumulated(np.concatenate([spectra, silence]))
        for number, length in enumerate(self._lengths):
            whole = _whole(length)
            fitting = starts[starts + whole <= len(active)]
            rows = np.flatnonzero(heard[fitting + whole] - heard[fitting] >= ACTIVE_SHARE * whole)
            if len(rows):
                samples = self._front_end.describe(
                    spectra,
                    start=float(self._around + fitting[rows[0]]),
                    n_starts=int(rows[-1] - rows[0] + 1),
                    length=float(length),
                    step=self._step,
                    sums=sums,
                )
                yield number, fitting[rows], samples[rows - rows[0]]

    def none(self) -> ScoreBlock:
        """Scores of no starts."""
        n_classes = self._allowed.shape[1]
        lengths, moves = np.empty((0, n_classes), dtype=np.int64), np.empty((0, n_classes, 2), dtype=np.int64)
        spans = np.empty((0, 3), dtype=np.float32)
        return ScoreBlock(np.empty((0, n_classes)), np.empty(0), lengths, None if self._edges is None else moves, spans)


def _whole(length: float) -> int:
    """Frames of a note of this length."""
    return max(1, round(float(length)))
