"""A figure of an excerpt of a recording: spectrogram, scores, detected notes and true notes.

Only the excerpt is read, with as much around it as a detector needs (`with_surroundings`).
"""

import math
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from outlark.annotations import Annotation, Table
from outlark.audio.recording import Recording, as_recording
from outlark.audio.sound_files import without_sound_suffix
from outlark.commands.panels import Detected, View, draw
from outlark.detection.detector import BLOCK_SAMPLES, NoteDetector
from outlark.errors import AnnotationError, InputError
from outlark.estimators.open_set import is_number
from outlark.features.base import FrontEnd
from outlark.features.noise_floor import ENOUGH_FRAMES_PER_SECOND, LevelFloor
from outlark.segments import Segment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Longest excerpt by default, and at all: nobody can see notes in a longer one. Seconds.
USUAL_EXCERPT_S, MAX_EXCERPT_S = 60.0, 3600.0
#: `outlark plot` shows this many seconds by default, this many of them before the first note.
SHOWN_S, BEFORE_S = 10.0, 1.0
#: The noise floor looks this many seconds back and ahead, in chunks of one second that may start a second earlier.
BACK_S, AHEAD_S = 12.0, 4.0
#: How far to look for the first note.
SEARCHED_S = 600.0


def draw_excerpt(
    detector: NoteDetector,
    recording: ArrayLike | str | PathLike[str],
    start_s: float | None = None,
    end_s: float | None = None,
    *,
    sample_rate: int | None = None,
    channel: int | str = "mix",
    truth: Sequence[Segment | Annotation] = (),
    title: str | None = None,
) -> "Figure":
    """Plot an excerpt of a recording.

    From top to bottom: the spectrogram; the score of each class, with the leading class in bold and thresholds dotted;
    and one lane per class with the detected and, if given, the true notes. The time axis is in seconds of the recording
    and, if the recorder stored it, in clock time. Only the excerpt and its surroundings are read; the segments are
    those of the whole recording. `outlark.commands.figures.save_figure` saves the figure.

    `recording` is a path, or an array (n,) or (n, channels) with its sample rate; by default the excerpt lasts from its
    start for 60 s, or to its end. `channel` is "mix" (the mean of all channels) or counted from 0. The title is by
    default the name of the file.

    >>> from outlark.data.synthetic import SAMPLE_RATE, concatenate, notes
    >>> known = notes(counts={"tuti-F": 4, "cach-Z": 4})
    >>> detector = NoteDetector().fit([n.samples for n in known], [n.label for n in known], SAMPLE_RATE)
    >>> audio, truth = concatenate(notes(seed=1, counts={"cach-Z": 2}), edge_s=0.5, rng=np.random.default_rng(0))
    >>> figure = draw_excerpt(detector, audio, 0.2, 1.0, sample_rate=SAMPLE_RATE, truth=truth)
    >>> [axis.get_ylabel() for axis in figure.axes[:2]]
    ['frequency, kHz', 'score of the best\\ncurrent note']
    """
    check_is_fitted(detector)
    if not detector.front_end_.is_sound:
        raise InputError(
            "only sound can be plotted, and this detector is for series of numbers; plot detector.scores(…)"
        )
    sound = as_recording(recording, sample_rate, channel)
    start, end = _checked_times(start_s, end_s, sound)
    file = Path(recording) if isinstance(recording, str | PathLike) else None
    seen = View(
        sound=sound,
        start_s=start,
        end_s=end,
        top_hz=_highest(detector, sound),
        title=(file.name if file else "") if title is None else title,
        clock=sound.clock if file else None,
    )
    return draw(seen, _found(detector, seen), [note for note in truth if note.start_s < end and note.end_s >= start])


def shown_excerpt(
    detector: NoteDetector,
    path: str | PathLike[str],
    start_s: float | None = None,
    end_s: float | None = None,
    *,
    channel: int | str = "mix",
    searched_s: float = SEARCHED_S,
) -> tuple[float, float, str]:
    """Start and end of the excerpt to plot, in seconds, and why.

    With only one of the two given, it is ten seconds long. With neither, it is ten seconds from one second before the
    first note of the first ten minutes; without a note, the first ten seconds.
    """
    start, end, why = _asked(start_s, end_s) or _around_first_note(detector, path, channel, searched_s)
    return start, end if end < start else max(start, min(end, Recording(path).duration_s)), why


def annotations_of_recording(table: Table, recording: str | PathLike[str]) -> list[Annotation]:
    """The annotations in a file that belong to a recording: those that name it, or that name none.

    >>> annotations = [Annotation(start_s=0, end_s=1, recording=name) for name in ("night/a.wav", "b.wav")]
    >>> table = Table(path=Path("t.csv"), format="csv", annotations=tuple(annotations))
    >>> [annotation.recording for annotation in annotations_of_recording(table, "copy/A.flac")]
    ['night/a.wav']
    """
    wanted = _stem(str(recording))
    found = [m for m in table.annotations if m.recording is None or _stem(m.recording) == wanted]
    if table.annotations and not found:
        others = sorted({str(annotation.recording) for annotation in table.annotations})
        raise AnnotationError(
            f"{table.path}: no annotations of {Path(recording).name}, only of {', '.join(others[:3])}"
            f"{' …' if len(others) > 3 else ''}; give the annotation file of this recording"
        )
    return found


class Surroundings(NamedTuple):
    """Samples of an excerpt with its surroundings, and the sample of the recording at which they start."""

    samples: np.ndarray
    start: int


def with_surroundings(sound: Recording, start_s: float, end_s: float, detector: Any) -> Surroundings:
    """An excerpt from which a detector finds, between two times, the same as in the whole recording."""
    front_end, rate = detector.front_end_, sound.sample_rate
    before, after = (n / detector.sample_rate_ for n in front_end.context_samples_)
    longest_s = float(np.max(detector.layout_.longest_s))
    # chunks are counted from the start of a recording: start where all of them start anew
    grain_s = _grain(front_end) / detector.sample_rate_
    n_grains = max(0, math.floor((start_s - BACK_S - before - longest_s) / grain_s))
    start = round(n_grains * grain_s * rate)
    end = math.ceil((end_s + AHEAD_S + after + 2 * longest_s) * rate)
    return Surroundings(sound.part(start, end), start)


def _grain(front_end: FrontEnd) -> int:
    """In samples: as many chunks of the noise floor as keep its thinning, and every second frame, in step."""
    frame_rate = front_end.frame_rate
    thinning = max(1, int(frame_rate // ENOUGH_FRAMES_PER_SECOND))
    return math.lcm(LevelFloor(frame_rate).chunk, 2 * thinning) * front_end.hop_samples_


def _found(detector: NoteDetector, seen: View) -> Detected:
    """The scores and segments around the excerpt, in seconds of the recording."""
    around = with_surroundings(seen.sound, seen.start_s, seen.end_s, detector)
    offset_s = around.start / seen.sound.sample_rate
    scores, found = detector.scores_and_segments(around.samples, seen.sound.sample_rate)
    segments = [
        (segment.start_s + offset_s, segment.end_s + offset_s, segment)
        for segment in found
        if segment.start_s + offset_s < seen.end_s and segment.end_s + offset_s > seen.start_s
    ]
    return Detected(scores=scores, times_s=scores.times_s + offset_s, segments=segments)


def _highest(detector: NoteDetector, sound: Recording) -> float:
    """The highest frequency to show: a little above what the detector uses, as far as the recording has it."""
    limits = [sound.sample_rate / 2, detector.sample_rate_ / 2]
    band_hz = detector.front_end_.band_hz
    return float(min([*limits, 1.2 * band_hz[1]] if band_hz else limits))


def _checked_times(start_s: Any, end_s: Any, sound: Recording) -> tuple[float, float]:
    for name, value in (("start_s", start_s), ("end_s", end_s)):
        if value is not None and (not is_number(value) or not math.isfinite(value) or value < 0):
            raise InputError(f"{name}={value!r} must be a number of seconds, 0 or more")
    start = 0.0 if start_s is None else float(start_s)
    end = start + USUAL_EXCERPT_S if end_s is None else float(end_s)
    if start >= sound.duration_s:
        raise InputError(f"--start {start:g}, but the recording is {sound.duration_s:.3f} s long; give an earlier time")
    if round((min(end, sound.duration_s) - start) * sound.sample_rate) < 1:
        raise InputError(f"--end {end:g} is not after --start {start:g}; give a later end")
    end = min(end, sound.duration_s)
    if end - start > MAX_EXCERPT_S:
        raise InputError(f"{end - start:.0f} s are too much for one figure; give at most {MAX_EXCERPT_S:.0f} s")
    return start, end


def _asked(start_s: float | None, end_s: float | None) -> tuple[float, float, str] | None:
    if start_s is not None and end_s is not None:
        return start_s, end_s, "from --start to --end"
    if start_s is not None:
        return start_s, start_s + SHOWN_S, "ten seconds from the given start"
    if end_s is not None:
        return max(0.0, end_s - SHOWN_S), end_s, "ten seconds up to the given end"
    return None


def _around_first_note(
    detector: NoteDetector, path: str | PathLike[str], channel: int | str, searched_s: float
) -> tuple[float, float, str]:
    first = _first_note_s(detector, path, channel, searched_s)
    if first is None:
        return 0.0, SHOWN_S, f"no note in the first {searched_s / 60:g} minutes; the first ten seconds"
    start = max(0.0, first - BEFORE_S)
    return start, start + SHOWN_S, "from one second before the first note"


def _first_note_s(
    detector: NoteDetector, path: str | PathLike[str], channel: int | str, searched_s: float
) -> float | None:
    audio = Recording(path, channel)
    stream = detector.stream(audio.sample_rate)
    for block in audio.blocks(BLOCK_SAMPLES):
        found = [segment for segment in stream.push(block).segments if segment.label is not None]
        if found:
            return found[0].start_s
        if stream.n_samples > searched_s * audio.sample_rate:
            return None
    found = [segment for segment in stream.finish().segments if segment.label is not None]
    return found[0].start_s if found else None


def _stem(name: str) -> str:
    return without_sound_suffix(name.replace("\\", "/").rsplit("/", 1)[-1]).casefold()
