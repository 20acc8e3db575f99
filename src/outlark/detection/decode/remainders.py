"""Sound beside a note that is only the rest of its onset or its decay, and not a sound of its own.

To place the edges of a note, `outlark.detection.edges` compares `LOOK` spectra on either side of them with those of the
training notes: what sounds there has been looked at as part of the note, and a person who annotates the note would not
annotate it once more. So a stretch of sound that lies, as a whole, within that reach of the notes on either side of it
is counted as silence. It does not become part of the note either, whose edges have been placed with care.

How far `LOOK` spectra reach depends on how short the shortest of all training notes are (`choose_front_end`). Beside a
note of another class they reach as far as they would if the model knew that class alone.
"""

import numpy as np

from outlark.detection.decode.stretches import ACTIVE, NOTE, SILENT, Stretches, joined, merged
from outlark.detection.edges import LOOK
from outlark.detection.front_end_choice import WINDOW_SHARE
from outlark.detection.scores import ScoreLayout
from outlark.features.note import NoteFrontEnd


def reach_of_edges(layout: ScoreLayout) -> np.ndarray:
    """How many frames the edges of the notes of each class reach, (C,) of int.

    >>> layout = ScoreLayout(
    ...     classes=np.array(["trill", "song"]), thresholds=np.ones(2), sample_rate=32000, hop_samples=16,
    ...     offset_samples=0, shortest_s=np.array([0.008, 0.2]), longest_s=np.array([0.01, 0.3]),
    ... )
    >>> reach_of_edges(layout)
    array([12, 48])
    """
    usual = NoteFrontEnd()
    share = np.minimum(1.0, WINDOW_SHARE * np.asarray(layout.shortest_s, dtype=float) / usual.window_s)
    return np.maximum(LOOK, np.rint(LOOK * usual.hop_s * share * layout.frame_rate).astype(int))


class RemainderStream:
    """Stretches in as they become final, out without the remainders; the same whatever came in at once.

    Sound that reaches further than the edges of its neighbours stays unknown, all of it. No more is held than what lies
    within twice the longest reach, and the silence before it.

    Parameters
    ----------
    reach : ndarray (C,) of int
        Of the edges of each class, in frames; all 0 leave everything as it is.
    """

    def __init__(self, reach: np.ndarray) -> None:
        self.reach, self._most = reach, int(reach.max())
        self._held: list[Stretches] = []
        self._last_edge = -np.inf  # how far the last note reaches

    def push(self, new: Stretches, n_frames: int, classes: np.ndarray) -> Stretches:
        """The stretches that are final.

        Parameters
        ----------
        new : Stretches
        n_frames : int
            All notes that start before this frame are among the stretches by now.
        classes : ndarray (N,) of int
            Of note k, which is a stretch of the kind ``NOTE + k``.
        """
        return self._settled(new, float(n_frames), classes) if self._most else new

    def finish(self, rest: Stretches | None) -> Stretches | None:
        """What is left, with the last stretches of all, which are not notes."""
        parts = [*self._held, *([] if rest is None else [rest])]
        self._held = []
        return self._settled(joined(parts), np.inf, np.empty(0, dtype=int)) if parts and self._most else rest

    def _settled(self, new: Stretches, n_frames: float, classes: np.ndarray) -> Stretches:
        rows = joined([*self._held, new])
        before, after, self._last_edge = self._edges_around(rows, classes)
        sound = (rows.kinds == ACTIVE) & np.isfinite(rows.highest[:, -1])
        near = (rows.ends <= before) | (rows.starts >= after) | (before >= after)
        # near a note that is still to come, which starts at n_frames or later
        could = np.isinf(after) & (np.maximum(rows.starts, before) >= n_frames - self._most)
        is_open = sound & ~near & could
        rows.kinds[sound & near] = SILENT
        n_final = len(rows.kinds)
        if n_frames < np.inf:  # silence is not over as long as what follows may turn out to be silence, too
            n_final = int(is_open.argmax()) if is_open.any() else n_final
            n_final = int(np.flatnonzero(rows.kinds[:n_final] != SILENT).max(initial=-1)) + 1
        self._held = [Stretches(*(column.copy() for column in rows.part(n_final, len(rows.kinds))))]
        return merged(rows.part(0, n_final))

    def _edges_around(self, rows: Stretches, classes: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """For each stretch how far the note before it reaches, and from where on the next one does; infinite for none.

        Also how far the last of all notes reaches. Notes never wait, so that it is the one before whatever is held.
        """
        at, places = np.flatnonzero(rows.kinds >= NOTE), np.arange(len(rows.kinds))
        reach = self.reach[classes[rows.kinds[at] - NOTE]]
        ends = np.append(self._last_edge, rows.ends[at] + reach)
        starts = np.append(rows.starts[at] - reach, np.inf)
        return ends[np.searchsorted(at, places)], starts[np.searchsorted(at, places, side="right")], float(ends[-1])
