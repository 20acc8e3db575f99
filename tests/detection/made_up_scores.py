"""Scores to decide on: drawn by hand, one character for each frame, or at random."""

from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from outlark.detection.decisions import Decisions
from outlark.detection.scores import ScoreBlock, ScoreLayout, Scores
from outlark.paper.decisions import Rules

HOP = 10  # samples, at 1000 a second: a frame is 10 ms
PLAIN = {"least_s": 0.03, "sure_s": 0.05, "bridge_s": 0.0, "unknown_s": 0.0}


def layout_of(n_classes=2, thresholds=2.0, offset=0, level="frame", **more):
    return ScoreLayout(
        level=level,
        classes=np.array(list("ABC"[:n_classes])),
        thresholds=np.broadcast_to(np.asarray(thresholds, dtype=float), n_classes),
        **{"sample_rate": 1000, "hop_samples": HOP, "offset_samples": offset} | more,
        shortest_s=np.array([0.08, 0.16, 0.2])[:n_classes],
        longest_s=np.full(n_classes, 0.18),
    )


def tracks(*lines):
    """One line for each class, a digit for each frame ("." = 0)."""
    return np.array([[0.0 if ch == "." else float(ch) for ch in line] for line in lines]).T


def scores_of(*lines, activity=None, lengths=None, offset=0, thresholds=2.0):
    values = tracks(*lines)
    db = np.full(len(values), np.inf) if activity is None else 5.0 * tracks(activity)[:, 0]
    if lengths is not None:
        lengths = np.broadcast_to(lengths, values.shape)
    layout = layout_of(len(lines), thresholds, offset, "frame" if lengths is None else "note")
    block = ScoreBlock(values, db, lengths)
    return Scores(layout=layout, block=block, n_samples=offset + HOP * len(values))


def drawing(segments, n_frames, offset=0):
    """A character for each frame: a letter for a note, "?" for unknown, "." for silence."""
    signs = {"silence": ".", "unknown": "?"}
    middles = offset + HOP * np.arange(n_frames) + HOP // 2
    found = [next(s for s in segments if s.start <= m < s.end) for m in middles]
    return "".join(signs.get(s.verdict, str(s.label)) for s in found)


def drawn(decisions, *lines, **more):
    return drawing(decisions.decide(scores_of(*lines, **more)), len(lines[0]))


def pieces(block, cuts):
    borders = [0, *sorted(min(c, len(block)) for c in cuts), len(block)]
    return [block.between(i, j) for i, j in pairwise(borders)]


def streamed(decisions, scores, blocks):
    stream = decisions.stream(scores.layout)
    found = [segment for block in blocks for segment in stream.push(block)]
    return found + stream.finish(scores.n_samples)


def recording(seed, n_runs, whole_notes=False, measured=True, offset=0, tail=0):
    """Scores and activity that change in steps of a few frames, so that there are notes, gaps and flicker."""
    rng = np.random.default_rng(seed)
    lengths = rng.choice([1, 2, 3, 6, 12], size=n_runs)
    n = lengths.sum()
    loud = rng.choice([0.0, 2.5], size=(n_runs, 2), p=[0.65, 0.35])
    values = np.repeat(loud, lengths, axis=0) + rng.choice([0.0, 0.3, 0.7], size=(n, 2)) + 0.01 * rng.random((n, 2))
    activity = np.repeat(rng.choice([-np.inf, 1.0, 10.0, 25.0], size=n_runs), rng.permutation(lengths))
    activity = activity + rng.normal(size=n) if measured else np.full(n, np.inf)
    spans = rng.integers(1, 9, size=(n, 2)) if whole_notes else None
    block = ScoreBlock(values, activity, spans)
    layout = layout_of(2, [1.9, 2.4], offset, "note" if whole_notes else "frame")
    return Scores(layout=layout, block=block, n_samples=int(offset + n * HOP + tail))


@st.composite
def recordings(draw, whole_notes=False):
    return recording(
        draw(st.integers(0, 2**32 - 1)),
        draw(st.integers(1, 25)),
        whole_notes,
        measured=draw(st.integers(0, 5)) > 0,
        offset=draw(st.integers(0, 7)),
        tail=draw(st.sampled_from([-9, 0, 33])),
    )


def decider(level, longest_region_s=60.0, **settings):
    """Decisions at a level, with regions of at most this length."""
    kind = Rules if level == "frame" else Decisions

    class WithRegions(kind):
        def limits(self, layout):
            return super().limits(layout)._replace(most=round(longest_region_s * layout.frame_rate))

    WithRegions.__init__ = kind.__init__  # whose signature scikit-learn reads
    return WithRegions(**settings)


@st.composite
def deciders(draw, level):
    return decider(
        level,
        draw(st.sampled_from([0.1, 0.17, 60.0])),
        least_s=draw(st.sampled_from(["auto", 0.02, 0.05])),
        bridge_s=draw(st.sampled_from(["auto", 0.0, 0.01, 0.03])),
        activity_db=draw(st.sampled_from([6.0, 6.0, None])),
        unknown_s=draw(st.sampled_from(["auto", 0.0, 0.05])),
    )


cases = st.sampled_from(["frame", "note"]).flatmap(
    lambda level: st.tuples(deciders(level), recordings(whole_notes=level == "note"))
)
