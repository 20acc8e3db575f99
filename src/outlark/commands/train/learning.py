"""Training a detector on examples in files: clips, or annotated recordings."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from outlark.audio.margins import Part, is_long, without_quiet
from outlark.audio.wav_header import cut_short
from outlark.commands.train.examples import Examples
from outlark.commands.train.negatives import reject
from outlark.commands.train.sounds import Clip, hear, margin
from outlark.detection.detector import NoteDetector
from outlark.errors import AudioError, InputError
from outlark.plain_text import number_of

#: Notes are rarely longer than this.
LONG_NOTE_S = 5.0
#: More sound than this needs gigabytes of memory.
MUCH_S = 3600.0


@dataclass(frozen=True)
class Unheard:
    """A clip that cannot be read, and why."""

    path: Path
    message: str


@dataclass(frozen=True)
class ClassSummary:
    """One class: the number of notes, files and negatives, the durations, and the threshold."""

    label: str
    examples: int
    recordings: int
    shortest_s: float
    longest_s: float
    threshold: float
    negatives: int = 0


@dataclass(frozen=True, kw_only=True)
class Learnt:
    """A trained detector, the examples it learnt from, the seconds of sound, remarks, and unreadable clips."""

    detector: NoteDetector
    examples: Examples
    seconds: float
    remarks: tuple[str, ...] = ()
    unheard: tuple[Unheard, ...] = ()

    @property
    def classes(self) -> list[ClassSummary]:
        """In the order of the detector."""
        layout, found = self.detector.layout_, []
        for c, label in enumerate(layout.classes.tolist()):
            own = [note for note in self.examples.notes if note.label == label]
            shortest_s, longest_s, threshold = (
                float(values[c]) for values in (layout.shortest_s, layout.longest_s, layout.thresholds)
            )
            n_negatives = sum(note["label"] == label for note in self.detector.negatives_)
            n_recordings = len({note.recording for note in own})
            found.append(ClassSummary(label, len(own), n_recordings, shortest_s, longest_s, threshold, n_negatives))
        return found


def learn(
    examples: Examples,
    detector: NoteDetector | None = None,
    *,
    channel: int | str = "mix",
    trim: bool = False,
    watch: Callable[[int, int], None] | None = None,
) -> Learnt:
    """Train a detector on examples.

    Parameters
    ----------
    examples : Examples
        From `find_examples`; its negatives are rejected.
    detector : NoteDetector, optional
        Default: with default settings.
    channel : "mix" or int
        The mean of all channels, or one of them, counted from 0.
    trim : bool
        Remove the quiet margins of clips. Digital silence at their ends is always removed.
    watch : function of two numbers, optional
        Called with the number of files read so far and in total.

    Raises
    ------
    AudioError
        For a recording that cannot be read. Clips that cannot be read are skipped unless a class has no others.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import soundfile
    >>> from outlark.experiment.synthetic import SAMPLE_RATE, notes
    >>> from outlark.commands.train.examples import find_examples
    >>> with TemporaryDirectory() as folder:
    ...     for i, note in enumerate(notes(counts={"tuti-F": 3, "cach-Z": 3})):
    ...         Path(folder, note.label).mkdir(exist_ok=True)
    ...         soundfile.write(f"{folder}/{note.label}/{i}.wav", note.samples, SAMPLE_RATE)
    ...     learnt = learn(find_examples([folder]))
    >>> [(of.label, of.examples) for of in learnt.classes]
    [('cach-Z', 3), ('tuti-F', 3)]
    """
    detector = NoteDetector() if detector is None else detector
    watch = watch or (lambda done, total: None)
    if examples.clips:
        heard = _learn_clips(examples, detector, channel, trim, watch)
    elif trim:
        raise InputError("--trim is for clips; annotations say where their notes start and end: omit it")
    else:
        heard = _learn_annotations(examples, detector, channel, watch)
    rejected = reject(detector, examples.negatives, channel, watch)
    heard = replace(heard, remarks=(*heard.remarks, *rejected))
    return replace(heard, remarks=(*examples.remarks, *_cut_short(heard.examples), *heard.remarks, *_odd(heard)))


# ---------------------------------------------------------------------- clips


def _learn_clips(
    examples: Examples, detector: NoteDetector, channel: int | str, trim: bool, watch: Callable[[int, int], None]
) -> Learnt:
    clips: list[Clip] = []
    unheard: list[Unheard] = []
    for number, note in enumerate(examples.notes, start=1):
        try:
            clips.append(Clip.of(note, channel))
        except AudioError as error:
            unheard.append(Unheard(note.recording, str(error)))
        watch(number, len(examples.notes))
    lost = sorted(set(examples.labels) - {clip.note.label for clip in clips})
    if lost:
        raise AudioError(f"no clip of the class {lost[0]!r} can be read: {unheard[0].message}")
    remarks = _on_silence(clips)
    trimmed = [_trimmed(clip) for clip in clips]
    remarks += _on_margins(clips, trimmed, trim)
    used, rates = trimmed if trim else clips, [clip.rate for clip in clips]
    detector.fit([clip.heard for clip in used], [clip.note.label for clip in used], rates)
    for record, clip in zip(detector.training_, used, strict=True):
        clip.put_in_place(record)
    return Learnt(
        detector=detector,
        examples=replace(examples, notes=tuple(clip.note for clip in used)),
        seconds=sum(len(clip.heard) / clip.rate for clip in used),
        remarks=(*remarks, *_on_rates(rates)),
        unheard=tuple(unheard),
    )


def _trimmed(clip: Clip) -> Clip:
    part = without_quiet(clip.heard, clip.rate)
    return replace(clip, part=Part(clip.part.start + part.start, clip.part.start + part.end))


def _on_silence(clips: Sequence[Clip]) -> list[str]:
    cut = [clip for clip in clips if clip.cut_s]
    if not cut:
        return []
    most = max(cut, key=lambda clip: clip.cut_s)
    return [
        f"digital silence at the ends of {number_of(len(cut), 'clip')} removed, such as "
        f"{most.cut_s:.3f} s of {most.note.recording.name} ({most.note.label})"
    ]


def _on_margins(clips: Sequence[Clip], trimmed: Sequence[Clip], trim: bool) -> list[str]:
    """What was trimmed, or is so long that it should be."""
    cuts = [(new.cut_s - clip.cut_s, clip) for clip, new in zip(clips, trimmed, strict=True)]
    if trim:
        cut = [(cut_s, clip) for cut_s, clip in cuts if cut_s]
        what, then = "trimmed", ""
    else:
        pairs = zip(cuts, trimmed, strict=True)
        cut = [(cut_s, clip) for (cut_s, clip), new in pairs if is_long(new.part, len(clip.heard), clip.rate)]
        what, then = "with quiet margins longer than the note", "; outlark train … --trim removes them"
    if not cut:
        return []
    cut_s, clip = max(cut, key=lambda pair: pair[0])
    of = f"{cut_s:.3f} of {len(clip.heard) / clip.rate:.3f} s of {clip.note.recording.name} ({clip.note.label})"
    return [f"{number_of(len(cut), 'clip')} {what}, such as {of}{then}"]


# ---------------------------------------------------------------- annotations


def _learn_annotations(
    examples: Examples, detector: NoteDetector, channel: int | str, watch: Callable[[int, int], None]
) -> Learnt:
    heard = hear(examples.notes, channel, watch)
    detector.fit_recordings([s.samples for s in heard.stretches], [s.notes for s in heard.stretches], heard.rates)
    heard.put_in_place(detector.training_)
    said = f"used {heard.seconds:.0f} s around the annotations, out of {heard.there_s:.0f} s of recordings"
    part = [said] if margin(heard.there_s, len(examples.notes)) is not None else []
    remarks = (*heard.beyond, *part, *_on_rates(heard.rates))
    return Learnt(detector=detector, examples=examples, seconds=heard.seconds, remarks=remarks)


# -------------------------------------------------------------------- remarks


def _on_rates(rates: Sequence[int]) -> list[str]:
    if len(set(rates)) < 2:
        return []
    return [f"sample rates from {min(rates)} to {max(rates)} Hz; everything is resampled to {min(rates)} Hz"]


def _cut_short(examples: Examples) -> Iterator[str]:
    """Which recordings are shorter than their headers state."""
    for path in dict.fromkeys(note.recording for note in examples.notes):
        short = cut_short(path)
        if short is not None:
            yield f"{path.name}: {short}"


def _odd(heard: Learnt) -> Iterator[str]:
    training = heard.detector.training_
    long = [record for record in training if record["end_s"] - record["start_s"] > LONG_NOTE_S]
    if long:
        worst = max(long, key=lambda record: record["end_s"] - record["start_s"])
        what = number_of(len(long), "clip" if heard.examples.clips else "annotation")
        yield (
            f"{what} longer than {LONG_NOTE_S:g} s: {worst['name']} ({worst['label']}) "
            f"{worst['end_s'] - worst['start_s']:.1f} s; is it one note?"
        )
    twice = [sha for sha, n in Counter(record["sha256"] for record in training).items() if n > 1]
    for sha in twice:
        first, second = [record for record in training if record["sha256"] == sha][:2]
        yield (
            f"the same sound twice: {first['name']} at {first['start_s']:.3f} s ({first['label']}) and "
            f"{second['name']} at {second['start_s']:.3f} s ({second['label']}); keep one of them"
        )
    if heard.seconds > MUCH_S:
        yield f"{heard.seconds / 3600:.1f} h of sound were used; fewer examples (--max-examples) need less memory"
