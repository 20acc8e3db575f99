"""`outlark summary`: what a run has analysed and found, from its journal and its annotation files."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from pathlib import Path
from typing import Any

import numpy as np

from outlark.annotations import FORMATS, read_annotations
from outlark.annotations.files import needed
from outlark.annotations.formats import WITH_LABELS
from outlark.audio.sound_files import AUTO, site_of
from outlark.batch.journal import LINE_DONE, LINE_FAILED, last_lines
from outlark.batch.report import PARQUET_SEGMENTS
from outlark.batch.task import SCORES_SUFFIX
from outlark.commands.tables import check_labels
from outlark.commands.tally import (
    TIME_UNKNOWN,
    AnalysedRecording,
    Notes,
    Summary,
    Tally,
    counted_once,
    summarise,
)
from outlark.errors import AnnotationError, InputError, Problem
from outlark.plain_text import Line, ProgressCallback, Remark, TextTable, listing, number_of, writable
from outlark.segments import KNOWN, REST
from outlark.version import __version__

#: Rows that are printed; -o writes all.
ROWS_SHOWN = 60


@dataclass(frozen=True, kw_only=True)
class RunContents:
    """What the journal of an output folder says; recordings are sorted by name."""

    output: Path
    #: Recordings that are done and count.
    analysed: tuple[AnalysedRecording, ...]
    #: By recording: its annotation files in the output folder, and how many segments were written.
    tables: Mapping[str, tuple[str, ...]]
    segments: Mapping[str, int]
    failed: tuple[Problem, ...]
    #: Recordings that were analysed in part.
    partial: tuple[Problem, ...]
    #: Recordings that were analysed but do not count: half of each or more is digital silence, clipped, or cancels.
    spoilt: tuple[Problem, ...]
    #: The verdicts in the files of every recording.
    verdicts: tuple[str, ...]
    #: Digests of the models.
    models: tuple[str, ...]

    @property
    def time_unknown(self) -> list[str]:
        return [one.recording for one in self.analysed if one.began is None]

    @property
    def zones(self) -> Counter[str]:
        """The number of recordings per time zone of the recorder."""
        began = [one.began for one in self.analysed if one.began is not None]
        return Counter("no zone" if at.tzinfo is None else f"UTC{at.isoformat()[-6:]}" for at in began)

    def check_model(self, path: str, sha256: str) -> None:
        """Refuse a model that is not the one of the run."""
        if self.models != (sha256,):
            raise InputError(
                f"{path} is not the model of the run in {self.output}; give the one that outlark detect used"
            )


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """The result of `outlark summary`; `missing` are recordings whose annotation files cannot be read."""

    results: RunContents
    tally: Tally
    missing: Sequence[Problem]
    summary: Summary
    by: Sequence[str]
    #: The classes to show, without unknown sounds.
    shown: Sequence[str]
    zone: tzinfo | None
    written: Sequence[str] = ()

    @property
    def incomplete(self) -> bool:
        return bool(self.missing)

    def as_json(self) -> dict[str, Any]:
        results = self.results
        problems = {"failed": results.failed, "partial": results.partial, "not_counted": results.spoilt}
        return {
            "version": __version__,
            "output": str(results.output),
            "recordings": len(self.tally.recordings),
            "hours": float(self.tally.effort()["hours"].sum()),
            "sites": sorted(self.tally.sites),
            "confidence": self.summary.confidence,
            "timezone": None if self.zone is None else str(self.zone),
            "zones": dict(results.zones),
            "time_unknown": results.time_unknown,
            "overlapping": overlapping(results, self.missing),
            **{
                name: [{"recording": problem.where, "message": problem.message} for problem in found]
                for name, found in {**problems, "missing": self.missing}.items()
            },
            "by": list(self.by),
            "rows": [
                {name: value.isoformat() if isinstance(value, date) else value for name, value in row.items()}
                for row in self.summary.rows()
            ],
        }

    def lines(self) -> Iterator[Line]:
        yield from self._table()
        effort = self.tally.effort()
        days = effort["day"][effort["day"] >= 0]
        span = f", {days_in_words(days)}" if len(days) else ""
        many, sites = number_of(len(self.tally.recordings), "recording"), number_of(len(self.tally.sites), "site")
        yield Remark(f"{many}, {_number(float(effort['hours'].sum()))} h, {sites}{span}")
        for what, names in self._remarkable().items():
            if names:
                yield Remark(f"{number_of(len(names), 'recording')} {what}: {listing(names)}")
        if self.missing:
            yield Remark(f"  {self.missing[0].where}: {self.missing[0].message}")
        yield from self._about_zones()
        yield from (Remark(f"written: {path}") for path in self.written)

    def _table(self) -> Iterator[Line]:
        summary = self.summary
        interval = f"{100 * summary.confidence:g} % interval"
        heads = ["hours", "notes", "per hour", interval, "ambiguous", "recordings with", "clock hours with"]
        listed = [[*summary.groups, "class", *heads]]
        for row, _ in zip(summary.rows(), range(ROWS_SHOWN), strict=False):
            group = [TIME_UNKNOWN if row[name] is None else str(row[name]) for name in summary.groups]
            low, high = _number(row["per_hour_low"]), _number(row["per_hour_high"])
            limits = "" if row["per_hour"] is None else f"{low} to {high}"
            counts = [_number(row["hours"]), str(row["notes"]), _number(row["per_hour"]), limits]
            counts.append("" if row["ambiguous"] is None else str(row["ambiguous"]))
            counts += [f"{row[f'{unit}_with']} of {row[unit]}" for unit in ("recordings", "clock_hours")]
            listed.append([*group, row["class"], *counts])
        yield TextTable(listed)
        more = len(summary.hours) * len(summary.classes) - ROWS_SHOWN
        if more > 0:
            yield f"… and {more} more rows; -o summary.csv writes all"

    def _remarkable(self) -> dict[str, Sequence[str]]:
        """What is said of recordings, and of which."""
        results = self.results
        return {
            "without a known start time, under 'time unknown'": results.time_unknown,
            "processed in part, counted as far as they go": [one.where for one in results.partial],
            "in which there is little to hear, not counted (see failures.csv)": [one.where for one in results.spoilt],
            "that others of their site overlap in time; what was recorded twice counts once": [
                *overlapping(results, self.missing)
            ],
            "that failed, not counted": [one.where for one in results.failed],
            "without a readable annotation file, not counted": [one.where for one in self.missing],
        }

    def _about_zones(self) -> Iterator[Remark]:
        zones = self.results.zones
        if self.zone is not None and zones["no zone"]:
            many = number_of(zones["no zone"], "recording")
            yield Remark(f"{many} without a time zone: assuming that their clocks show {self.zone}")
        if self.zone is None and len(zones) > 1:
            told = ", ".join(f"{name}: {n}" for name, n in sorted(zones.items()))
            yield Remark(
                f"recorders in different time zones ({told}): hours are local; --timezone converts them to one zone"
            )


def days_in_words(days: np.ndarray) -> str:
    """The first and the last of these ordinals, or the only one."""
    return " to ".join(dict.fromkeys(str(date.fromordinal(int(day))) for day in (days.min(), days.max())))


def _number(value: float | None) -> str:
    """Three significant digits, or a whole number; blank for None.

    >>> _number(0.000281), _number(2.5), _number(5400.4)
    ('0.000281', '2.5', '5400')
    """
    return "" if value is None else f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def summarise_run(
    results: RunContents,
    by: Sequence[str],
    *,
    classes: Sequence[str] = (),
    of_model: Sequence[str] = (),
    format: str | None = None,
    zone: tzinfo | None = None,
    confidence: float = 0.95,
    watch: ProgressCallback = lambda done, total: None,
) -> RunSummary:
    """Count the notes of a run, of these classes or of all; those of its model have rows even without a note."""
    tally, missing = count(results, format, zone, watch)
    there = sorted({*tally.classes, *of_model} - {REST})
    check_labels(classes, there, "note")
    shown = list(dict.fromkeys(classes)) or there
    summary = summarise(tally, by, shown, confidence, results.verdicts)
    return RunSummary(results=results, tally=tally, missing=missing, summary=summary, by=by, shown=shown, zone=zone)


# ----------------------------------------------------------------- the journal


def read_results(output: str | Path, site_from: str = AUTO) -> RunContents:
    """Read the journal of an output folder of `outlark detect` or `outlark decide`; nothing is modified.

    `site_from` says where the site is from if the recorder does not give it, see `site_of`.
    """
    lines = last_lines(output).values()
    all_done = [entry for entry in lines if entry.get("state") == LINE_DONE]
    if not all_done:
        raise InputError(f"{output}: no recording is done, so there is nothing to count; see its failures.csv")
    done = [entry for entry in all_done if entry.get("counts", True)]
    failed = [entry for entry in lines if entry.get("state") == LINE_FAILED]
    spoilt = [entry for entry in all_done if not entry.get("counts", True)]
    return RunContents(
        output=Path(output),
        analysed=tuple(_analysed(entry, site_from) for entry in done),
        tables={entry["recording"]: tuple(entry["outputs"]) for entry in done},
        segments={entry["recording"]: sum(entry["segments"].values()) for entry in done},
        failed=tuple(Problem(e["recording"], str(e.get("message", ""))) for e in failed),
        partial=tuple(Problem(e["recording"], e["partial"]) for e in done if e.get("partial")),
        spoilt=tuple(Problem(e["recording"], "; ".join(e["quality"])) for e in spoilt),
        verdicts=_verdicts(all_done, output),
        models=tuple(sorted({str(entry["identity"].get("model_sha256")) for entry in all_done})),
    )


def _analysed(entry: Mapping[str, Any], site_from: str) -> AnalysedRecording:
    recording, path = entry["recording"], str(entry["path"])
    try:
        began = entry.get("began")
        site = entry.get("site") if site_from == AUTO else None
        return AnalysedRecording(
            recording=recording,
            site=str(site) if site else site_of(recording, path, site_from),
            began=None if began is None else datetime.fromisoformat(began),
            seconds=float(entry.get("seconds", 0.0)),
            expansion=float(entry.get("expansion", 1.0)),
        )
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{recording}: its line in the journal is damaged ({error!s:.100}); run outlark detect --no-resume"
        ) from None


def _verdicts(done: Iterable[Mapping[str, Any]], output: str | Path) -> tuple[str, ...]:
    sets = {tuple(entry["identity"].get("verdicts", ())) for entry in done}
    shared = tuple(verdict for verdict in min(sets, key=len) if all(verdict in one for one in sets))
    if KNOWN not in shared:
        raise InputError(
            f"{output}: known notes were not written (--verdict {', '.join(shared)}), so they cannot be counted; "
            "detect again without --verdict"
        )
    return shared


# -------------------------------------------------------- the annotation files


def count(
    results: RunContents,
    format: str | None = None,
    zone: tzinfo | None = None,
    watch: ProgressCallback = lambda done, total: None,
) -> tuple[Tally, list[Problem]]:
    """Count all recordings whose annotation files can be read; list the others.

    By default, partitioned Parquet (site=, date=) is read if there is any, else for each recording the first of
    `WITH_LABELS` that it has. Time that several recordings of a site share counts once, see `overlapping`.
    `watch` gets the number of files counted so far, and of all.
    """
    wanted = WITH_LABELS if format is None else (format,)
    if not set(wanted) <= set(WITH_LABELS):
        raise InputError(f"files in the format {format} do not hold class labels; use {WITH_LABELS[0]}")
    folder = _partitioned(results.output) if format is None else None
    missing: list[Problem] = []
    while True:
        analysed, shared = _counted_once(results, missing)
        tally = Tally(zone)
        if folder is not None:
            more = _count_partitioned(folder, analysed, results.segments, tally, watch)
        else:
            more = _count_tables(results, analysed, wanted, tally, watch)
        missing += more
        if not more or not shared:
            return tally, missing
        # what cannot be counted does not cover others: count them again


def overlapping(results: RunContents, missing: Sequence[Problem] = ()) -> dict[str, float]:
    """Recordings that others of their site cover in time, except those that are missing, and for how many seconds."""
    return _counted_once(results, missing)[1]


def _counted_once(results: RunContents, missing: Sequence[Problem]) -> tuple[list[AnalysedRecording], dict[str, float]]:
    names = {problem.where for problem in missing}
    return counted_once(one for one in results.analysed if one.recording not in names)


def _count_tables(
    results: RunContents,
    analysed: Sequence[AnalysedRecording],
    wanted: Sequence[str],
    tally: Tally,
    watch: ProgressCallback,
) -> list[Problem]:
    missing = []
    for number, one in enumerate(analysed, start=1):
        try:
            tally.add(one, _notes(results.output, results.tables[one.recording], wanted))
        except AnnotationError as error:
            missing.append(Problem(one.recording, str(error)))
        watch(number, len(analysed))
    return missing


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


def _partitioned(output: Path) -> Path | None:
    """The folder of partitioned Parquet in an output folder: where `detect --parquet` puts it, or the folder itself."""
    for folder in (output / PARQUET_SEGMENTS, output):
        if any(next(path.rglob("*.parquet"), None) for path in folder.glob("site=*")):
            return folder
    return None


def _count_partitioned(
    folder: Path,
    analysed: Sequence[AnalysedRecording],
    segments: Mapping[str, int],
    tally: Tally,
    watch: ProgressCallback,
) -> list[Problem]:
    """Count the recordings of which the Parquet holds as many segments as the journal says; list the others."""
    rows: Counter[str] = Counter()
    for _, _, (names,) in _fragments(folder, ["recording"]):
        rows.update(names)
    missing, numbers = [], {}
    for one in analysed:
        name = writable(one.recording.removesuffix(SCORES_SUFFIX))  # what rows call it
        n, expected = rows[name], segments[one.recording]
        if n == expected:
            numbers[name] = tally.add_effort(one), one
        else:
            message = f"{folder}: {n} rows of it, but {expected} were written; --format csv counts the tables instead"
            missing.append(Problem(one.recording, message))
    for done, total, columns in _fragments(folder, ["recording", "label", "verdict", "start_s"]):
        of_recording: dict[str, list[Any]] = {}
        for name, *note in zip(*columns, strict=True):
            of_recording.setdefault(name, []).append(note)
        for name, notes in of_recording.items():
            if name in numbers:
                tally.add_notes(*numbers[name], Notes(*zip(*notes, strict=True)))
        watch(done, total)
    return missing


def _fragments(folder: Path, columns: Sequence[str]) -> Iterator[tuple[int, int, list[list[Any]]]]:
    """For each file its number, the number of all, and its columns."""
    arrow, dataset = needed("pyarrow", "parquet"), needed("pyarrow.dataset", "parquet")
    try:
        # without partitions, which are in the journal: their types would be guessed, and "007" is not 7
        fragments = list(dataset.dataset(folder, format="parquet").get_fragments())
        for number, fragment in enumerate(fragments, start=1):
            table = fragment.to_table(columns=list(columns))
            yield number, len(fragments), [table.column(name).to_pylist() for name in columns]
    except (arrow.ArrowException, OSError, ValueError) as error:
        raise AnnotationError(
            f"{folder}: the Parquet in it cannot be read ({error!s:.200}); --format csv counts the tables instead"
        ) from None
