"""What tables mark, cut to sound files: one folder for each class, as `outlark train` takes them."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path

from outlark.annotations.delimited import SCORE_DIGITS, TIME_DIGITS, comma_line, decimal, guarded
from outlark.annotations.files import encoded, write_bytes
from outlark.audio.recorder_metadata import RecorderTime, recorder_time
from outlark.commands.clips.clip_choice import Choice, Uncut, verdict_of
from outlark.commands.clips.cutting import Reel
from outlark.commands.train.file_names import Names, safe_name
from outlark.errors import AudioError, InputError, OutlarkError
from outlark.features.noise_floor import check_seconds
from outlark.version import __version__

#: Longer marks are no clips.
LONGEST_S = 600.0
#: The list of clips. No reader of tables takes it for one: a folder of clips that held a table would be two things.
COLUMNS = (
    "clip", "label", "verdict", "score", "recording", "from_s", "to_s", "clip_from_s", "clip_to_s", "clock", "table",
    "line",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Clip:
    """A clip that was cut.

    Attributes
    ----------
    file : str
        In the folder of the clips, with "/" on every system.
    choice : Choice
    start_s, end_s : float
        Of the clip in the recording.
    clock : str
        When its note began, ISO 8601, as the recorder's clock had it; empty if nothing tells.
    exact : bool
        Whether its samples are those of the recording.
    """

    file: str
    choice: Choice
    start_s: float
    end_s: float
    clock: str = ""
    exact: bool = True


def cut(
    choices: Sequence[Choice],
    folder: str | os.PathLike[str],
    *,
    pad_s: float = 0.0,
    format: str | None = None,
    watch: Callable[[int], None] = lambda done: None,
) -> tuple[list[Clip], list[Uncut]]:
    """Cut clips to files: folder / class / recording_begin.

    Only what is needed of each recording is read, and sample rate and sample format are kept. A mark with a channel
    gives a clip of that channel, others one of all channels.

    Parameters
    ----------
    choices : sequence of Choice
        By recording and time, as `choose` gives them.
    folder : path
        Made if needed; files of the same names are replaced.
    pad_s : float
        More of the recording, before and after the mark.
    format : "wav" or "flac", optional
        As the recording if that is FLAC, else WAV.
    watch : function
        Called with the number of recordings that are done.

    Returns
    -------
    clips : list of Clip
    uncut : list of Uncut
        What no clip could be made of.
    """
    pad_s = check_seconds("pad_s", pad_s, zero=True)
    folder, names, folders = Path(folder), Names(), _folders(choices)
    clips: list[Clip] = []
    uncut: list[Uncut] = []
    for done, (recording, of_recording) in enumerate(groupby(choices, key=lambda choice: choice.recording), start=1):
        listed = list(of_recording)
        try:
            clock = recorder_time(recording)
            with Reel(recording, format) as reel:
                for choice in listed:
                    try:
                        target = folder / folders[choice.known, choice.kind]
                        clips.append(_cut_one(reel, choice, target, pad_s, clock, names))
                    except (InputError, AudioError) as error:
                        uncut.append(Uncut(str(choice), str(error)))
        except OutlarkError as error:
            uncut.append(Uncut(str(recording), str(error)))
        watch(done)
    return clips, uncut


def _cut_one(reel: Reel, choice: Choice, folder: Path, pad_s: float, clock: RecorderTime | None, names: Names) -> Clip:
    mark, rate = choice.mark, reel.sample_rate
    start, end = round(max(0.0, mark.start_s - pad_s) * rate), round((mark.end_s + pad_s) * rate)
    if end <= start:
        raise InputError("a point label, without a length; give pad_s (--pad) to cut what is around it")
    if end - start > LONGEST_S * rate:
        raise InputError(f"{(end - start) / rate:.0f} s long, and a clip has at most {LONGEST_S:.0f} s")
    part = reel.part(start, end)
    if not len(part) or start + len(part) <= mark.start_s * rate:
        raise InputError("the recording ends before it; do table and recording belong together?")
    if mark.channel is not None:
        if mark.channel > reel.channels:
            raise InputError(f"it is in channel {mark.channel}, and the recording has {reel.channels}")
        part = part[:, [mark.channel - 1]]
    told = None if clock is None else clock.at(mark.start_s)
    name = f"{safe_name(choice.recording.stem)}_{mark.start_s:09.3f}s{'' if told is None else _in_name(told)}"
    file = names.new(f"{folder.name}/{name}", f".{reel.storage.kind}")
    folder.mkdir(parents=True, exist_ok=True)
    reel.save(part, folder.parent / file, _comment(choice, start / rate, clock))
    return Clip(
        file=file,
        choice=choice,
        start_s=start / rate,
        end_s=(start + len(part)) / rate,
        clock="" if told is None else told.isoformat(timespec="milliseconds"),
        exact=reel.storage.exact,
    )


def write_list(path: str | os.PathLike[str], clips: Iterable[Clip]) -> None:
    """A table of clips: what was cut from where."""
    lines = [comma_line(list(COLUMNS))]
    for clip in clips:
        mark = clip.choice.mark
        texts = (clip.file, mark.label or "", verdict_of(mark))
        times = (mark.start_s, mark.end_s, clip.start_s, clip.end_s)
        cells = [
            *map(guarded, texts),
            decimal(mark.score, SCORE_DIGITS),
            guarded(str(clip.choice.recording)),
            *(decimal(time, TIME_DIGITS) for time in times),
            clip.clock,
            guarded(str(clip.choice.table)),
            "" if mark.line is None else str(mark.line),
        ]
        lines.append(comma_line(cells))
    write_bytes(Path(path), encoded("".join(lines)))


def _in_name(moment: datetime) -> str:
    return f"_{moment:%Y%m%dT%H%M%S}.{moment.microsecond // 1000:03}{moment:%z}"


def _comment(choice: Choice, start_s: float, clock: RecorderTime | None) -> str:
    """What the clip says of itself: when it began, in words that `recorder_time` understands, and where it is from."""
    told = ""
    if clock is not None:
        began = clock.at(start_s)
        told = f"Recorded at {began:%H:%M:%S}.{began.microsecond // 1000:03} {began:%d/%m/%Y}{_zone(began)}. "
    return f"{told}Cut by outlark {__version__} from {choice.recording.name} at {start_s:.3f} s"


def _zone(moment: datetime) -> str:
    offset = moment.utcoffset()
    if offset is None:
        return ""
    minutes = abs(offset) // timedelta(minutes=1)
    return f" (UTC{'-' if offset < timedelta(0) else '+'}{minutes // 60}:{minutes % 60:02})"


def _folders(choices: Iterable[Choice]) -> dict[tuple[bool, str], str]:
    """The folder of each class and verdict; a class that is called "unknown" gets the folder of that name."""
    names = Names()
    kinds = sorted({(choice.known, choice.kind) for choice in choices}, key=lambda kind: (not kind[0], kind[1]))
    return {kind: names.new(safe_name(kind[1])) for kind in kinds}
