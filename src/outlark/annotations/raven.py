"""Raven selection tables: tab-separated, one row per selection and view."""

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count, pairwise

from outlark.annotations.annotation import About, Annotation, behind, shown
from outlark.annotations.columns import (
    MEASURED,
    WHOLE_BAND,
    Cells,
    FieldColumns,
    Names,
    mixed_cell,
    only_one,
    posix_path,
    rows_of,
    score_cell,
    seconds_cell,
    start_cell,
    unless_blank,
)
from outlark.annotations.files import (
    FREQUENCY_DIGITS,
    SCORE_DIGITS,
    TIME_DIGITS,
    FirstLine,
    Reading,
    Sheet,
    SheetRow,
    decimal,
    guarded,
    guarded_label,
    number,
    one_line,
    sheet_of,
    tab_line,
)
from outlark.annotations.own_formats import other_columns
from outlark.errors import InputError
from outlark.segments import AMBIGUOUS, UNKNOWN

RAVEN_NAMES: Names = {
    "start_s": ("begin_time_s", "begin_time"),
    "end_s": ("end_time_s", "end_time"),
    "duration_s": ("delta_time_s",),
    "recording": ("begin_path", "begin_file"),
    "low_hz": ("low_freq_hz",),
    "high_hz": ("high_freq_hz",),
    "score": ("score", "confidence"),
    "start_time": ("begin_date_time",),
    "label": ("annotation",),
    **{
        name: (name,)
        for name in (
            "file_offset_s", "channel", "verdict", "runner_up", "runner_up_score", "reason", "frequencies", "analysed",
            "remark",
        )
    },
}  # fmt: skip
#: The columns that only outlark writes, beside the label.
_OUR_COLUMNS = {"Annotation", "Verdict", "Score", "Runner Up", "Runner Up Score", "Reason", "Frequencies"}
#: Top of the band if not even the sample rate is known.
TOP_HZ = 11025.0


def recognises(first: FirstLine) -> bool:
    """Whether a file begins as a selection table."""
    return "begin_time_s" in first.keys and ("selection" in first.keys or first.separator == "\t")


def read(reading: Reading) -> list[Annotation]:
    """The selections, with times within their recording."""
    sheet = _filled_in(_without_waveforms(sheet_of(reading).stripped()))
    # Begin Path contains Begin File
    drop = ("selection", "view", "begin_file") if "begin_path" in sheet.keys else ("selection", "view")
    columns = FieldColumns.of(sheet, RAVEN_NAMES, drop=drop)
    if "file_offset_s" not in columns.at and "recording" in columns.at:
        _check_one_clock(sheet, columns)
    ours = set(sheet.columns) >= _OUR_COLUMNS
    annotations = columns.annotations(reading.label_column, guess=not ours)
    return [_behind(annotation, ours) for annotation in annotations]


def _behind(annotation: Annotation, ours: bool) -> Annotation:
    """An annotation whose label is the text from `shown`, in a table of `ours` or another."""
    text, runner_up, verdict = annotation.label or "", annotation.runner_up, annotation.verdict
    if ours and verdict is None:  # a spreadsheet left the cell blank, but the label spells it out
        if text in (UNKNOWN, AMBIGUOUS):
            verdict = text
        elif runner_up is not None and text.endswith(f" or {runner_up}?"):
            verdict = AMBIGUOUS
    label, verdict = behind(annotation.label, verdict, runner_up)
    return replace(annotation, label=label, verdict=verdict)


def _without_waveforms(sheet: Sheet) -> Sheet:
    """Raven lists a selection once per view; a waveform row adds nothing to its spectrogram row."""
    keys = sheet.keys
    if "view" not in keys:
        return sheet
    view = keys.index("view")
    same = [keys.index(name) for name in ("selection", "channel", "begin_time_s", "end_time_s") if name in keys]
    is_waveform = [row.cells[view].casefold().startswith("waveform") for row in sheet.rows]
    identities = [tuple(row.cells[i] for i in same) for row in sheet.rows]
    others = {identity for identity, waveform in zip(identities, is_waveform, strict=True) if not waveform}
    repeats = [w and identity in others for identity, w in zip(identities, is_waveform, strict=True)]
    if any(repeats):
        sheet.remark(f"{sum(repeats)} waveform rows skipped: they repeat a selection")
    return replace(sheet, rows=[row for row, repeated in zip(sheet.rows, repeats, strict=True) if not repeated])


def _filled_in(sheet: Sheet) -> Sheet:
    """The sheet with blank paths and file offsets filled in where other cells tell them.

    People who add a row in a spreadsheet fill in its times and label. Begin times run over all files that Raven had
    open, so that begin time minus file offset is the same for all rows of a recording.
    """
    keys, rows = sheet.keys, [list(row.cells) for row in sheet.rows]
    if {"begin_path", "begin_file"} <= set(keys):
        path, file = keys.index("begin_path"), keys.index("begin_file")
        whole = {cells[file]: cells[path] for cells in rows if cells[path].strip()}
        for cells in rows:
            cells[path] = cells[path] if cells[path].strip() else whole.get(cells[file], cells[file])
    start = next((keys.index(name) for name in RAVEN_NAMES["start_s"] if name in keys), None)
    if "file_offset_s" in keys and start is not None:
        name = next((keys.index(name) for name in RAVEN_NAMES["recording"] if name in keys), None)
        names = ["" if name is None else cells[name] for cells in rows]
        only = only_one(names)
        _fill_offsets(sheet, rows, [name or only for name in names], start, keys.index("file_offset_s"))
    return replace(sheet, rows=[SheetRow(row.line, tuple(cells)) for row, cells in zip(sheet.rows, rows, strict=True)])


def _fill_offsets(sheet: Sheet, rows: list[list[str]], recordings: Sequence[str], start: int, offset: int) -> None:
    """Blank file offsets from begin times, for recordings whose other rows agree on when they begin."""
    begins: dict[str, set[float]] = {}
    for cells, name in zip(rows, recordings, strict=True):
        with suppress(ValueError):
            begins.setdefault(name, set()).add(round(number(cells[start]) - number(cells[offset]), 3))
    derived = []
    for row, cells, name in zip(sheet.rows, rows, recordings, strict=True):
        if not cells[offset].strip() and len(begins.get(name, ())) == 1:
            with suppress(ValueError):
                cells[offset] = decimal(number(cells[start]) - next(iter(begins[name])), TIME_DIGITS)
                derived.append(str(row.line))
    if derived:
        column = sheet.columns[offset]
        sheet.remark(f"{column!r} is blank in {sheet.unit} {', '.join(derived)}: taken from the begin time")


def _check_one_clock(sheet: Sheet, columns: FieldColumns) -> None:
    """Several files without File Offset: only if their times overlap, they surely count within each."""
    spans: dict[str, tuple[float, float]] = {}
    first_line: dict[str, int] = {}
    for row in sheet.rows:
        try:
            name, at = columns.cell(row, "recording"), columns.time(row, "start_s")
        except ValueError:
            continue  # such a row is refused
        low, high = spans.get(name, (at, at))
        spans[name] = (min(low, at), max(high, at))
        first_line.setdefault(name, row.line)
    if len(spans) < 2:
        return
    if any(low <= high for (_, high), (low, _) in pairwise(sorted(spans.values()))):
        sheet.remark(f"{len(spans)} recordings; begin times are taken to count within each of them")
        return
    second = list(spans)[1]
    raise sheet.error(
        first_line[second],
        f"selections of {len(spans)} recordings without a column 'File Offset (s)', so that their times in {second!r} "
        "are unknown; add that column in Raven (or a copy of the begin time, if it counts within the file)",
    )


def write(annotations: Iterable[Annotation], about: About, durations: Mapping[str, float]) -> Iterator[str]:
    """The selection table."""
    # several passes: there may be more annotations than fit into memory
    before = _time_before(annotations, durations)
    top_hz = max((one.sample_rate / 2 for one in annotations if one.sample_rate), default=TOP_HZ)
    cells = _raven_cells(before, top_hz)
    if any(annotation.recording is not None for annotation in annotations):
        cells |= {
            "Begin File": lambda one: guarded(one_line(posixpath.basename(posix_path(one)))),
            "Begin Path": lambda one: guarded(one_line(one.recording or "")),
            "File Offset (s)": start_cell,
        }
    rest: Cells = {
        "Analysed": mixed_cell,
        "Begin Date Time": lambda one: one.start_time or "",
        "Remark": lambda one: guarded(one_line(one.remark)),
    }
    cells |= unless_blank(rest, annotations)
    taken = [*cells, *rest, "Begin File", "Begin Path", "File Offset (s)"]
    for key, name in other_columns(annotations, taken).items():
        cells[guarded(one_line(name))] = lambda one, key=key: guarded(one_line(one.more.get(key, "")))  # type: ignore[misc]
    return rows_of(cells, annotations, tab_line)


def _raven_cells(before_s: Mapping[str, float], top_hz: float) -> Cells:
    numbers = count(1)

    def begin_s(one: Annotation) -> float:
        return before_s.get(one.recording or "", 0.0)

    def high_hz(one: Annotation) -> float:
        if one.high_hz is not None:
            return one.high_hz
        return max(one.sample_rate / 2 if one.sample_rate else top_hz, one.low_hz or 0.0)

    return {
        "Selection": lambda one: str(next(numbers)),
        "View": lambda one: "Spectrogram 1",
        "Channel": lambda one: str(one.channel or 1),
        "Begin Time (s)": lambda one: seconds_cell(begin_s(one) + one.start_s),
        "End Time (s)": lambda one: seconds_cell(begin_s(one) + one.end_s),
        "Low Freq (Hz)": lambda one: decimal(one.low_hz or 0.0, FREQUENCY_DIGITS),
        "High Freq (Hz)": lambda one: decimal(high_hz(one), FREQUENCY_DIGITS),
        "Annotation": lambda one: guarded_label(shown(_one_lined(one))),
        "Verdict": lambda one: one.verdict or "",
        "Score": score_cell,
        "Runner Up": lambda one: guarded_label(one_line(one.runner_up or "")),
        "Runner Up Score": lambda one: decimal(one.runner_up_score, SCORE_DIGITS),
        "Reason": lambda one: guarded(one_line(one.reason)),
        "Frequencies": lambda one: WHOLE_BAND if None in (one.low_hz, one.high_hz) else MEASURED,
    }


def _one_lined(annotation: Annotation) -> Annotation:
    label, rival = (None if text is None else one_line(text) for text in (annotation.label, annotation.runner_up))
    return replace(annotation, label=label or None, runner_up=rival or None)


def _time_before(annotations: Iterable[Annotation], durations: Mapping[str, float]) -> dict[str, float]:
    """Total length of the recordings before each one, in the order in which they are opened."""
    before, total = {}, 0.0
    for name, duration in durations.items():
        before[name] = total
        total += duration
    names = {annotation.recording or "" for annotation in annotations}
    missing = sorted(names - set(before))
    if not durations and len(names) > 1:
        raise InputError(
            f"a selection table of {len(names)} recordings, {missing[0]!r} and others, without their durations; Raven "
            "counts times over all open files: give durations, or write a table for each recording"
        )
    if durations and missing:
        raise InputError(f"durations has no entry for {missing[0]!r}; give the durations of all recordings")
    return before
