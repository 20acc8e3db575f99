"""Which stretch of a recording a picture shows when nobody says, and the marks of a table that belong to it."""

from os import PathLike
from pathlib import Path

from outlark.annotations import Mark, Table
from outlark.audio.sound import AudioFile
from outlark.audio.sound_files import without_sound_suffix
from outlark.commands.excerpt import Sound
from outlark.detection.detector import BLOCK, NoteDetector
from outlark.errors import AnnotationError

#: So many seconds are shown, and so many of them before the first note.
SHOWN_S, BEFORE_S = 10.0, 1.0
#: How far to look for a note.
SEARCHED_S = 600.0


def shown_stretch(
    detector: NoteDetector,
    path: str | PathLike[str],
    start_s: float | None = None,
    end_s: float | None = None,
    *,
    channel: int | str = "mix",
    searched_s: float = SEARCHED_S,
) -> tuple[float, float, str]:
    """From when to when, in seconds, and why.

    What is given is kept. With one of the two it is ten seconds. With none it is ten seconds from a second before the
    first note on, which is looked for in the first ten minutes; without a note, the first ten seconds.

    Parameters
    ----------
    detector : NoteDetector, fitted
    path : path of the recording
    start_s, end_s : float, optional
    channel : "mix" or int
        Counted from 0.
    searched_s : float
        How far to look for a note.

    Examples
    --------
    >>> import numpy, soundfile
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     soundfile.write(f"{folder}/night.wav", numpy.zeros(60 * 1000), 1000)
    ...     shown_stretch(NoteDetector(), f"{folder}/night.wav", end_s=25.0)
    (15.0, 25.0, 'the ten seconds before the end that was given')
    """
    start, end, why = _asked(start_s, end_s) or _around_first_note(detector, path, channel, searched_s)
    return start, max(start, min(end, Sound(path).duration_s)), why


def marks_of_recording(table: Table, recording: str | PathLike[str]) -> list[Mark]:
    """The marks of a table that are about a recording: by the name that they give, or all if they give none.

    Raises
    ------
    AnnotationError
        If all of them are about others.

    Examples
    --------
    >>> marks = [Mark(start_s=0, end_s=1, recording=name) for name in ("night/a.wav", "b.wav")]
    >>> table = Table(path=Path("t.csv"), format="csv", marks=tuple(marks))
    >>> [mark.recording for mark in marks_of_recording(table, "copy/A.flac")]
    ['night/a.wav']
    """
    wanted = _stem(str(recording))
    found = [mark for mark in table.marks if mark.recording is None or _stem(mark.recording) == wanted]
    if table.marks and not found:
        others = sorted({str(mark.recording) for mark in table.marks})
        raise AnnotationError(
            f"{table.path}: no marks of {Path(recording).name}; its marks are of {', '.join(others[:3])}"
            f"{' …' if len(others) > 3 else ''}; give the table of this recording"
        )
    return found


def _asked(start_s: float | None, end_s: float | None) -> tuple[float, float, str] | None:
    if start_s is not None and end_s is not None:
        return start_s, end_s, "as given"
    if start_s is not None:
        return start_s, start_s + SHOWN_S, "ten seconds from the start that was given"
    if end_s is not None:
        return max(0.0, end_s - SHOWN_S), end_s, "the ten seconds before the end that was given"
    return None


def _around_first_note(
    detector: NoteDetector, path: str | PathLike[str], channel: int | str, searched_s: float
) -> tuple[float, float, str]:
    first = _first_note_s(detector, path, channel, searched_s)
    if first is None:
        return 0.0, SHOWN_S, f"no note in the first {searched_s / 60:g} minutes; the first ten seconds"
    start = max(0.0, first - BEFORE_S)
    return start, start + SHOWN_S, "from a second before the first note"


def _stem(name: str) -> str:
    return without_sound_suffix(name.replace("\\", "/").rsplit("/", 1)[-1]).casefold()


def _first_note_s(
    detector: NoteDetector, path: str | PathLike[str], channel: int | str, searched_s: float
) -> float | None:
    audio = AudioFile(path, channel)
    stream = detector.stream(audio.sample_rate)
    for block in audio.blocks(BLOCK):
        found = [segment for segment in stream.push(block).segments if segment.label is not None]
        if found:
            return found[0].start_s
        if stream.n_samples > searched_s * audio.sample_rate:
            return None
    found = [segment for segment in stream.finish().segments if segment.label is not None]
    return found[0].start_s if found else None
