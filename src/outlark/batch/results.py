"""What a run has analysed and found, from its journal and its annotation files."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

import numpy as np

from outlark.annotations import FORMATS, read_annotations
from outlark.annotations.files import needed
from outlark.audio.recorder_metadata import AUTO, site_of, time_in_name
from outlark.batch.journal import DONE, FAILED, last_lines
from outlark.batch.partitions import FOLDER, SEGMENTS
from outlark.batch.sources import Failure
from outlark.batch.task import SCORES
from outlark.commands.summary.overlaps import counted_once
from outlark.commands.summary.tally import Listened, Notes, Tally
from outlark.errors import AnnotationError, InputError
from outlark.plain_text import writable
from outlark.verdict_names import KNOWN

#: Folders of partitions.
SITES = "site=*"
COLUMNS = ("recording", "label", "verdict", "start_s")


def partitioned(output: Path) -> Path | None:
    """The folder of partitioned Parquet in an output folder: where `detect --parquet` puts it, or the folder itself."""
    for folder in (output / FOLDER / SEGMENTS, output):
        if any(next(path.rglob("*.parquet"), None) for path in folder.glob(SITES)):
            return folder
    return None


def count_partitioned(
    folder: Path,
    listened: Sequence[Listened],
    segments: Mapping[str, int],
    tally: Tally,
    watch: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[Tally, list[Failure]]:
    """Count all recordings for which the Parquet holds as many segments as the journal says; list the others.

    `segments` has the number of each recording; `watch` gets the number of files counted so far, and of all.
    """
    rows: Counter[str] = Counter()
    for _, _, names in _fragments(folder, COLUMNS[:1]):
        rows.update(dict(zip(*(part.tolist() for part in np.unique(names[0], return_counts=True)), strict=True)))
    missing, numbers = [], {}
    for one in listened:
        name = writable(one.recording.removesuffix(SCORES))  # what rows call it
        n, expected = rows[name], segments[one.recording]
        if n == expected:
            numbers[name] = tally.listen(one), one
        else:
            message = f"{folder}: {n} rows of it, but {expected} were written; --format csv counts the tables instead"
            missing.append(Failure(one.recording, message))
    for done, total, columns in _fragments(folder, COLUMNS):
        for recording, notes in _by_recording(*columns):
            if recording in numbers:
                tally.find(*numbers[recording], notes)
        watch(done, total)
    return tally, missing


def _fragments(folder: Path, columns: Sequence[str]) -> Iterator[tuple[int, int, list[np.ndarray]]]:
    """For each file its number, the number of all, and its columns."""
    arrow, dataset = needed("pyarrow", "parquet"), needed("pyarrow.dataset", "parquet")
    try:
        # without partitions, which are in the journal: their types would be guessed, and "007" is not 7
        fragments = list(dataset.dataset(folder, format="parquet").get_fragments())
        for number, fragment in enumerate(fragments, start=1):
            table = fragment.to_table(columns=list(columns))
            yield number, len(fragments), [np.array(table.column(name).to_pylist(), object) for name in columns]
    except (arrow.ArrowException, OSError, ValueError) as error:
        raise AnnotationError(
            f"{folder}: the Parquet in it cannot be read ({error!s:.200}); --format csv counts the tables instead"
        ) from None


def _by_recording(
    recordings: np.ndarray, labels: np.ndarray, verdicts: np.ndarray, starts_s: np.ndarray
) -> Iterator[tuple[str, Notes]]:
    names, which = np.unique(recordings, return_inverse=True)
    order = np.argsort(which, kind="stable")
    edges = np.searchsorted(which[order], np.arange(len(names) + 1))
    for i, name in enumerate(names):
        rows: Any = order[edges[i] : edges[i + 1]]
        yield name, Notes(labels[rows].tolist(), verdicts[rows].tolist(), starts_s[rows].tolist())


#: Formats with class labels, best first; DCASE files have none.
FORMATS_WITH_LABELS = ("csv", "parquet", "jsonl", "raven", "aoef", "kaleidoscope", "birdnet", "audacity")


@dataclass(frozen=True, kw_only=True)
class Results:
    """What the journal of an output folder says.

    Attributes
    ----------
    listened : tuple of Listened
        The recordings that are done and count, by name.
    tables : dict of str to tuple of str
        The annotation files of each recording in the output folder.
    segments : dict of str to int
        How many were written for each recording.
    failed, partial : tuple of Failure
        Recordings that failed, and those that were analysed in part.
    spoilt : tuple of Failure
        Recordings that were analysed but do not count: half of each or more is digital silence, clipped, or cancels.
    from_name : tuple of str
        Recordings whose time is from the file name, because the journal does not have it.
    verdicts : tuple of str
        Those in the files of every recording.
    models : tuple of str
        Digests of the models.
    """

    output: Path
    listened: tuple[Listened, ...]
    tables: Mapping[str, tuple[str, ...]]
    segments: Mapping[str, int]
    failed: tuple[Failure, ...]
    partial: tuple[Failure, ...]
    spoilt: tuple[Failure, ...]
    from_name: tuple[str, ...]
    verdicts: tuple[str, ...]
    models: tuple[str, ...]


def read_results(output: str | Path, site_from: str = AUTO) -> Results:
    """Read the journal of an output folder of `outlark detect` or `outlark decide`; nothing is modified.

    `site_from` says where the site is from if the recorder does not give it, see `site_of`.
    """
    lines = last_lines(output).values()
    done = [entry for entry in lines if entry.get("state") == DONE]
    failed = [entry for entry in lines if entry.get("state") == FAILED]
    spoilt = [entry for entry in done if not entry.get("counts", True)]
    done = [entry for entry in done if entry.get("counts", True)]
    if not (done or spoilt):
        raise InputError(f"{output}: no recording is done, so there is nothing to count; see its failures.csv")
    return Results(
        output=Path(output),
        listened=tuple(_listened(entry, site_from) for entry in done),
        tables={entry["recording"]: tuple(entry["outputs"]) for entry in done},
        segments={entry["recording"]: sum(entry["segments"].values()) for entry in done},
        failed=tuple(Failure(e["recording"], str(e.get("message", ""))) for e in failed),
        partial=tuple(Failure(e["recording"], e["partial"]) for e in done if e.get("partial")),
        spoilt=tuple(Failure(e["recording"], "; ".join(e["quality"])) for e in spoilt),
        from_name=tuple(entry["recording"] for entry in done if "began" not in entry),
        verdicts=_verdicts([*done, *spoilt], output),
        models=tuple(sorted({str(entry["identity"].get("model_sha256")) for entry in (*done, *spoilt)})),
    )


def count(
    results: Results,
    format: str | None = None,
    zone: tzinfo | None = None,
    watch: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[Tally, list[Failure]]:
    """Count all recordings whose annotation files can be read; list the others.

    Time that several recordings of a site share counts once, see `overlapping`.

    Parameters
    ----------
    format : str, optional
        Of the files to read. By default partitioned Parquet (site=, date=) if there is any, else for each recording the
        first of `FORMATS_WITH_LABELS` that it has.
    zone : tzinfo, optional
        See `Tally`.
    watch : function of two numbers, optional
        Gets the number of recordings counted so far, and of all.
    """
    wanted = FORMATS_WITH_LABELS if format is None else (format,)
    if not set(wanted) <= set(FORMATS_WITH_LABELS):
        raise InputError(f"files in the format {format} do not hold class labels; use {FORMATS_WITH_LABELS[0]}")
    folder = partitioned(results.output) if format is None else None
    missing: list[Failure] = []
    while True:
        listened, shared = _counted_once(results, missing)
        if folder is not None:
            tally, more = count_partitioned(folder, listened, results.segments, Tally(zone), watch)
        else:
            tally, more = _count_tables(results, listened, wanted, Tally(zone), watch)
        missing += more
        if not more or not shared:
            return tally, missing
        # what cannot be counted does not cover others: count them again


def overlapping(results: Results, missing: Sequence[Failure] = ()) -> dict[str, float]:
    """Recordings that others of their site cover in time, except those that are missing, and for how many seconds."""
    return _counted_once(results, missing)[1]


def _counted_once(results: Results, missing: Sequence[Failure]) -> tuple[list[Listened], dict[str, float]]:
    names = {failure.name for failure in missing}
    return counted_once(one for one in results.listened if one.recording not in names)


def _count_tables(
    results: Results,
    recordings: Sequence[Listened],
    wanted: Sequence[str],
    tally: Tally,
    watch: Callable[[int, int], None],
) -> tuple[Tally, list[Failure]]:
    missing = []
    for number, listened in enumerate(recordings, start=1):
        try:
            notes = _notes(results.output, results.tables[listened.recording], wanted)
        except AnnotationError as error:
            missing.append(Failure(listened.recording, str(error)))
        else:
            tally.add(listened, notes)
        watch(number, len(recordings))
    return tally, missing


def _listened(entry: Mapping[str, Any], site_from: str) -> Listened:
    try:
        return _read(entry, site_from)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{entry['recording']}: its line in the journal is damaged ({error!s:.100}); run outlark detect --no-resume"
        ) from None


def _read(entry: Mapping[str, Any], site_from: str) -> Listened:
    recording, path = entry["recording"], str(entry["path"])
    began = entry.get("began")
    if "began" not in entry:  # lines of earlier versions
        in_name = time_in_name(Path(path).name)
        began = None if in_name is None else in_name.began.isoformat()
    site = entry.get("site") if site_from == AUTO else None
    return Listened(
        recording=recording,
        site=str(site) if site else site_of(recording, path, site_from),
        began=None if began is None else datetime.fromisoformat(began),
        seconds=float(entry.get("seconds", 0.0)),
        expansion=float(entry.get("expansion", 1.0)),
    )


def _verdicts(done: Iterable[Mapping[str, Any]], output: str | Path) -> tuple[str, ...]:
    sets = {tuple(entry["identity"].get("verdicts", ())) for entry in done}
    shared = tuple(verdict for verdict in min(sets, key=len) if all(verdict in one for one in sets))
    if KNOWN not in shared:
        raise InputError(
            f"{output}: known notes were not written (--verdict {', '.join(shared)}), so they cannot be counted; "
            "detect again without --verdict"
        )
    return shared


def _notes(output: Path, tables: Sequence[str], wanted: Sequence[str]) -> Notes:
    """The notes of a recording, from the first format that it has."""
    for format in wanted:
        found = [output / table for table in tables if table.endswith(FORMATS[format].suffix)]
        if found:
            notes = [note for path in found for note in read_annotations(path, format=format).annotations]
            verdicts = [note.implied_verdict for note in notes]
            return Notes([note.label for note in notes], verdicts, [note.start_s for note in notes])
    raise AnnotationError(
        f"it has no annotation file in the format {' or '.join(wanted)}; run outlark detect with the same options and "
        "--format csv to add one"
    )
