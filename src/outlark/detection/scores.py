"""Class scores of consecutive frames, and what it takes to decide on them without the signal."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False, kw_only=True)
class ScoreLayout:
    """What stays the same along a stream of scores; arrays are (C,)."""

    classes: np.ndarray
    #: τ: the lowest score that each class accepts.
    thresholds: np.ndarray
    #: Frame k covers the samples ``offset + k·hop … offset + (k + 1)·hop``.
    sample_rate: int
    hop_samples: int
    offset_samples: int
    #: Of the training notes of each class.
    shortest_s: np.ndarray
    longest_s: np.ndarray
    #: For scores of frames: the lowest mean score of a whole note of the class.
    note_thresholds: np.ndarray | None = None

    @property
    def frame_rate(self) -> float:
        """Frames per second."""
        return self.sample_rate / self.hop_samples


@dataclass(frozen=True, eq=False)
class ScoreBlock:
    """Scores of consecutive frames; its length is their number."""

    #: The score of the frame or, at note level, the best score of a note that starts here, (T, C).
    values: np.ndarray
    #: dB above the noise floor; infinite where it is not measured, (T,).
    activity: np.ndarray
    #: At note level: how many frames the best note that starts here lasts, (T, C) of int.
    lengths: np.ndarray | None = None
    #: At note level: by how many frames its onset and end move once its edges are refined, (T, C, 2) of int.
    moves: np.ndarray | None = None
    #: Level, lowest and highest frequency of each frame (`outlark.detection.edges.spans_of`), (T, 3) of float32.
    spans: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """The arrays that there are, by name."""
        return {name: column for name, column in vars(self).items() if column is not None}

    def between(self, start: int, end: int) -> "ScoreBlock":
        """Frames start … end - 1, a copy: it neither shares memory with this block nor keeps it alive."""
        return ScoreBlock(**{name: column[start:end].copy() for name, column in self.columns.items()})

    @property
    def note_lengths(self) -> np.ndarray:
        """At note level: how many frames each note lasts once its edges are refined, (T, C) of int.

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
    columns: dict[str, list[np.ndarray]] = {}
    for block in blocks:
        for name, column in block.columns.items():
            columns.setdefault(name, []).append(column)
    return ScoreBlock(**{name: np.concatenate(parts) for name, parts in columns.items()})


@dataclass(frozen=True, eq=False, kw_only=True)
class Scores:
    """The scores of a whole recording: from `NoteDetector.scores`, for `NoteDetector.decide`."""

    layout: ScoreLayout
    block: ScoreBlock
    #: The length of the recording.
    n_samples: int

    @property
    def times_s(self) -> np.ndarray:
        """The middle of each frame, (T,)."""
        frames = np.arange(len(self.block)) + 0.5
        return (self.layout.offset_samples + frames * self.layout.hop_samples) / self.layout.sample_rate
