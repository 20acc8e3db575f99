"""Figure 1 of the paper: an excerpt of the test clip, the scores of each method, the truth and the decisions."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from outlark.audio.recording import ArrayRecording
from outlark.commands.figures import BLACK, SMALL_FONT, TINY_FONT
from outlark.commands.panels import (
    FIGURE_INCHES,
    MAX_CURVES,
    ClassStyle,
    Detected,
    View,
    class_styles,
    draw_scores,
    draw_spectrogram,
    legend,
)
from outlark.paper.experiment.dataset import OOD, Draw
from outlark.plain_text import visible
from outlark.segments import AMBIGUOUS, SILENCE, Segment

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

#: Fewest and most notes in the excerpt, and as many unknown classes as are worth having in it.
FEWEST_NOTES, MOST_NOTES, SEVERAL = 9, 11, 4
#: Inches: the spectrogram, a panel of scores, a lane of decisions.
SPECTROGRAM, SCORES, LANE = 2.0, 1.7, 0.32
PALE, LINE = "#d8d8d8", "#bbbbbb"
#: The share of a bar that a name may fill, and the fewest letters worth printing.
FILLED, FEWEST_LETTERS = 0.94, 3
#: Letters of a method's title beside its lane.
LONGEST_TITLE = 24


def figure_1(drawn: Draw, detectors: Mapping[str, Any]) -> "Figure":
    """An excerpt of the test clip as in Figure 1 of the paper.

    (a) The spectrogram; (b) for each method the score of each class, the leading one bold, thresholds dotted; (c) the
    truth and the decisions of each method. `detectors`, by title, are fitted to the training notes of the draw.
    """
    import matplotlib.style
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shown = chosen_excerpt(drawn)
    seen = _excerpt(drawn, shown)
    scores = {title: detector.scores(drawn.audio, drawn.sample_rate) for title, detector in detectors.items()}
    looks = _looks(drawn, shown)
    lanes = {"truth": shown} | {title: detectors[title].decide(found) for title, found in scores.items()}
    heights = [SPECTROGRAM, *[SCORES] * len(scores), 0.3 + LANE * len(lanes)]
    with matplotlib.style.context("default"):
        figure = Figure(figsize=(FIGURE_INCHES, sum(heights) + 0.35 * len(heights) + 0.4), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(len(heights), sharex=True, height_ratios=heights)
        draw_spectrogram(axes[0], seen)
        _title(axes[0], f"(a) {len(shown)} of the {len(drawn.truth)} notes of the test clip")
        for axis, (title, found) in zip(axes[1:], scores.items(), strict=False):
            _draw_class_scores(axis, seen, Detected(scores=found, times_s=found.times_s, segments=[]), looks)
            _title(axis, f"(b) scores: {title}")
        _title(axes[-1], "(c) truth and decisions")
        names = _draw_lanes(axes[-1], lanes, looks, seen)
        for axis in axes[:-1]:
            _draw_borders(axis, shown)
        axes[-1].set_xlabel("time in the test clip, s", fontsize=SMALL_FONT)
        axes[-1].set_xlim(seen.start_s, seen.end_s)
        figure.align_ylabels(axes[:-1])
        _fit(figure, axes[-1], names)
    return figure


def chosen_excerpt(drawn: Draw) -> list[Segment]:
    """Nine to eleven consecutive notes: every known class, then several unknown ones, then as many of both as possible.

    The shortest and earliest of the best; the whole clip if it has fewer notes.
    """
    truth = drawn.truth
    if len(truth) <= FEWEST_NOTES:
        return list(truth)
    excerpts = [truth[at : at + n] for n in range(FEWEST_NOTES, MOST_NOTES + 1) for at in range(len(truth) - n + 1)]

    def worth(notes: Iterable[Segment]) -> tuple[int, int, int]:
        labels = [note.label for note in notes]
        n_known = sum(label in drawn.known for label in labels)
        strange = len(set(labels) - set(drawn.known))
        return len(set(labels) & set(drawn.known)), min(strange, SEVERAL), -abs(2 * n_known - len(labels))

    return list(max(excerpts, key=worth))


def _excerpt(drawn: Draw, shown: Sequence[Segment]) -> View:
    sound = ArrayRecording(drawn.audio, drawn.sample_rate)
    start_s, end_s = shown[0].start_s, shown[-1].end_s
    return View(sound=sound, start_s=start_s, end_s=end_s, top_hz=drawn.sample_rate / 2, title="", clock=None)


def _looks(drawn: Draw, shown: Sequence[Segment]) -> dict[str, ClassStyle]:
    """Styles of the known classes or, if they are too many for a legend, of those in the excerpt."""
    there = {segment.label for segment in shown}
    known = [label for label in drawn.known if len(drawn.known) <= MAX_CURVES or label in there]
    return dict(zip(known, class_styles(known), strict=True))


def _draw_class_scores(axis: "Axes", seen: View, found: Detected, looks: Mapping[str, ClassStyle]) -> None:
    classes = [str(label) for label in found.scores.layout.classes]
    columns = [classes.index(label) for label in looks]
    draw_scores(axis, seen, found, columns, list(looks.values()))
    frames = found.scores.block.lengths is None
    for line in axis.lines:
        if line.get_linestyle() == ":":
            line.set(zorder=4, linewidth=1.4)  # visible through many lines
        elif frames:
            line.set_linewidth(0.6 * line.get_linewidth())  # frame scores fluctuate quickly


def _draw_borders(axis: "Axes", shown: Sequence[Segment]) -> None:
    for time_s in sorted({time_s for s in shown for time_s in (s.start_s, s.end_s)}):
        axis.axvline(time_s, color=LINE, linewidth=0.6, alpha=0.7, zorder=0.5)


def _draw_lanes(
    axis: "Axes", lanes: Mapping[str, Sequence[Segment]], looks: Mapping[str, ClassStyle], seen: View
) -> "list[tuple[Text, float, float]]":
    """Bars with names; returns the names with the times between which they must fit."""
    from matplotlib.patches import Patch

    names, unsure = [], None
    for row, segments in enumerate(lanes.values()):
        for segment in segments:
            start_s, end_s = max(segment.start_s, seen.start_s), min(segment.end_s, seen.end_s)
            if segment.verdict == SILENCE or start_s >= end_s:
                continue
            look = looks.get(str(segment.label))
            style = _bar_style(look, segment.verdict == AMBIGUOUS)
            axis.broken_barh([(start_s, end_s - start_s)], (row + 0.1, 0.8), linewidth=0.8, **style)
            unsure = style if segment.verdict == AMBIGUOUS else unsure
            written = OOD if segment.label is None else visible(" ".join(str(segment.label).split()))
            text = axis.text(
                (start_s + end_s) / 2, row + 0.5, written, ha="center", va="center", fontsize=TINY_FONT, clip_on=True,
                color=_ink(str(style["facecolor"])), parse_math=False,
            )  # fmt: skip
            text.set_in_layout(False)
            names.append((text, start_s, end_s))
    kinds = {"unknown": _bar_style(None, False)} | ({"ambiguous: counts\nfor its label": unsure} if unsure else {})
    legend(axis, [Patch(**style) for style in kinds.values()], list(kinds), None)
    axis.set_ylim(len(lanes), 0)
    axis.set_yticks(np.arange(len(lanes)) + 0.5, [_short(title) for title in lanes], fontsize=TINY_FONT)
    for tick in axis.get_yticklabels():
        tick.set_parse_math(False)
    axis.tick_params(axis="y", length=0)
    axis.tick_params(axis="x", labelsize=TINY_FONT)
    return names


def _bar_style(look: ClassStyle | None, unsure: bool) -> dict[str, Any]:
    if look is None:
        return {"facecolor": PALE, "edgecolor": "white"}
    if unsure or look.hatch:
        return {"facecolor": "white", "edgecolor": look.colour, "hatch": "" if unsure else look.hatch}
    return {"facecolor": look.colour, "edgecolor": "white"}


def _ink(background: str) -> str:
    """Dark or white, whichever is easier to read."""
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(background)
    return "white" if 0.299 * red + 0.587 * green + 0.114 * blue < 0.5 else BLACK


def _fit(figure: "Figure", axis: "Axes", names: "Sequence[tuple[Text, float, float]]") -> None:
    """Shorten names that are wider than their bars; hide those that would become too short."""
    figure.draw_without_rendering()  # lays out everything, so that widths are known
    for text, start_s, end_s in names:
        (left, _), (right, _) = axis.transData.transform([(start_s, 0.0), (end_s, 0.0)])
        whole = text.get_text()
        for letters in range(len(whole), 0, -1):
            if text.get_window_extent().width <= FILLED * (right - left):
                break
            text.set_text(f"{whole[: letters - 1]}…")
        if text.get_text() != whole and len(text.get_text()) <= FEWEST_LETTERS:
            text.set_visible(False)


def _title(axis: "Axes", text: str) -> None:
    axis.set_title(visible(text), fontsize=SMALL_FONT + 1, loc="left", parse_math=False)


def _short(title: str) -> str:
    return title if len(title) <= LONGEST_TITLE else f"{title[: LONGEST_TITLE - 1]}…"
