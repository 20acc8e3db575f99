"""Class scores of consecutive frames, and all that is needed to decide on them without the signal."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


@dataclass(frozen=True, eq=False, kw_only=True)
class ScoreLayout:
    """What stays the same along a stream of scores.

    Attributes
    ----------
    classes : ndarray (C,)
    thresholds : ndarray (C,)
        τ: where each class begins to accept.
    sample_rate, hop_samples, offset_samples : int
        Frame k speaks for the samples ``offset + k·hop … offset + (k + 1)·hop``.
    shortest_s, longest_s : ndarray (C,)
        Of the training notes of each class, in seconds.
    note_thresholds : ndarray (C,), optional
        For scores of frames: where the mean over a whole note is that of a note of the class.
    """

    classes: np.ndarray
    thresholds: np.ndarray
    sample_rate: int
    hop_samples: int
    offset_samples: int
    shortest_s: np.ndarray
    longest_s: np.ndarray
    note_thresholds: np.ndarray | None = None

    @property
    def frame_rate(self) -> float:
        """Frames for each second."""
        return self.sample_rate / self.hop_samples


class ScoreBlock(NamedTuple):
    """Scores of consecutive frames.

    Attributes
    ----------
    values : ndarray (T, C)
        Of frame front ends: the score of the frame. Of whole notes: the best score of a note that starts here.
    activity : ndarray (T,)
        dB above the noise floor; infinite where it is not measured.
    lengths : ndarray (T, C) of int, or None
        Of whole notes: how many frames the best note that starts here lasts. None for frame front ends.
    moves : ndarray (T, C, 2) of int, or None
        Of whole notes: how many frames later than that, or earlier, its start and end are when looked at closely.
    spans : ndarray (T, 3) of float32, or None
        Level, lowest and highest frequency of each frame, as `outlark.detection.note_bounds.spans_of` gives them.
    """

    values: np.ndarray
    activity: np.ndarray
    lengths: np.ndarray | None = None
    moves: np.ndarray | None = None
    spans: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def note_lengths(self) -> np.ndarray:
        """Of whole notes: how many frames each lasts once its edges have been looked at closely, (T, C) of int.

        >>> block = ScoreBlock(np.ones((1, 1)), np.zeros(1), np.array([[9]]), np.array([[[1, -2]]]))
        >>> block.note_lengths
        array([[6]])
        """
        assert self.lengths is not None
        return self.lengths if self.moves is None else self.lengths + self.moves[..., 1] - self.moves[..., 0]


def joined_scores(blocks: Sequence[ScoreBlock]) -> ScoreBlock:
    """Consecutive blocks as one."""
    if len(blocks) == 1:
        return blocks[0]
    columns = ([column for column in of_blocks if column is not None] for of_blocks in zip(*blocks, strict=True))
    return ScoreBlock(*(np.concatenate(parts) if parts else None for parts in columns))  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False, kw_only=True)
class Scores:
    """The scores of a whole recording; what `NoteDetector.scores` gives and `NoteDetector.decide` takes.

    Attributes
    ----------
    layout : ScoreLayout
    block : ScoreBlock
    n_samples : int
        Length of the recording.
    """

    layout: ScoreLayout
    block: ScoreBlock
    n_samples: int

    @property
    def times_s(self) -> np.ndarray:
        """The middle of each frame's span, (T,)."""
        frames = np.arange(len(self.block)) + 0.5
        return (self.layout.offset_samples + frames * self.layout.hop_samples) / self.layout.sample_rate
