"""A front end for the notes at hand, chosen by the pitch and duration of the training notes.

The usual settings suit notes of 30 ms or longer between 500 Hz and 10 kHz. Owls, bats and insects call elsewhere. The
frequency range keeps its width in octaves and moves to where the notes are; windows scale with it. Finer choices, by
leaving out one note after another, did worse than the usual settings (docs/decisions/008-front-end.md).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from outlark.detection.training import Material
from outlark.features.base import HIGHEST_SHARE, Frames, joined
from outlark.features.note import NoteFrontEnd, Spectrum, SpectrumSettings, SpectrumSource
from outlark.segments import Segment

#: The lowest frequency considered.
LOWEST_CHOICE_HZ = 40.0
BANDS_PER_OCTAVE = 12
#: The usual range gives way to a higher one if it holds less than the first share of what the best one holds, and to a
#: lower one if it holds less than the second: wind and voices are loudest below the frequencies that matter.
LEAVE_UPWARDS, LEAVE_DOWNWARDS = 0.8, 0.25
#: Among ranges that hold at least this share of what the best one holds, the nearest to the usual one is taken.
ENOUGH_SHARE = 0.95
#: Notes that rise less than this above the noise, in dB, do not show where they lie.
LEAST_RISE_DB = 6.0
#: A window is at most the first share of the shortest notes, and longer than usual only up to the second.
WINDOW_SHARE, LONG_WINDOW_SHARE = 0.5, 0.125
#: Windows change if the range moves by this factor or more.
FAR_FACTOR = 2.0
#: A window has this many samples at least.
LEAST_WINDOW = 32
#: The reported range of the notes leaves out this share of their sound at each end.
OUTSIDE_SHARE = 0.05


class FrontEndChoice(NamedTuple):
    """A front end, not fitted, and why it has these settings, in sentences."""

    front_end: NoteFrontEnd
    why: list[str]


def choose_front_end(material: Material) -> FrontEndChoice:
    """The front end for the training notes.

    Frequency limits of annotations do not count: bands in which a note is silent tell it from others.

    >>> from outlark.detection.training import join_clips
    >>> rng, t = np.random.default_rng(0), np.arange(4000) / 8000
    >>> hoot = np.sin(2 * np.pi * 120 * t) * np.hanning(4000) + 0.001 * rng.normal(size=4000)
    >>> choice = choose_front_end(join_clips([hoot, hoot], ["hoot", "hoot"], 8000, 0.1))
    >>> round(choice.front_end.low_hz), round(choice.front_end.high_hz), choice.front_end.window_s
    (50, 1009, 0.0625)
    >>> choice.why[0]
    'only 0 % of their sound lies between 500 and 10000 Hz: it listens from 50 to 1009 Hz, where 95 % lies'
    """
    usual = NoteFrontEnd(surroundings_s=0.0) if material.clips else NoteFrontEnd()
    low_hz, high_hz, where = _span(material, usual)
    scale = usual.low_hz / low_hz
    window_s, how_long = _window(material, 1.0 if 1.0 / FAR_FACTOR < scale < FAR_FACTOR else scale, usual.window_s)
    if low_hz == usual.low_hz and window_s == usual.window_s:
        return FrontEndChoice(usual, [where])
    factor = window_s / usual.window_s
    front_end = NoteFrontEnd(
        window_s,
        factor * usual.hop_s,
        low_hz=low_hz,
        high_hz=high_hz,
        n_bands=usual.n_bands,
        surroundings_s=factor * usual.surroundings_s,
        shifts_s=tuple(factor * shift for shift in usual.shifts_s),
    )
    return FrontEndChoice(front_end, [where, *how_long])


def _window(material: Material, scale: float, usual_s: float) -> tuple[float, list[str]]:
    """The length of windows in seconds, and why: as many periods as usual, unless notes are too short for that."""
    shortest_s = min(_durations(material))
    longest_s = max(LONG_WINDOW_SHARE * shortest_s, usual_s) if scale > 1.0 else scale * usual_s
    window_s = min(scale * usual_s, longest_s, WINDOW_SHARE * shortest_s)
    window_s = max(window_s, LEAST_WINDOW / material.sample_rate)
    if window_s == usual_s:
        return usual_s, []
    because = "of where it listens"
    if window_s != scale * usual_s:
        because = f"the shortest notes last {1e3 * shortest_s:.3g} ms"
    return window_s, [f"windows of {1e3 * window_s:.3g} ms, where {1e3 * usual_s:g} are usual, because {because}"]


def _durations(material: Material) -> list[float]:
    """The median duration of each class in seconds."""
    return [float(np.median(of_class)) for of_class in material.durations_s.values()]


def _span(material: Material, usual: NoteFrontEnd) -> tuple[float, float, str]:
    """The frequency range in Hz, and why."""
    highest = HIGHEST_SHARE * material.sample_rate
    octaves = np.log2(highest / LOWEST_CHOICE_HZ)
    n_bands = round(BANDS_PER_OCTAVE * octaves)
    shares = _shares(material, n_bands, highest)
    edges = LOWEST_CHOICE_HZ * 2.0 ** (octaves * np.arange(n_bands + 1) / n_bands)
    ratio = usual.high_hz / usual.low_hz
    own = _held(shares, edges, usual.low_hz, usual.high_hz)
    held = np.array([_held(shares, edges, low, ratio * low) for low in edges])
    enough = edges[held >= ENOUGH_SHARE * held.max()]
    low_hz = float(enough[np.abs(np.log(enough / usual.low_hz)).argmin()])
    too_little = LEAVE_UPWARDS if low_hz > usual.low_hz else LEAVE_DOWNWARDS
    if not shares.any():
        return usual.low_hz, usual.high_hz, f"they hardly rise above noise: {_listens(usual.low_hz, usual.high_hz)}"
    if own >= too_little * held.max():
        lower, upper = np.interp(
            [OUTSIDE_SHARE, 1.0 - OUTSIDE_SHARE], np.concatenate([[0.0], np.cumsum(shares)]), edges
        )
        found = f"most of their sound lies between {lower:.0f} and {upper:.0f} Hz"
        span = (
            f"the usual span, {usual.low_hz:.0f} to {usual.high_hz:.0f} Hz, holds {100 * own:.0f} % of it and is kept"
        )
        return usual.low_hz, usual.high_hz, f"{found}; {span}"
    high_hz = min(ratio * low_hz, highest)
    found = f"only {100 * own:.0f} % of their sound lies between {usual.low_hz:.0f} and {usual.high_hz:.0f} Hz"
    return (
        low_hz,
        high_hz,
        f"{found}: {_listens(low_hz, high_hz)}, where {100 * _held(shares, edges, low_hz, high_hz):.0f} % lies",
    )


def _listens(low_hz: float, high_hz: float) -> str:
    return f"it listens from {low_hz:.0f} to {high_hz:.0f} Hz"


def _shares(material: Material, n_bands: int, highest: float) -> np.ndarray:
    """How the sound of the notes is distributed over the bands, (n_bands,), by the mean rise above the noise in dB.

    Every class counts the same, by the median of its notes. Sound that is also present between the notes of a
    recording does not count.
    """
    settings = SpectrumSettings(low_hz=LOWEST_CHOICE_HZ, high_hz=highest, n_bands=n_bands)
    spectrum = Spectrum(settings, material.sample_rate)
    profiles: dict[object, list[np.ndarray]] = {}
    for recording, segments in zip(material.recordings, material.segments, strict=True):
        if segments:
            rises = _rises(spectrum, recording, material.clips)
            between = rises[~_annotated(len(rises), segments, spectrum.hop)]
            usual = between.mean(axis=0) if len(between) and not material.clips else 0.0
            for s in segments:
                first = min(s.start // spectrum.hop, len(rises) - 1)
                inside = rises[first : max(first + 1, s.end // spectrum.hop)]
                profiles.setdefault(s.label, []).append(np.maximum(inside.mean(axis=0) - usual, 0.0))
    classes = [np.median(of_class, axis=0) for of_class in profiles.values()]
    clear = [profile / profile.sum() for profile in classes if profile.max() >= LEAST_RISE_DB]
    shares = np.sum(clear, axis=0) if clear else np.zeros(n_bands)
    return shares / shares.sum() if shares.any() else shares


class _RiseSource(SpectrumSource):
    """Frames whose features are the rise of each group of bands above the noise, in dB, or 0."""

    def _above(self, floors: np.ndarray) -> Frames:
        levels, floors = self._next(floors)
        rises = np.maximum(self._spectrum.rise(levels, floors) - self._spectrum.noise_db, 0.0)
        return Frames(rises, np.zeros(len(rises)))


def _rises(spectrum: Spectrum, recording: np.ndarray, clips: bool) -> np.ndarray:
    source = _RiseSource(spectrum, clips=clips)
    return joined([source.push(recording), source.finish()]).features


def _annotated(n_frames: int, segments: Sequence[Segment], hop: int) -> np.ndarray:
    """Which frames lie in an annotated note, (n_frames,) of bool."""
    annotated = np.zeros(n_frames, dtype=bool)
    for s in segments:
        annotated[s.start // hop : s.end // hop + 1] = True
    return annotated


def _held(shares: np.ndarray, edges: np.ndarray, low_hz: float, high_hz: float) -> float:
    """The share of the sound between two frequencies."""
    up_to = np.interp([low_hz, high_hz], edges, np.concatenate([[0.0], np.cumsum(shares)]))
    return float(up_to[1] - up_to[0])
