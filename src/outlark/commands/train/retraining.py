"""Training a model again, on its own examples and on what somebody has confirmed or rejected since.

A model file stores, for each example, its file, start, end and a digest of its samples, but not the sound. The
recordings are therefore needed, unless only negatives are new. `reviewed` finds what is new: a comparison
of corrected with original annotation files shows which detections were rejected. Only recordings with a corrected file
count.
"""

import filecmp
import hashlib
import os
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

from outlark.annotations import Annotation
from outlark.annotations.formats import COMBINED
from outlark.audio.recording import Recording
from outlark.audio.sound_files import is_sound, sounds_within
from outlark.commands.train.examples import (
    Example,
    ExampleKey,
    Examples,
    at_most,
    find_examples,
    in_order,
    pairs,
    told_apart,
)
from outlark.commands.train.learning import Learnt, learn, reject
from outlark.detection.detector import NoteDetector
from outlark.errors import InputError
from outlark.plain_text import ProgressCallback, number_of

Paths = Sequence[str | os.PathLike[str]]
#: Examples per class by default, but never fewer than the model had; and new negatives per class.
USUAL_EXAMPLES, USUAL_NEGATIVES = 20, 100


@dataclass(frozen=True, kw_only=True)
class Parent:
    """A model that is trained again: its file, the digest of the file, and the detector in it."""

    path: Path
    sha256: str
    detector: NoteDetector

    @property
    def classes(self) -> list[str]:
        return [str(label) for label in self.detector.classes_.tolist()]


def retrain(
    parent: Parent,
    new: Examples,
    *,
    audio: Paths = (),
    max_examples: int | None = None,
    channel: int | str = "mix",
    watch: ProgressCallback | None = None,
) -> Learnt:
    """Train the detector of a model again, with its settings, on its own examples and on new ones from `reviewed`.

    New examples replace examples and negatives of the model that they contradict. Its recordings are looked for in
    `audio`, beside the model and beside the new recordings. Per class, new examples, spread evenly, are added to those
    of the model up to `max_examples`, and at most as many new negatives; by default 20 and 100.
    """
    if not new.notes and not new.negatives:
        raise InputError("there are no new notes or negatives; give corrected annotation files, or --negative")
    detector, before = parent.detector, list(parent.detector.model_.lineage)
    negatives = at_most(in_order(new.negatives), USUAL_NEGATIVES if max_examples is None else max_examples)
    own = Examples(notes=tuple(map(named_example, detector.model_.training)), clips=False)
    if new.notes or _contradicted(own.notes, new.negatives):
        beside = sorted({note.recording.parent for note in (*new.notes, *new.negatives)})
        old = examples_of(parent, [*audio, *beside], channel)
        kept, added, remarks = joined(old, new, USUAL_EXAMPLES if max_examples is None else max_examples)
        if detector.calibration_:
            remarks.append(f"{parent.path.name} was calibrated, but its thresholds are learnt anew; calibrate again")
        notes, rejected = in_order([*kept.notes, *added]), (*kept.negatives, *negatives)
        said = (*new.remarks, *remarks)
        examples = replace(kept, notes=notes, negatives=rejected, remarks=said, refused=new.refused)
        learnt = learn(examples, detector, channel=channel, watch=watch)
    else:
        own = replace(own, refused=new.refused)
        kept, added = own, ()
        remarks = reject(detector, negatives, channel, watch or (lambda done, total: None))
        learnt = Learnt(detector=detector, examples=own, seconds=0.0, remarks=(*new.remarks, *remarks))
    counts = {"kept": len(kept.notes), "added": len(added), "negatives": len(negatives)}
    line = {"name": parent.path.name, "sha256": parent.sha256, **counts}
    detector.model_ = replace(detector.model_, lineage=[*before, line])
    return replace(learnt, remarks=(*learnt.remarks, _in_all(line, len(new.negatives))))


def _in_all(line: Mapping[str, Any], n_negatives: int) -> str:
    examples = number_of(line["kept"] + line["added"], "example")
    said = f"{examples}: {line['kept']} of {line['name']}, {line['added']} new"
    said += f"; {number_of(line['negatives'], 'new negative')}"
    return said if line["negatives"] == n_negatives else f"{said} of {n_negatives}; for more, give --max-examples"


def _contradicted(notes: Sequence[Example], negatives: Sequence[Example]) -> bool:
    """Whether a negative contradicts an example, by the names of their recordings alone."""
    of_name = defaultdict(list)
    for note in notes:
        of_name[note.recording.name, note.label].append(note)
    return any(note.covers(n) for n in negatives for note in of_name[n.recording.name, n.label])


def joined(old: Examples, new: Examples, limit: int) -> tuple[Examples, tuple[Example, ...], list[str]]:
    """The examples of a model that are kept, the new ones that are added, and remarks."""
    if new.clips and not old.clips:
        raise InputError("the model was trained on annotated recordings, and these are clips; give annotation files")
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
        f"{note} is no longer an example of {note.label!r}, because the new annotations contradict it"
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
            remarks.append(f"{len(own)} of {n} new notes of {label!r} are used; change this with --max-examples")
    left = {note.label for note in (*kept.notes, *added)}
    lost = sorted({note.label for note in (*old.notes, *new.negatives)} - left)
    if lost:
        raise InputError(f"no example of {lost[0]!r} is left: the new annotations contradict all of them")
    return kept, tuple(added), remarks


# ------------------------------------------------------- examples of the model


def examples_of(parent: Parent, folders: Paths, channel: int | str = "mix") -> Examples:
    """The examples and negatives of a model, in their recordings.

    The recordings are looked for in the folders, with their subfolders, and beside the model. It is an error if one is
    missing or contains something else.
    """
    detector = parent.detector
    if not all(isinstance(label, str) for label in detector.classes_.tolist()):
        raise InputError(f"the classes of {parent.path} are numbers, not names; train it again in Python")
    looked_in = list(dict.fromkeys(map(Path, folders)))
    files: dict[str, dict[str, Path]] = defaultdict(dict)
    beside = (path for path in sorted(parent.path.parent.iterdir()) if is_sound(path.name) and path.is_file())
    for path in (*(file for folder in looked_in for file in sounds_within(folder)), *beside):
        files[path.name.casefold()].setdefault(os.path.realpath(path), path)
    examples, lost = [], []
    for note in (*detector.model_.training, *detector.model_.negatives):
        place = _found(note, list(files[str(note["name"]).casefold()].values()), parent, channel)
        if place is None:
            lost.append(note)
        else:
            examples.append(replace(named_example(note), recording=place, table=parent.path))
    if lost:
        raise InputError(_lost(lost, parent, files, [*looked_in, parent.path.parent]))
    n = len(detector.model_.training)
    clips = any(note.get("clip", False) for note in detector.model_.training)
    return Examples(notes=tuple(examples[:n]), negatives=tuple(examples[n:]), clips=clips)


def _found(note: Mapping[str, Any], files: Sequence[Path], parent: Parent, channel: int | str) -> Path | None:
    """The file with a training note, by its digest; if that is of resampled sound, the only file there is."""
    unsure = []
    for path in files:
        sound = Recording(path, channel=channel)
        rate = sound.sample_rate
        start, end = round(note["start_s"] * rate), round(note["end_s"] * rate)
        if rate != parent.detector.sample_rate_:
            unsure += [path] if end <= sound.n_samples else []
        elif hashlib.sha256(sound.part(start, end).astype("<f8").tobytes()).hexdigest() == note["sha256"]:
            return path
    return unsure[0] if len(unsure) == 1 else None


def _lost(lost: Sequence[Mapping[str, Any]], parent: Parent, files: Mapping[str, Any], folders: Sequence[Path]) -> str:
    """Which recordings are missing, and which contain something else."""
    missing: list[str] = []
    others: list[str] = []
    for name, n in Counter(note["name"] for note in lost).items():
        there = len(files[name.casefold()]) if name is not None else 0
        more = f"; {there} files have this name" if there > 1 else ""
        (others if there else missing).append(f"{name or 'arrays, not files'} ({number_of(n, 'note')}{more})")
    said = [f"not found: {', '.join(missing)}"] if missing else []
    said += [f"found, but with other sound: {', '.join(others)}"] if others else []
    return (
        f"recordings that {parent.path} was trained on: {'; '.join(said)}. They were looked for in "
        f"{', '.join(map(str, dict.fromkeys(folders)))}; give the folder that contains them (--audio) and the same "
        "channel, or train a new model on the corrected annotations alone"
    )


def named_example(note: Mapping[str, Any]) -> Example:
    """A training note as the model file describes it."""
    bounds = {name: note[name] for name in ("low_hz", "high_hz") if name in note}
    annotation = Annotation(start_s=note["start_s"], end_s=note["end_s"], label=str(note["label"]), **bounds)
    recording = Path(note["name"] or f"recording {note['recording']}")
    return Example(label=str(note["label"]), recording=recording, annotation=annotation)


# -------------------------------------------------- corrected annotation files


def reviewed(
    classes: Sequence[str],
    corrected_in: Paths,
    *,
    found_in: Paths = (),
    named: Sequence[str] = (),
    **tables: Any,
) -> Examples:
    """Notes, confirmed or new, and negatives in corrected annotation files, or folders of them.

    In the originals that `outlark detect` wrote, `found_in`, rows that are gone or have another label are negatives.
    `classes` are those of the model, `named` those that were asked for by name; `tables` are `audio`, `format` and
    `label_column` of `find_examples`.
    """
    if not corrected_in:
        return Examples(notes=(), clips=False)
    tables |= {"any_verdict": True, "of_models": True}
    corrected = AnnotationFiles.of(find_examples(corrected_in, may_be_none=True, **tables), corrected_in)
    found = AnnotationFiles.of(find_examples(found_in, **tables), found_in) if found_in else None
    rows = settled(corrected, found)
    examples = told_apart(rows, classes=classes, named=named)
    if found is None:
        return examples
    # what is still ambiguous is not an example, but was not rejected either
    rejected, remarks = rejections(found, corrected._replace(examples=replace(examples, notes=rows.notes)))
    known = {*classes, *examples.labels}
    negatives = tuple(note for note in rejected if note.label in known)
    return replace(examples, negatives=(*examples.negatives, *negatives), remarks=(*examples.remarks, *remarks))


class AnnotationFiles(NamedTuple):
    """Annotations, and the name of each file relative to the folder that was given."""

    examples: Examples
    names: Mapping[Path, str]

    @classmethod
    def of(cls, examples: Examples, given: Paths) -> Self:
        folders = [Path(path) for path in given if Path(path).is_dir()]
        names = {}
        for table in examples.tables:
            within = [table.relative_to(folder).as_posix() for folder in folders if table.is_relative_to(folder)]
            names[table] = within[0] if within else table.name
        return cls(examples, names)

    def within(self, table: Path) -> set[str]:
        """The recordings that a file annotates."""
        return {place for place, *_ in self.examples.tables[table]}

    def named(self, name: str) -> list[Path]:
        return [table for table, own in self.names.items() if own == name]


def settled(corrected: AnnotationFiles, found: AnnotationFiles | None = None) -> Examples:
    """Corrected annotations, of one file per recording.

    `outlark detect` may have written several: in several formats, and `combined.csv`. A row deleted in one is still in
    the others. The file that differs from the original in `found` counts; without originals, any file takes precedence
    over `combined.csv`. It is an error if two files that may be the corrected one disagree.
    """
    of_place: dict[str, list[Path]] = defaultdict(list)
    for table, name in corrected.names.items():
        originals = [] if found is None else [found.within(original) for original in found.named(name)]
        for place in corrected.within(table).union(*originals):
            of_place[place].append(table)
    ruling = {place: _ruling(place, tables, corrected, found) for place, tables in of_place.items()}
    examples = corrected.examples
    notes = tuple(n for n in examples.notes if n.table is None or n.key in examples.tables[ruling[n.place]])
    tables = {table for tables in of_place.values() for table in tables}
    unused = sorted(corrected.names[table] for table in tables - set(ruling.values()))
    remarks = [f"{name} skipped: other annotation files of its recordings are the corrected ones" for name in unused]
    return replace(examples, notes=notes, remarks=(*examples.remarks, *remarks))


def _ruling(place: str, tables: Sequence[Path], corrected: AnnotationFiles, found: AnnotationFiles | None) -> Path:
    """The file that counts for a recording."""
    if found is None:
        left = [table for table in tables if table.name != COMBINED] or list(tables)
    else:
        left = [table for table in tables if _changed(table, corrected, found)] or list(tables)
    said: dict[frozenset[ExampleKey], Path] = {}
    for table in left:
        said.setdefault(frozenset(key for key in corrected.examples.tables[table] if key[0] == place), table)
    if len(said) > 1:
        one, other, *_ = sorted(said.values())
        raise InputError(f"{one} and {other} disagree about {Path(place).name}; keep the one that you corrected")
    return left[0]


def _changed(table: Path, corrected: AnnotationFiles, found: AnnotationFiles) -> bool:
    return not any(filecmp.cmp(path, table, shallow=False) for path in found.named(corrected.names[table]))


def rejections(found: AnnotationFiles, corrected: AnnotationFiles) -> tuple[tuple[Example, ...], list[str]]:
    """Detections in the original files that were deleted or relabelled in the corrected ones, and remarks.

    A row is still there if an annotation with its label shares half of the shorter one: edges may have moved. Where a
    row of the corrected file cannot be read, nobody knows which ones are gone; where one has no label, its class.
    """
    examples, names = corrected.examples, set(corrected.names.values())
    reviewed = {note.place for note in (*examples.notes, *examples.negatives)}
    reviewed |= {place for table, name in found.names.items() if name in names for place in found.within(table)}
    open_ = [note for note in found.examples.notes if note.place in reviewed]
    if not open_:
        raise InputError(
            "no recording has both an original and a corrected annotation file; give the output of outlark detect, and "
            "corrected copies with the same names"
        )
    still_there = {note.key for note, _ in pairs(open_, [*examples.notes, *examples.negatives])}
    still_there |= {note.key for note, _ in pairs(open_, examples.unclear, any_label=True)}
    unsure = _unsure(found, corrected)
    others = len({note.place for note in found.examples.notes} - reviewed)
    remarks = [f"{number_of(others, 'recording')} without a corrected annotation file: not used"] if others else []
    remarks += [f"{Path(place).name}: rows cannot be read, so no row counts as deleted" for place in sorted(unsure)]
    return tuple(note for note in open_ if note.key not in still_there and note.place not in unsure), remarks


def _unsure(found: AnnotationFiles, corrected: AnnotationFiles) -> set[str]:
    """The recordings with corrected rows that cannot be read."""
    examples = corrected.examples
    n_unclear = Counter(note.table for note in examples.unclear)
    damaged = [table for table in corrected.names if len(examples.refused.get(table, ())) > n_unclear[table]]
    originals = [original for table in damaged for original in found.named(corrected.names[table])]
    places = [*map(corrected.within, damaged), *map(found.within, originals)]
    return set[str]().union(*places)
