"""The three panels of the figure: spectrogram, score curves, lanes of notes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from outlark.audio.header import RecorderTime
from outlark.audio.recording import Recording
from outlark.commands.figures import SMALL, TINY
from outlark.commands.plot.numbers import (
    clock_marks,
    clock_text,
    curves,
    leaders,
    level_range,
    score_range,
    spectrogram,
    spectrogram_window,
    thinned,
)
from outlark.detection.scores import Scores
from outlark.plain_text import visible
from outlark.segments import AMBIGUOUS, KNOWN, SILENCE, UNKNOWN, Segment

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Safe for colour-blind readers; further classes reuse them with other line styles.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#332288", "#882255", "#999933")
LINES = ("-", (0, (5, 1.5)), (0, (5, 1.5, 1.5, 1.5)))
HATCHES = ("", "////", "xxxx")
GREY, BLACK = "#888888", "#222222"
#: Of more classes, only those are shown that were detected or annotated, or come closest to their thresholds.
MOST_CLASSES = 12
#: Annotated labels that are not classes, each in a lane of its own.
MOST_OTHERS = 8
#: Points of a curve, and columns of the spectrogram.
MOST_POINTS, MOST_COLUMNS = 2000, 1200
#: Curves with more frames per point than this get finer lines.
DENSE = 4
LONGEST_NAME = 28
WIDTH, HEIGHTS, LANE = 11.0, (2.5, 2.1), 0.21


@dataclass(frozen=True, eq=False, kw_only=True)
class Excerpt:
    """What to show: the sound from `start_s` to `end_s`, up to `top_hz`."""

    sound: Recording
    start_s: float
    end_s: float
    top_hz: float
    title: str
    clock: RecorderTime | None


@dataclass(frozen=True, eq=False, kw_only=True)
class Found:
    """Scores around an excerpt, and its segments (start_s, end_s, Segment); times are those of the recording."""

    scores: Scores
    times_s: np.ndarray
    segments: list[tuple[float, float, Segment]]


@dataclass(frozen=True)
class Look:
    """How a class is drawn; `key` is its label as text, None for unknown sound."""

    key: str | None
    colour: str = GREY
    line: Any = "-"
    hatch: str = ""

    @property
    def name(self) -> str:
        """The label on one line, shortened if necessary."""
        name = UNKNOWN if self.key is None else " ".join(self.key.split())
        return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def draw(excerpt: Excerpt, found: Found, truth: Sequence[Any]) -> "Figure":
    """The whole figure."""
    import matplotlib.style
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = _shown(found, truth)
    looks = looks_of([str(found.scores.layout.classes[column]) for column in columns])
    others = sorted({str(note.label) for note in truth if note.label is not None} - {look.key for look in looks})
    lanes = [*looks, *[Look(key, BLACK) for key in others[:MOST_OTHERS]], Look(None)]
    with matplotlib.style.context("default"):
        heights = [*HEIGHTS, 0.25 + LANE * len(lanes)]
        figure = Figure(figsize=(WIDTH, sum(heights) + 1.1), layout="constrained")
        FigureCanvasAgg(figure)
        top, middle, bottom = figure.subplots(3, sharex=True, height_ratios=heights)
        draw_spectrogram(top, excerpt)
        draw_scores(middle, excerpt, found, columns, looks)
        _draw_lanes(bottom, found, truth, lanes)
        bottom.set_xlabel("time in the recording, s", fontsize=SMALL)
        bottom.set_xlim(excerpt.start_s, excerpt.end_s)
        bottom.locator_params(axis="x", nbins=10)
        bottom.ticklabel_format(axis="x", useOffset=False)
        _draw_clock(top, excerpt)
        figure.align_ylabels([top, middle])
    return figure


def _shown(found: Found, truth: Sequence[Any]) -> list[int]:
    layout = found.scores.layout
    labels = [str(label) for label in layout.classes]
    seen = {key for *_, s in found.segments for key in _keys(s)} | {str(annotation.label) for annotation in truth}
    margins = found.scores.block.values.max(axis=0, initial=0.0) - np.minimum(layout.thresholds, 1e9)
    by_rank = sorted(range(len(labels)), key=lambda c: (labels[c] not in seen, -margins[c]))
    n_seen = sum(label in seen for label in labels)
    return sorted(by_rank[: max(MOST_CLASSES, n_seen)])


def looks_of(labels: Sequence[str]) -> list[Look]:
    """Each class in a colour of its own; further ones reuse them with other line styles."""
    again = [place // len(COLOURS) % len(LINES) for place in range(len(labels))]
    return [
        Look(label, COLOURS[place % len(COLOURS)], LINES[a], HATCHES[a])
        for place, (label, a) in enumerate(zip(labels, again, strict=True))
    ]


def draw_spectrogram(axis: "Axes", excerpt: Excerpt) -> None:
    rate = excerpt.sound.sample_rate
    start, end = round(excerpt.start_s * rate), round(excerpt.end_s * rate)
    window = spectrogram_window(rate)
    part = excerpt.sound.part(start - window // 2, end + window // 2)
    part = np.concatenate([np.zeros(max(0, window // 2 - start)), part])  # silence before the recording
    levels, first, last = spectrogram(part, window, end - start, MOST_COLUMNS)
    n_rows = int(np.ceil(excerpt.top_hz / rate * window)) + 1
    levels = levels[:n_rows]
    low, high = level_range(levels)
    half = 0.5 * rate / window / 1e3
    image = axis.imshow(
        levels, origin="lower", aspect="auto", cmap="magma", vmin=low, vmax=high, rasterized=True,
        extent=((start + first) / rate, (start + last) / rate, -half, (2 * len(levels) - 1) * half),
    )  # fmt: skip
    axis.set_ylim(0.0, excerpt.top_hz / 1e3)
    axis.set_ylabel("frequency, kHz", fontsize=SMALL)
    axis.tick_params(labelsize=TINY)
    bar = axis.figure.colorbar(image, cax=axis.inset_axes((1.01, 0.05, 0.012, 0.9)))
    bar.set_label("level, dB re full scale", fontsize=TINY)
    bar.ax.tick_params(labelsize=TINY)


def draw_scores(axis: "Axes", excerpt: Excerpt, found: Found, columns: Sequence[int], looks: Sequence[Look]) -> None:
    layout, note_level = found.scores.layout, found.scores.block.lengths is not None
    all_values = curves(found.scores.block)
    step_s = layout.hop_samples / layout.sample_rate
    inside = (found.times_s > excerpt.start_s - step_s) & (found.times_s < excerpt.end_s + step_s)
    values, step = thinned(all_values[inside], MOST_POINTS)
    times_s = found.times_s[inside][::step] + 0.5 * (step - 1) * step_s
    leading = leaders(values)
    thin, thick = (0.8, 2.0) if step <= DENSE else (0.4, 1.0)
    handles = []
    for column, look in zip(columns, looks, strict=True):
        curve = np.where(values[:, column] > 0.0, values[:, column], np.nan)
        style = {"color": look.colour, "linestyle": look.line}
        axis.plot(times_s, curve, **style, linewidth=thin, alpha=0.8)
        handles += axis.plot(times_s, np.where(leading[:, column], curve, np.nan), **style, linewidth=thick)
        if np.isfinite(layout.thresholds[column]):
            axis.axhline(layout.thresholds[column], color=look.colour, linestyle=":", linewidth=1.0)
    axis.set_ylim(*score_range(np.concatenate([values[:, columns].ravel(), layout.thresholds[columns]])))
    of_what = "score of the best\ncurrent note" if note_level else "score of the frame"
    axis.set_ylabel(of_what, fontsize=SMALL)
    axis.tick_params(labelsize=TINY)
    hidden = len(layout.classes) - len(columns)
    more = f"\n{hidden} lower ones hidden" if hidden else ""
    legend(axis, handles, [look.name for look in looks], f"bold: leading\ndotted: threshold{more}")


def _draw_lanes(axis: "Axes", found: Found, truth: Sequence[Any], lanes: Sequence[Look]) -> None:
    from matplotlib.patches import Patch

    rows = {lane.key: len(lanes) - 1 - i for i, lane in enumerate(lanes)}
    looks = {lane.key: lane for lane in lanes}
    kinds: dict[str, Patch] = {}
    low, height = (0.32, 0.55) if truth else (0.18, 0.64)
    for start_s, end_s, segment in found.segments:
        for key in _keys(segment):
            look, unsure = looks[key], segment.verdict == AMBIGUOUS
            face = "white" if unsure or look.hatch else look.colour
            style: dict[str, Any] = {"facecolor": face, "edgecolor": look.colour}
            style |= {"hatch": "" if unsure else look.hatch, "linewidth": 1.2 if unsure else 0.8}
            axis.broken_barh([(start_s, end_s - start_s)], (rows[key] + low, height), **style)
            kinds.setdefault(segment.verdict, Patch(**style))
    for note in truth:
        if getattr(note, "verdict", None) != SILENCE:
            row = rows.get(None if note.label is None else str(note.label), rows[None])
            span = (note.start_s, note.end_s - note.start_s)
            axis.broken_barh([span], (row + 0.1, 0.14), color=BLACK, linewidth=0.8)
            kinds.setdefault("truth", Patch(facecolor=BLACK))
    for row in range(1, len(lanes)):
        axis.axhline(row, color="#dddddd", linewidth=0.6, zorder=0)
    axis.set_ylim(0, len(lanes))
    axis.set_yticks([rows[lane.key] + 0.5 for lane in lanes], [visible(lane.name) for lane in lanes], fontsize=TINY)
    for tick, lane in zip(axis.get_yticklabels(), lanes, strict=True):
        tick.set(color=lane.colour, parse_math=False)
    axis.tick_params(axis="y", length=0)
    axis.tick_params(axis="x", labelsize=TINY)
    in_order = sorted(kinds, key=[KNOWN, AMBIGUOUS, UNKNOWN, "truth"].index)
    legend(axis, [kinds[kind] for kind in in_order], in_order, None)


def _draw_clock(axis: "Axes", excerpt: Excerpt) -> None:
    """The title, and above it the clock time if it is known."""
    axis.set_title(visible(excerpt.title), fontsize=SMALL + 1, loc="left", parse_math=False)
    if excerpt.clock is None:
        return
    clock = excerpt.clock
    room_s = 0.05 * (excerpt.end_s - excerpt.start_s)  # the colour bar is on the right
    step_s, marks_s = clock_marks(clock, excerpt.start_s, excerpt.end_s - room_s)
    digits = 0 if step_s >= 1 else 1 if step_s >= 0.1 else 3
    above = axis.secondary_xaxis("top")
    above.set_xticks(marks_s, [clock_text(clock.at(at_s), digits) for at_s in marks_s], fontsize=TINY)
    zone = f"{clock.began:%Z}" or "time zone unknown"
    above.set_xlabel(f"{clock.at(excerpt.start_s):%Y-%m-%d}, {zone}, from the {clock.source}", fontsize=TINY)


def legend(axis: "Axes", handles: Sequence[Any], names: Sequence[str], title: str | None) -> None:
    """To the right of the panel; names may hold anything, including matplotlib markup."""
    if not handles:
        return
    drawn = axis.legend(
        handles, [str(i) for i in range(len(handles))], title=title, loc="upper left", bbox_to_anchor=(1.005, 0.99),
        fontsize=TINY, title_fontsize=TINY, frameon=False, handlelength=2.4, labelspacing=0.25, borderpad=0.1,
    )  # fmt: skip
    for text, name in zip(drawn.get_texts(), names, strict=True):
        text.set(text=visible(name), parse_math=False)


def _keys(segment: Segment) -> list[str | None]:
    """The lanes of a segment: two for an ambiguous note."""
    if segment.verdict == SILENCE:
        return []
    if segment.verdict == AMBIGUOUS:
        return [str(segment.label), str(segment.runner_up)]
    return [None if segment.label is None else str(segment.label)]
