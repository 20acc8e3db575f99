"""Notes from Parquet that is partitioned by site and date: four columns, file by file, without a `Mark` each."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from outlark.annotations.files import needed
from outlark.batch.partitions import FOLDER, SEGMENTS
from outlark.batch.sources import Failure
from outlark.batch.task import SCORES
from outlark.commands.summary.tally import Listened, Notes, Tally
from outlark.errors import AnnotationError
from outlark.plain_text import writable

#: Folders of partitions are called so.
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
    """Count all recordings of which the Parquet holds as many segments as the journal says.

    Parameters
    ----------
    folder : Path
    listened : sequence of Listened
    segments : mapping of str to int
        By recording, how many were written.
    tally : Tally
    watch : function of two numbers, optional
        Is told how many files of how many have been counted.

    Returns
    -------
    Tally, and the recordings that were not counted: those whose rows are not all there

    Raises
    ------
    AnnotationError
        When pyarrow is not there, or the Parquet cannot be read.
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
    """For each file its number, how many there are, and its columns."""
    arrow, dataset = needed("pyarrow", "parquet"), needed("pyarrow.dataset", "parquet")
    try:
        # the partitions are in the journal, too; types of a partition are guessed, and "007" is not 7
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
