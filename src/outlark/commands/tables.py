"""The annotation files of a folder: which there are, which a model made, and which repeat others."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from outlark.annotations import FORMATS, Annotation, Table, read_annotations
from outlark.annotations.annotation import is_sound
from outlark.annotations.formats import (
    COMBINED,
    MOST_COMPLETE_FIRST,
    SIDE_SUFFIX,
    TABLE_SUFFIXES,
    detect_format,
    is_named_by_a_run,
)
from outlark.annotations.other_programs import ends_in_score
from outlark.audio.sound_files import SoundFiles, files_within, recording_of_table
from outlark.batch.journal import JOURNAL
from outlark.errors import AnnotationError, InputError, Problem
from outlark.plain_text import number_of
from outlark.segments import KNOWN, SILENCE, UNKNOWN

#: Starts the reason of a row that somebody annotated in the review page.
BY_HAND = "by hand"
#: An annotation file, and the recording that its name suggests.
Named = tuple[Table, str]


@dataclass(frozen=True)
class TableFiles:
    """The annotation files of a folder, by name, and the number of its other files.

    `unread` have the ending of an annotation file and could not be read; those that begin like one are `damaged`.
    """

    tables: tuple[Table, ...]
    unread: tuple[Problem, ...]
    damaged: frozenset[str]
    others: int

    @property
    def refused(self) -> dict[Path, tuple[str, ...]]:
        """By file, the rows that could not be read, and annotation files none of whose rows could."""
        rows = {table.path: table.refused for table in self.tables if table.refused}
        return rows | {Path(file.where): (file.message,) for file in self.unread if file.where in self.damaged}

    @property
    def skipped(self) -> list[str]:
        """Other files that could not be read, in words."""
        return [f"skipped: {file.message}" for file in self.unread if file.where not in self.damaged]


def tables_in(
    folder: Path, *, within: bool = False, format: str | None = None, label_column: str | int | None = None
) -> TableFiles:
    """Read all annotation files of a folder except hidden ones, and with `within` those of its folders.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     for name, text in (("a.labels.txt", "0.5\\t1.0\\tsong\\n"), ("readme.txt", "my labels"), ("a.wav", "")):
    ...         _ = Path(folder, name).write_text(text)
    ...     found = tables_in(Path(folder))
    >>> [table.path.name for table in found.tables], [Path(file.where).name for file in found.unread], found.others
    (['a.labels.txt'], ['readme.txt'], 1)
    """
    tables: list[Table] = []
    unread: list[Problem] = []
    others = 0
    for path in files_within(folder, deep=within):
        if path.name.endswith(SIDE_SUFFIX):
            continue
        if not path.name.lower().endswith(TABLE_SUFFIXES):
            others += 1
            continue
        try:
            tables.append(read_annotations(path, format=format, label_column=label_column))
        except AnnotationError as error:
            unread.append(Problem(str(path), str(error)))
    damaged = frozenset(file.where for file in unread if _is_recognised(Path(file.where)))
    return TableFiles(tuple(tables), tuple(unread), damaged, others)


def _is_recognised(path: Path) -> bool:
    try:
        return bool(detect_format(path))
    except AnnotationError:
        return False


def named_tables(path: Path, label_column: str | int | None, remarks: list[str], refused: list[str]) -> list[Named]:
    """The annotation files of a path; adds to the remarks and to the rows that could not be read."""
    if not path.is_dir():
        table = read_annotations(path, label_column=label_column)
        refused += table.refused
        return [(table, recording_of_table(path.name))]
    found = tables_in(path, within=True, label_column=label_column)
    remarks += found.skipped
    refused += [row for rows in found.refused.values() for row in rows]
    if not found.tables:
        raise InputError(f"{path} contains no readable annotation files; give an annotation file, or a folder of them")
    return [(table, recording_of_table(table.path.relative_to(path).as_posix())) for table in found.tables]


def remarks_on(tables: Sequence[Table]) -> list[str]:
    """The remarks on the files, each once."""
    names: dict[str, list[str]] = defaultdict(list)
    for table in tables:
        for remark in table.remarks:
            names[remark].append(table.path.name)
    return [f"{own[0] if len(own) == 1 else f'{len(own)} files'}: {remark}" for remark, own in names.items()]


def skipped_in_words(reasons: Mapping[str, int]) -> list[str]:
    """How many annotations were skipped for each reason."""
    return [f"{number_of(n, 'annotation')} skipped: {why}" for why, n in reasons.items() if n]


# ------------------------------------------------------- made by a model or by a person


def is_made_by_a_model(table: Table) -> bool:
    """Whether a model of outlark made the annotations of a file, or some of them.

    Such a file is no truth and no example until somebody has checked it. Its rows tell; else what it says about its
    origin, the output folder of a run that it is in, or the scores in Audacity labels.
    """
    if any(_is_detection(annotation) for annotation in table.annotations):
        return True
    if any(annotation.reason.startswith(BY_HAND) for annotation in table.annotations):
        return False
    if table.about.get("model_sha256") is not None:
        return True
    if is_named_by_a_run(table.path.name) and _is_in_a_run(table.path):
        return True
    labels = [annotation.label for annotation in table.annotations]
    return table.format == "audacity" and not table.about and bool(labels) and all(map(ends_in_score, labels))


def by_origin(tables: Sequence[Named]) -> tuple[list[Named], list[Named]]:
    """Those that a model of outlark made, and the others."""
    made = [is_made_by_a_model(table) for table, _ in tables]
    pairs = list(zip(tables, made, strict=True))
    return [one for one, by_model in pairs if by_model], [one for one, by_model in pairs if not by_model]


def passed_over(tables: Sequence[Table], folder: Path) -> str:
    """A remark on files of a folder that do not count because a model made them."""
    names = [table.path.relative_to(folder).as_posix() for table in tables]
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{folder}: {names[0]}{more} passed over: made by a model of outlark, not by a person"


def _is_detection(annotation: Annotation) -> bool:
    scored = annotation.verdict is not None and annotation.score is not None
    return scored and bool(annotation.reason) and not annotation.reason.startswith(BY_HAND)


def _is_in_a_run(path: Path) -> bool:
    return any((folder / JOURNAL).is_file() for folder in path.absolute().parents)


# ------------------------------------------------------------- rows that a person wrote


def labelled_by_hand(annotation: Annotation) -> Annotation:
    """Without the verdict of a sound that no class accepts, if it has a label: a person gave it.

    >>> labelled_by_hand(Annotation(start_s=0, end_s=1, label="song", verdict="unknown")).verdict is None
    True
    """
    if annotation.label is None or annotation.verdict not in (UNKNOWN, SILENCE):
        return annotation
    return replace(annotation, verdict=None)


def is_unlabelled(annotation: Annotation, table: Table) -> bool:
    """Whether a person left the label of a row blank; what a program found and did not name does not count."""
    by_program = FORMATS[table.format].has_unlabelled or (annotation.score is not None and "version" not in table.about)
    is_blank = annotation.label is None or not annotation.label.strip()
    return is_blank and annotation.verdict in (None, KNOWN) and not by_program


def is_point(annotation: Annotation) -> bool:
    """Whether a label has no duration."""
    return annotation.label is not None and annotation.start_s == annotation.end_s


def is_unclear(annotation: Annotation, table: Table) -> bool:
    """Whether a person wrote a row that cannot be used: without a label or duration."""
    return is_unlabelled(annotation, table) or is_point(annotation)


def unclear_rows(table: Table) -> list[str]:
    """Where rows are that cannot be used, and what to do."""
    return [*unlabelled_rows(table), *point_rows(table)]


def file_and_line(table: Table, annotation: Annotation) -> str:
    """Where a row is, for messages."""
    return f"{table.path}" if annotation.line is None else f"{table.path}, line {annotation.line}"


def unlabelled_rows(table: Table) -> list[str]:
    """Where the rows are whose label a person left blank, and what to do; a single line if no row has a label."""
    rows = [annotation for annotation in table.annotations if is_unlabelled(annotation, table)]
    if len(rows) > 1 and len(rows) == len(table.annotations):
        todo = "name the column of the labels (--label-column), or write the class of each note"
        return [f"{table.path}: none of its {len(rows)} rows has a label; {todo}"]
    todo = "write its class there, or delete the row"
    return [f"{file_and_line(table, m)}: {m.start_s:.3f} to {m.end_s:.3f} s has no label; {todo}" for m in rows]


def point_rows(table: Table) -> list[str]:
    """Where labels without a duration are, and what to do."""
    todo = "mark the note from its start to its end, or delete the row"
    rows = [annotation for annotation in table.annotations if is_point(annotation)]
    return [f"{file_and_line(table, m)}: {m.label!r} at {m.start_s:.3f} s has no duration; {todo}" for m in rows]


# --------------------------------------------------------- files that repeat others


def without_copies(tables: Sequence[Named]) -> list[Named]:
    """Without files that repeat others of a run, in another format or combined, unless somebody edited them.

    Each comes with the recording that its name suggests.
    """
    first: dict[str, list[Annotation]] = {}  # the content of the first file of outlark for a recording
    copies = set()
    ours = [one for one in tables if "version" in one[0].about]
    for table, name in sorted(ours, key=lambda one: _rank(one[0])):
        by_name = {name: list(table.annotations)}
        if table.path.name == COMBINED:
            by_name = {}
            for annotation in table.annotations:
                by_name.setdefault(annotation.recording or name, []).append(annotation)
        if first and all(_same(first.get(recording), own, table.format) for recording, own in by_name.items()):
            copies.add(table.path)
        else:
            first = by_name | first
    return [(table, name) for table, name in tables if table.path not in copies]


def _rank(table: Table) -> tuple[bool, int]:
    """The most complete formats first, and the combined file after all others."""
    order = MOST_COMPLETE_FIRST
    return table.path.name == COMBINED, order.index(table.format) if table.format in order else len(order)


def _same(said: list[Annotation] | None, annotations: list[Annotation], format: str) -> bool:
    if said is None:
        return False
    keeps, has_labels = FORMATS[format].keeps or is_sound, FORMATS[format].has_labels
    both = [m for m in said if keeps(m)], [m for m in annotations if is_sound(m)]
    before, now = ({(m.span.rounded(), m.label if has_labels else None) for m in one} for one in both)
    return before == now


def recording_of(table: Table, annotation: Annotation, sounds: SoundFiles) -> Path:
    """The recording of an annotation: the one that it names, or the one that its file belongs to."""
    if annotation.recording is None:
        return sounds.of_table(table.path)
    return sounds.named(annotation.recording, table.path, annotation.line)


def check_labels(asked: Sequence[str], there: Collection[str], what: str = "annotation") -> None:
    """Refuse the name of a class that nothing has."""
    for name in asked:
        if name not in there:
            raise InputError(
                f"no {what} has the label {name!r}; the labels are {', '.join(sorted(there)) or 'none at all'}"
            )
