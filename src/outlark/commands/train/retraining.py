"""Training a model again: what it was made from, and what somebody has confirmed or rejected since.

The recordings of its examples have to be there (`model_examples`). Only where nothing but negatives is
new, they are not needed.
"""

import hashlib
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from outlark.annotations import Mark
from outlark.audio.sound_files import is_sound, sounds_within
from outlark.commands.excerpt import Sound
from outlark.commands.train.corrections import Files, rejections, settled
from outlark.commands.train.examples import Example, Examples, at_most, find_examples, in_order
from outlark.commands.train.learning import Learnt, learn
from outlark.commands.train.negatives import covers, pairs, reject, told_apart
from outlark.detection.detector import NoteDetector
from outlark.errors import InputError
from outlark.plain_text import number_of
from outlark.verdict_names import UNKNOWN


@dataclass(frozen=True, kw_only=True)
class Parent:
    """A model that is trained again.

    Attributes
    ----------
    path : Path
    sha256 : str
        Of the file.
    detector : NoteDetector
        As it was loaded.
    """

    path: Path
    sha256: str
    detector: NoteDetector

    @property
    def classes(self) -> list[str]:
        return [str(label) for label in self.detector.classes_.tolist()]


def examples_of(parent: Parent, folders: Iterable[str | os.PathLike[str]], channel: int | str = "mix") -> Examples:
    """The examples and the negatives of a model, in the recordings that they are from.

    Parameters
    ----------
    parent : Parent
    folders : paths
        That hold the recordings, with all folders within; also looked for beside the model.
    channel : "mix" or int

    Raises
    ------
    InputError
        If a recording is missing, or holds something else; the message names all of them.
    """
    detector = parent.detector
    if not all(isinstance(label, str) for label in detector.classes_.tolist()):
        raise InputError(f"the classes of {parent.path} are numbers, not names: train it again in Python")
    looked_in = list(dict.fromkeys(map(Path, folders)))
    files: dict[str, dict[str, Path]] = defaultdict(dict)
    beside = (path for path in sorted(parent.path.parent.iterdir()) if is_sound(path.name) and path.is_file())
    for path in (*(file for folder in looked_in for file in sounds_within(folder)), *beside):
        files[path.name.casefold()].setdefault(os.path.realpath(path), path)
    wanted = [*detector.training_, *detector.negatives_]
    found = [_found(note, list(files[str(note["name"]).casefold()].values()), parent, channel) for note in wanted]
    lost = [note for note, path in zip(wanted, found, strict=True) if path is None]
    if lost:
        raise InputError(_lost(lost, parent, files, [*looked_in, parent.path.parent]))
    examples = [
        replace(named_example(note), recording=path, table=parent.path)
        for note, path in zip(wanted, found, strict=True)
        if path is not None
    ]
    n = len(detector.training_)
    clips = any(note.get("clip", False) for note in detector.training_)
    return Examples(notes=tuple(examples[:n]), negatives=tuple(examples[n:]), clips=clips)


def _found(note: Mapping[str, Any], files: Sequence[Path], parent: Parent, channel: int | str) -> Path | None:
    """The file that holds a training note: by its digest, or where that is of resampled sound the only one there is."""
    unsure = []
    for path in files:
        sound = Sound(path, channel=channel)
        rate = sound.sample_rate
        start, end = round(note["start_s"] * rate), round(note["end_s"] * rate)
        if rate != parent.detector.sample_rate_:
            unsure += [path] if end <= sound.n_samples else []
        elif hashlib.sha256(sound.part(start, end).astype("<f8").tobytes()).hexdigest() == note["sha256"]:
            return path
    return unsure[0] if len(unsure) == 1 else None


def _lost(lost: Sequence[Mapping[str, Any]], parent: Parent, files: Mapping[str, Any], folders: Sequence[Path]) -> str:
    """Which recordings are missing, and which hold something else."""
    counts = Counter(note["name"] for note in lost)
    missing: list[str] = []
    others: list[str] = []
    for name, n in counts.items():
        there = len(files[name.casefold()]) if name is not None else 0
        more = f"; {there} files are called so" if there > 1 else ""
        (others if there else missing).append(f"{name or 'arrays, not files'} ({number_of(n, 'note')}{more})")
    said = [f"not there: {', '.join(missing)}"] if missing else []
    said += [f"there, but not with the sound that it was trained on: {', '.join(others)}"] if others else []
    return (
        f"recordings that {parent.path} was trained on are {'; '.join(said)}. They were looked for in "
        f"{', '.join(map(str, dict.fromkeys(folders)))}; name the folder that holds them (--audio) and the --channel "
        "that it was trained on, or train on the corrected annotations alone, without --from"
    )


def named_example(note: Mapping[str, Any]) -> Example:
    """A training note as the model file tells it."""
    bounds = {name: note[name] for name in ("low_hz", "high_hz") if name in note}
    mark = Mark(start_s=note["start_s"], end_s=note["end_s"], label=str(note["label"]), **bounds)
    return Example(
        label=str(note["label"]), recording=Path(note["name"] or f"recording {note['recording']}"), mark=mark
    )


#: Examples of a class that are learnt from where nobody says how many, but never fewer than the model had; and new
#: negatives of a class.
USUAL, USUAL_NEGATIVES = 20, 100


def reviewed(
    parent: Parent,
    corrected_in: Sequence[str | os.PathLike[str]],
    *,
    found_in: Sequence[str | os.PathLike[str]] = (),
    named: Sequence[str] = (),
    **tables: Any,
) -> Examples:
    """What corrected annotation files say: notes, which are confirmed or new, and negatives.

    Parameters
    ----------
    parent : Parent
    corrected_in : paths
        Corrected annotation files, or folders of them. What is labelled counts as gone through; a label over a row
        that was called unknown is one that somebody has given it.
    found_in : paths
        The same as `outlark detect` wrote them: what is not there any more, or has another label, is a negative.
    named : sequence of str
        Names of classes that were given.
    **tables
        `audio`, `format` and `label_column` of `find_examples`.
    """
    if not corrected_in:
        return Examples(notes=(), clips=False)
    corrected = Files.of(find_examples(corrected_in, any_verdict=True, may_be_none=True, **tables), corrected_in)
    found = Files.of(find_examples(found_in, any_verdict=True, **tables), found_in) if found_in else None
    rows = settled(corrected, found)
    rows = replace(rows, notes=tuple(map(_labelled_by_hand, rows.notes)))
    examples = told_apart(rows, classes=parent.classes, named=named)
    if found is None:
        return examples
    # what is still called ambiguous is no example, and was not rejected either
    rejected = rejections(found, corrected._replace(examples=replace(examples, notes=rows.notes)))
    known = {*parent.classes, *examples.labels}
    negatives = tuple(note for note in rejected.negatives if note.label in known)
    return replace(
        examples, negatives=(*examples.negatives, *negatives), remarks=(*examples.remarks, *rejected.remarks)
    )


def retrain(
    parent: Parent,
    new: Examples,
    *,
    audio: Iterable[str | os.PathLike[str]] = (),
    max_examples: int | None = None,
    channel: int | str = "mix",
    watch: Callable[[int, int], None] | None = None,
) -> Learnt:
    """Train a model again, with its settings, on its own examples and on new ones.

    Parameters
    ----------
    parent : Parent
        Its detector is the one that is trained.
    new : Examples
        From `reviewed`. Where they contradict an example or a negative of the model, they count.
    audio : paths
        Folders that hold the recordings that the model was trained on. They are also looked for beside it, and beside
        the recordings of the new examples.
    max_examples : int, optional
        Of each class: those of the model, and of the new ones so many that are missing, spread evenly over them; as
        many new negatives at most. By default `USUAL` and `USUAL_NEGATIVES`.
    channel, watch
        As for `learn`.

    Raises
    ------
    InputError
        If recordings that the model was trained on are missing, or are others now; the message names them.
    """
    if not new.notes and not new.negatives:
        raise InputError("nothing is new: neither notes nor negatives; give corrected annotation files, or --negative")
    detector, before = parent.detector, list(parent.detector.lineage_)
    negatives = at_most(in_order(new.negatives), USUAL_NEGATIVES if max_examples is None else max_examples)
    own = Examples(notes=tuple(map(named_example, detector.training_)), clips=False)
    if new.notes or _contradicted(own.notes, new.negatives):
        old = examples_of(parent, [*audio, *_beside(new)], channel)
        kept, added, remarks = joined(old, new, USUAL if max_examples is None else max_examples)
        if detector.calibration_:
            remarks.append(f"{parent.path.name} was calibrated, and its thresholds are learnt anew: calibrate again")
        notes, rejected = in_order([*kept.notes, *added]), (*kept.negatives, *negatives)
        examples = replace(kept, notes=notes, negatives=rejected, remarks=(*new.remarks, *remarks))
        learnt = learn(examples, detector, channel=channel, watch=watch)
    else:
        kept, added = own, ()
        remarks = reject(detector, negatives, channel, watch or (lambda done, total: None))
        learnt = Learnt(detector=detector, examples=own, seconds=0.0, remarks=(*new.remarks, *remarks))
    counts = {"kept": len(kept.notes), "added": len(added), "negatives": len(negatives)}
    detector.lineage_ = [*before, {"name": parent.path.name, "sha256": parent.sha256, **counts}]
    return replace(learnt, remarks=(*learnt.remarks, _in_all(detector.lineage_[-1], len(new.negatives))))


def _in_all(line: Mapping[str, Any], n_negatives: int) -> str:
    """How many examples and negatives were taken from where."""
    told = (
        f"{number_of(line['kept'] + line['added'], 'example')}: {line['kept']} of {line['name']}, {line['added']} new"
    )
    told += f"; {number_of(line['negatives'], 'new negative')}"
    return told if line["negatives"] == n_negatives else f"{told} of {n_negatives}, --max-examples takes more"


def _beside(new: Examples) -> list[Path]:
    """The folders that hold new recordings."""
    return sorted({note.recording.parent for note in (*new.notes, *new.negatives)})


def _contradicted(notes: Sequence[Example], negatives: Sequence[Example]) -> bool:
    """Whether a negative is about an example, by the names of their recordings alone."""
    of_name = defaultdict(list)
    for note in notes:
        of_name[note.recording.name, note.label].append(note)
    return any(covers(note, n) for n in negatives for note in of_name[n.recording.name, n.label])


def joined(old: Examples, new: Examples, limit: int) -> tuple[Examples, tuple[Example, ...], list[str]]:
    """What is kept of a model's examples, what is added of the new ones, and what is to be said of it.

    Raises
    ------
    InputError
        For clips to a model of recordings, and where nothing is left of a class.
    """
    if new.clips and not old.clips:
        raise InputError("the model was trained on recordings, and these are clips; give annotation files")
    again = {note.key for note, _ in pairs(old.notes, new.notes)}
    gone = {note.key for note, _ in pairs(old.notes, new.negatives)}
    gone |= {note.key for note, _ in pairs(old.notes, new.notes, any_label=True)} - again
    back = {note.key for note, _ in pairs(old.negatives, new.notes)}
    kept = replace(
        old,
        notes=tuple(note for note in old.notes if note.key not in gone),
        negatives=tuple(note for note in old.negatives if note.key not in back),
    )
    repeated = {note.key for note, _ in pairs(new.notes, kept.notes)}
    fresh = [note for note in new.notes if note.key not in repeated]
    remarks = [
        f"{note} was an example of {note.label!r}, which the new annotations contradict: it is not one any more"
        for note in old.notes
        if note.key in gone
    ]
    there = Counter(note.label for note in kept.notes)
    added: list[Example] = []
    for label, n in sorted(Counter(note.label for note in fresh).items()):
        own = at_most([note for note in fresh if note.label == label], max(0, limit - there[label]))
        added += own
        if label not in {note.label for note in old.notes}:
            remarks.append(f"{label!r} is a new class")
        if len(own) < n:
            remarks.append(f"{len(own)} of {n} new notes of {label!r} are taken; --max-examples takes more, or fewer")
    left = {note.label for note in (*kept.notes, *added)}
    lost = sorted({note.label for note in (*old.notes, *new.negatives)} - left)
    if lost:
        raise InputError(f"no example of {lost[0]!r} is left: the new annotations contradict all of them")
    return kept, tuple(added), remarks


def _labelled_by_hand(note: Example) -> Example:
    """A label over a row that nobody knew was given by a person."""
    if note.mark is None or note.mark.verdict != UNKNOWN:
        return note
    return replace(note, mark=replace(note.mark, verdict=None))
