"""All rows of a run as Parquet, in folders by site and day, as DuckDB, Polars, Spark and Arrow read them.

``OUT/parquet/segments/site=pond/date=2026-05-31/rows.parquet`` has the rows of outlark's CSV files,
``OUT/parquet/recordings/…`` when and for how long recordings were made, including those in which nothing was found.
A file whose rows have not changed is not written again.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from outlark.batch.task import ROWS, Task
from outlark.files.io import written_aside

FOLDER, SEGMENTS, RECORDINGS, FILE = "parquet", "segments", "recordings", "rows.parquet"
#: Name of the folder for an unknown site or day; all programs read it as null.
UNKNOWN = "__HIVE_DEFAULT_PARTITION__"
#: Its name if no site, or no day, is known: Arrow and pandas cannot tell the type of a column of nulls, and refuse it.
NONE_KNOWN = "unknown"
RECORDING_FIELDS = ("recording", "start_time", "seconds", "partial", "model_sha256", "version")
_KEY = b"outlark_sources"


class Stay(NamedTuple):
    """A recording on one day: its journal entry, site, day, start on that day and duration in seconds."""

    entry: Mapping[str, Any]
    site: str | None
    date: str | None
    began: str | None
    seconds: float


def write_partitions(task: Task, entries: Iterable[Mapping[str, Any]]) -> Path:
    """Write the recordings of these journal entries, whose CSV files are there; returns the folder."""
    root = Path(task.output, FOLDER)
    partitions: dict[tuple[str | None, str | None], list[Stay]] = {}
    for entry in entries:
        for stay in stays_of(entry):
            partitions.setdefault((stay.site, stay.date), []).append(stay)
    wanted = set()
    unnamed = [NONE_KNOWN if all(key[level] is None for key in partitions) else UNKNOWN for level in (0, 1)]
    for (site, date), stays in partitions.items():
        folder = f"site={_folder(site, unnamed[0])}/date={_folder(date, unnamed[1])}"
        wanted.add(folder)
        digest = _digest(task, stays)
        _write(root / SEGMENTS / folder / FILE, digest, partial(_segments, task, stays))
        _write(root / RECORDINGS / folder / FILE, digest, partial(map, _recording, stays))
    _delete_others(root, wanted)
    return root


def stays_of(entry: Mapping[str, Any]) -> Iterator[Stay]:
    """A recording, day by day.

    >>> entry = {"recording": "pond/a.wav", "seconds": 7200.0, "began": "2026-05-31T23:30:00"}
    >>> [(stay.site, stay.date, stay.seconds) for stay in stays_of(entry)]
    [('pond', '2026-05-31', 1800.0), ('pond', '2026-06-01', 5400.0)]
    """
    from outlark.audio.sound_files import NO_SITE, site_of  # imports all that reads sound

    seconds = float(entry["seconds"])
    name = entry.get("site") or site_of(entry["recording"], str(entry.get("path", "")))
    site = None if name == NO_SITE else name
    if entry.get("began") is None:
        yield Stay(entry, site, entry.get("date"), None, seconds)
        return
    began, left = datetime.fromisoformat(entry["began"]), seconds / entry.get("expansion", 1.0)
    if "date" in entry:
        yield Stay(entry, site, entry["date"], began.isoformat(), left)
        return
    while True:
        midnight = datetime.combine(began.date() + timedelta(days=1), datetime.min.time(), began.tzinfo)
        here = min(left, (midnight - began).total_seconds())
        yield Stay(entry, site, began.date().isoformat(), began.isoformat(), here)
        began, left = midnight, left - here
        if left <= 0.0:
            return


def _segments(task: Task, stays: Iterable[Stay]) -> Iterator[dict[str, Any]]:
    """The rows of recordings that belong to the day."""
    from outlark.annotations import read_annotations
    from outlark.annotations.own_formats import values

    for stay in stays:
        for annotation in read_annotations(Path(task.output, _table(stay.entry)), format="csv").annotations:
            if "date" in stay.entry or annotation.start_time is None or annotation.start_time[:10] == stay.date:
                yield values(annotation)


def _recording(stay: Stay) -> dict[str, Any]:
    entry = stay.entry
    return {
        "recording": entry["recording"],
        "start_time": stay.began,
        "seconds": stay.seconds,
        "partial": entry.get("partial"),
        "model_sha256": entry["identity"]["model_sha256"],
        "version": entry["identity"]["version"],
    }


def _digest(task: Task, stays: Iterable[Stay]) -> bytes:
    """Identifies the sources of a file; a CSV file that somebody has edited has another size."""
    sources = []
    for entry, *_, seconds in stays:
        name = _table(entry)
        size = Path(task.output, name).stat().st_size
        sources.append([entry["recording"], entry["outputs"][name], size, seconds])
    return hashlib.sha256(json.dumps(sources).encode()).hexdigest().encode()


def _write(path: Path, digest: bytes, rows: Callable[[], Iterable[dict[str, Any]]]) -> None:
    """Write rows, unless the file has them already."""
    from outlark.annotations.files import needed
    from outlark.annotations.own_formats import FIELDS, write_parquet_rows

    parquet = needed("pyarrow.parquet", "parquet")
    if path.exists() and (parquet.read_schema(path).metadata or {}).get(_KEY) == digest:
        return
    kinds = FIELDS if SEGMENTS in path.parts else dict.fromkeys(RECORDING_FIELDS, str) | {"seconds": float}
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_aside(path) as aside:
        write_parquet_rows(aside, kinds, rows(), {_KEY: digest})


def _delete_others(root: Path, wanted: set[str]) -> None:
    """Folders of sites and days without recordings."""
    for kind in (SEGMENTS, RECORDINGS):
        for folder in (root / kind).glob("site=*/date=*"):
            if folder.relative_to(root / kind).as_posix() not in wanted:
                shutil.rmtree(folder)
                with suppress(OSError):  # other days of the site are still there
                    folder.parent.rmdir()


def _table(entry: Mapping[str, Any]) -> str:
    return next(name for name in entry["outputs"] if name.endswith(ROWS))


def _folder(value: str | None, unnamed: str) -> str:
    return unnamed if value is None else quote(value, safe="")
