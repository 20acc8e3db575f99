"""The panels of a figure of an excerpt: spectrogram, score curves, lanes of notes; and the numbers behind them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.fft import rfft
from scipy.ndimage import maximum_filter1d

from outlark.audio.header import RecorderTime
from outlark.audio.recording import Recording
from outlark.commands.figures import BLACK, CLASS_COLOURS, CLASS_HATCHES, CLASS_LINES, GREY, SMALL_FONT, TINY_FONT
from outlark.detection.scores import ScoreBlock, Scores
from outlark.plain_text import visible
from outlark.segments import AMBIGUOUS, KNOWN, SILENCE, UNKNOWN, Segment

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Of more classes, only those are shown that were detected or annotated, or come closest to their thresholds.
MAX_CURVES = 12
#: Annotated labels that are not classes, each in a lane of its own.
MAX_OTHER_LANES = 8
#: Points of a curve, and columns of the spectrogram.
MAX_POINTS, MAX_SPECTRA = 2000, 1200
#: Curves with more frames per point than this get finer lines.
DENSE_CURVE = 4
MAX_LABEL_LENGTH = 28
FIGURE_INCHES, PANEL_INCHES, LANE_INCHES = 11.0, (2.5, 2.1), 0.21
#: Approximate length of spectrogram windows: a compromise between time and frequency that suits birds.
SPECTROGRAM_WINDOW_S = 0.02
#: Lowest level shown, in dB re full scale.
DARKEST_DB = -130.0
#: Smallest and largest range of the colours.
MIN_RANGE_DB, MAX_RANGE_DB = 40.0, 80.0
#: Windows transformed at once.
SPECTRA_AT_ONCE = 512
#: Steps between clock ticks in seconds, and the largest number of ticks.
CLOCK_STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600)
MAX_CLOCK_TICKS = 8


@dataclass(frozen=True, eq=False, kw_only=True)
class View:
    """What to show: the sound from `start_s` to `end_s`, up to `top_hz`."""

    sound: Recording
    start_s: float
    end_s: float
    top_hz: float
    title: str
    clock: RecorderTime | None


@dataclass(frozen=True, eq=False, kw_only=True)
class Detected:
    """Scores around an excerpt, and its segments (start_s, end_s, Segment); times are those of the recording."""

    scores: Scores
    times_s: np.ndarray
    segments: list[tuple[float, float, Segment]]


@dataclass(frozen=True)
class ClassStyle:
    """How a class is drawn; `key` is its label as text, None for unknown sound."""

    key: str | None
    colour: str = GREY
    line: Any = "-"
    hatch: str = ""

    @property
    def name(self) -> str:
        """The label on one line, shortened if necessary."""
        name = UNKNOWN if self.key is None else " ".join(self.key.split())
        return name if len(name) <= MAX_LABEL_LENGTH else f"{name[: MAX_LABEL_LENGTH - 1]}…"


def draw(view: View, found: Detected, truth: Sequence[Any]) -> "Figure":
    """The whole figure."""
    import matplotlib.style
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = _shown(found, truth)
    looks = class_styles([str(found.scores.layout.classes[column]) for column in columns])
    others = sorted({str(note.label) for note in truth if note.label is not None} - {look.key for look in looks})
    lanes = [*looks, *[ClassStyle(key, BLACK) for key in others[:MAX_OTHER_LANES]], ClassStyle(None)]
    with matplotlib.style.context("default"):
        heights = [*PANEL_INCHES, 0.25 + LANE_INCHES * len(lanes)]
        figure = Figure(figsize=(FIGURE_INCHES, sum(heights) + 1.1), layout="constrained")
        FigureCanvasAgg(figure)
        top, middle, bottom = figure.subplots(3, sharex=True, height_ratios=heights)
        draw_spectrogram(top, view)
        draw_scores(middle, view, found, columns, looks)
        _draw_lanes(bottom, found, truth, lanes)
        bottom.set_xlabel("time in the recording, s", fontsize=SMALL_FONT)
        bottom.set_xlim(view.start_s, view.end_s)
        bottom.locator_params(axis="x", nbins=10)
        bottom.ticklabel_format(axis="x", useOffset=False)
        _draw_clock(top, view)
        figure.align_ylabels([top, middle])
    return figure


def _shown(found: Detected, truth: Sequence[Any]) -> list[int]:
    layout = found.scores.layout
    labels = [str(label) for label in layout.classes]
    seen = {key for *_, s in found.segments for key in _keys(s)} | {str(annotation.label) for annotation in truth}
    margins = found.scores.block.values.max(axis=0, initial=0.0) - np.minimum(layout.thresholds, 1e9)
    by_rank = sorted(range(len(labels)), key=lambda c: (labels[c] not in seen, -margins[c]))
    n_seen = sum(label in seen for label in labels)
    return sorted(by_rank[: max(MAX_CURVES, n_seen)])


def class_styles(labels: Sequence[str]) -> list[ClassStyle]:
    """Each class in a colour of its own; further ones reuse them with other line styles."""
    again = [place // len(CLASS_COLOURS) % len(CLASS_LINES) for place in range(len(labels))]
    return [
        ClassStyle(label, CLASS_COLOURS[place % len(CLASS_COLOURS)], CLASS_LINES[a], CLASS_HATCHES[a])
        for place, (label, a) in enumerate(zip(labels, again, strict=True))
    ]


def draw_spectrogram(axis: "Axes", view: View) -> None:
    rate = view.sound.sample_rate
    start, end = round(view.start_s * rate), round(view.end_s * rate)
    window = spectrogram_window(rate)
    part = view.sound.part(start - window // 2, end + window // 2)
    part = np.concatenate([np.zeros(max(0, window // 2 - start)), part])  # silence before the recording
    levels, first, last = spectrogram(part, window, end - start, MAX_SPECTRA)
    n_rows = int(np.ceil(view.top_hz / rate * window)) + 1
    levels = levels[:n_rows]
    low, high = level_range(levels)
    half = 0.5 * rate / window / 1e3
    image = axis.imshow(
        levels, origin="lower", aspect="auto", cmap="magma", vmin=low, vmax=high, rasterized=True,
        extent=((start + first) / rate, (start + last) / rate, -half, (2 * len(levels) - 1) * half),
    )  # fmt: skip
    axis.set_ylim(0.0, view.top_hz / 1e3)
    axis.set_ylabel("frequency, kHz", fontsize=SMALL_FONT)
    axis.tick_params(labelsize=TINY_FONT)
    bar = axis.figure.colorbar(image, cax=axis.inset_axes((1.01, 0.05, 0.012, 0.9)))
    bar.set_label("level, dB re full scale", fontsize=TINY_FONT)
    bar.ax.tick_params(labelsize=TINY_FONT)


def draw_scores(axis: "Axes", view: View, found: Detected, columns: Sequence[int], looks: Sequence[ClassStyle]) -> None:
    layout, note_level = found.scores.layout, found.scores.block.lengths is not None
    all_values = curves(found.scores.block)
    step_s = layout.hop_samples / layout.sample_rate
    inside = (found.times_s > view.start_s - step_s) & (found.times_s < view.end_s + step_s)
    values, step = thinned(all_values[inside], MAX_POINTS)
    times_s = found.times_s[inside][::step] + 0.5 * (step - 1) * step_s
    leading = leaders(values)
    thin, thick = (0.8, 2.0) if step <= DENSE_CURVE else (0.4, 1.0)
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
    axis.set_ylabel(of_what, fontsize=SMALL_FONT)
    axis.tick_params(labelsize=TINY_FONT)
    hidden = len(layout.classes) - len(columns)
    more = f"\n{hidden} lower ones hidden" if hidden else ""
    legend(axis, handles, [look.name for look in looks], f"bold: leading\ndotted: threshold{more}")


def _draw_lanes(axis: "Axes", found: Detected, truth: Sequence[Any], lanes: Sequence[ClassStyle]) -> None:
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
    axis.set_yticks(
        [rows[lane.key] + 0.5 for lane in lanes], [visible(lane.name) for lane in lanes], fontsize=TINY_FONT
    )
    for tick, lane in zip(axis.get_yticklabels(), lanes, strict=True):
        tick.set(color=lane.colour, parse_math=False)
    axis.tick_params(axis="y", length=0)
    axis.tick_params(axis="x", labelsize=TINY_FONT)
    in_order = sorted(kinds, key=[KNOWN, AMBIGUOUS, UNKNOWN, "truth"].index)
    legend(axis, [kinds[kind] for kind in in_order], in_order, None)


def _draw_clock(axis: "Axes", view: View) -> None:
    """The title, and above it the clock time if it is known."""
    axis.set_title(visible(view.title), fontsize=SMALL_FONT + 1, loc="left", parse_math=False)
    if view.clock is None:
        return
    clock = view.clock
    room_s = 0.05 * (view.end_s - view.start_s)  # the colour bar is on the right
    step_s, marks_s = clock_marks(clock, view.start_s, view.end_s - room_s)
    digits = 0 if step_s >= 1 else 1 if step_s >= 0.1 else 3
    above = axis.secondary_xaxis("top")
    above.set_xticks(marks_s, [clock_text(clock.at(at_s), digits) for at_s in marks_s], fontsize=TINY_FONT)
    zone = f"{clock.began:%Z}" or "time zone unknown"
    above.set_xlabel(f"{clock.at(view.start_s):%Y-%m-%d}, {zone}, from the {clock.source}", fontsize=TINY_FONT)


def legend(axis: "Axes", handles: Sequence[Any], names: Sequence[str], title: str | None) -> None:
    """To the right of the panel; names may hold anything, including matplotlib markup."""
    if not handles:
        return
    drawn = axis.legend(
        handles, [str(i) for i in range(len(handles))], title=title, loc="upper left", bbox_to_anchor=(1.005, 0.99),
        fontsize=TINY_FONT, title_fontsize=TINY_FONT, frameon=False, handlelength=2.4, labelspacing=0.25, borderpad=0.1,
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


# ---------------------------------------------------------------------- numbers


def curves(block: ScoreBlock) -> np.ndarray:
    """The score of each class at each moment, (T, C).

    Frame-level scores are that already. Note-level scores stand at the onset; each moment gets the best of the notes
    that are sounding.

    >>> values, lengths = np.array([[0.0], [2.0], [1.0], [0.0], [0.0]]), np.array([[1], [2], [3], [1], [1]])
    >>> curves(ScoreBlock(values, np.zeros(5), lengths)).ravel()
    array([0., 2., 2., 1., 1.])
    """
    if block.lengths is None:
        return np.maximum(block.values, 0.0)
    best = np.zeros(block.values.shape)
    for length in np.unique(block.lengths[block.values > 0.0]).tolist():
        starting = np.where(block.lengths == length, block.values, 0.0)
        # the window of a moment ends with it: it holds the onsets of the notes that are still sounding
        covering = maximum_filter1d(starting, length, axis=0, mode="constant", origin=(length - 1) // 2)
        np.maximum(best, covering, out=best)
    return best


def thinned(values: np.ndarray, most: int) -> tuple[np.ndarray, int]:
    """At most `most` rows, each the maximum of several consecutive rows, and how many these are.

    >>> thinned(np.array([[1.0], [5.0], [2.0], [0.0], [3.0]]), most=3)
    (array([[5.],
           [2.],
           [3.]]), 2)
    """
    step = max(1, -(-len(values) // most))
    if step == 1:
        return values, 1
    return np.maximum.reduceat(values, np.arange(0, len(values), step), axis=0), step


def leaders(values: np.ndarray) -> np.ndarray:
    """Where a class leads, up to the next point because a line needs two, bool (T, C); nowhere if all are 0.

    >>> leaders(np.array([[1.0, 2.0], [3.0, 1.0], [3.0, 1.0], [0.0, 0.0], [0.0, 0.0]]))
    array([[False,  True],
           [ True,  True],
           [ True, False],
           [ True, False],
           [False, False]])
    """
    best = values.argmax(axis=1)
    leading = (np.arange(values.shape[1]) == best[:, np.newaxis]) & (values > 0.0)
    leading[1:] |= leading[:-1]
    return leading


def spectrogram_window(sample_rate: int) -> int:
    """Samples of a window: the power of two closest to `SPECTROGRAM_WINDOW_S`.

    >>> spectrogram_window(22050)
    512
    """
    return int(2 ** max(4, round(np.log2(SPECTROGRAM_WINDOW_S * sample_rate))))


def spectrogram(samples: np.ndarray, window: int, n_samples: int, most: int) -> tuple[np.ndarray, float, float]:
    """Levels in dB re a full-scale sine, (window // 2 + 1, columns); and between which samples they lie.

    `samples` are the excerpt of `n_samples` with half a window before and after it. There are at most `most` columns,
    each the maximum over its windows.

    >>> sine = np.sin(2 * np.pi * np.arange(1024 + 64) / 8)
    >>> levels, first, last = spectrogram(sine, window=64, n_samples=1024, most=10)
    >>> levels.shape, int(levels[:, 5].argmax()), round(float(levels.max()), 1), first, last
    ((33, 9), 8, 0.0, -16.0, 1136.0)
    """
    hop = max(1, min(n_samples // most, window // 2))
    starts = np.arange(0, n_samples + hop, hop)
    shape = np.hanning(window + 1)[:-1]
    shape *= 2.0 / shape.sum()
    padded = np.concatenate([samples, np.zeros(max(0, n_samples + hop + window - len(samples)))])
    windows = np.lib.stride_tricks.sliding_window_view(padded, window)
    per_column = -(-len(starts) // most)
    columns = []
    at_once = SPECTRA_AT_ONCE - SPECTRA_AT_ONCE % per_column or per_column
    for at in range(0, len(starts), at_once):
        power = np.abs(rfft(windows[starts[at : at + at_once]] * shape, axis=1)) ** 2
        columns.append(np.maximum.reduceat(power, np.arange(0, len(power), per_column), axis=0))
    levels = 10.0 * np.log10(np.maximum(np.concatenate(columns), 1e-30))
    return np.maximum(levels, DARKEST_DB).T, -hop / 2, len(levels) * per_column * hop - hop / 2


def level_range(levels: np.ndarray) -> tuple[float, float]:
    """Levels of the darkest and the brightest colour: about the noise floor, and the loudest.

    >>> level_range(np.array([-130.0, -100.0, -100.0, -20.0]))
    (-100.0, -20.0)
    """
    high = float(levels.max())
    low = min(max(float(np.quantile(levels, 0.3)), high - MAX_RANGE_DB), high - MIN_RANGE_DB)
    return max(low, DARKEST_DB), max(high, DARKEST_DB + MIN_RANGE_DB)


def clock_marks(clock: RecorderTime, start_s: float, end_s: float) -> tuple[float, list[float]]:
    """The step between clock ticks, and where in the recording the clock shows round times.

    >>> clock_marks(RecorderTime(began=datetime(2023, 10, 24, 12, 34, 56), source="comment"), 1.0, 31.0)
    (5, [4.0, 9.0, 14.0, 19.0, 24.0, 29.0])
    """
    first, last = (clock.at(time_s) for time_s in (start_s, end_s))
    midnight = first.replace(hour=0, minute=0, second=0, microsecond=0)
    since, until = ((at - midnight).total_seconds() for at in (first, last))
    step_s = next((step for step in CLOCK_STEPS if until - since <= MAX_CLOCK_TICKS * step), CLOCK_STEPS[-1])
    rounds = np.arange(np.ceil(since / step_s - 1e-6), np.floor(until / step_s + 1e-6) + 1)
    return step_s, (start_s + (rounds * step_s - since) * clock.expansion).tolist()


def clock_text(at: datetime, digits: int) -> str:
    """The time of day, rounded to this number of decimals of a second.

    >>> clock_text(datetime(2023, 10, 24, 12, 34, 56, 949_999), digits=0)
    '12:34:57'
    """
    at += timedelta(microseconds=0.5 * 10 ** (6 - digits) if digits else 500_000)
    return f"{at:%H:%M:%S}" + (f".{at.microsecond:06d}"[: digits + 1] if digits else "")


def score_range(values: np.ndarray) -> tuple[float, float]:
    """From 0, or just below the lowest score if all are high, to just above the highest.

    >>> score_range(np.array([0.0, 2.0, np.inf])), score_range(np.array([0.1, 2.0]))
    ((1.7, 2.12), (0.0, 2.12))
    """
    shown = values[np.isfinite(values) & (values > 0.0)]
    low, high = float(shown.min(initial=np.inf)), float(shown.max(initial=1e-9))
    return (0.85 * low if 0.35 * high < low < np.inf else 0.0), 1.06 * high
