"""Raven selection tables: tab-separated, one row per selection and view."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import PurePath

from outlark.annotations.annotation import About, Annotation, behind, shown
from outlark.annotations.columns import MEASURED, MIX, WHOLE_BAND, Columns, Names, only_one
from outlark.annotations.delimited import (
    FREQUENCY_DIGITS,
    SCORE_DIGITS,
    TIME_DIGITS,
    FirstLine,
    Row,
    Sheet,
    decimal,
    guarded,
    guarded_label,
    number,
    one_line,
    sheet_of,
    tab_line,
)
from outlark.annotations.files import Reading
from outlark.annotations.own_formats import other_columns
from outlark.errors import InputError
from outlark.segments import AMBIGUOUS, UNKNOWN

NAMES: Names = {
    "start_s": ("begin_time_s", "begin_time"),
    "end_s": ("end_time_s", "end_time"),
    "duration_s": ("delta_time_s",),
    "file_offset_s": ("file_offset_s",),
    "recording": ("begin_path", "begin_file"),
    "channel": ("channel",),
    "low_hz": ("low_freq_hz",),
    "high_hz": ("high_freq_hz",),
    "verdict": ("verdict",),
    "score": ("score", "confidence"),
    "runner_up": ("runner_up",),
    "runner_up_score": ("runner_up_score",),
    "reason": ("reason",),
    "frequencies": ("frequencies",),
    "analysed": ("analysed",),
    "start_time": ("begin_date_time",),
    "remark": ("remark",),
    "label": ("annotation",),
}
LEADING = ["Selection", "View", "Channel", "Begin Time (s)", "End Time (s)", "Low Freq (Hz)", "High Freq (Hz)"]
OURS = ["Annotation", "Verdict", "Score", "Runner Up", "Runner Up Score", "Reason", "Frequencies"]
FILES = ["Begin File", "Begin Path", "File Offset (s)"]
#: Written only if not blank throughout. Raven needs a channel: where the mean of all was analysed, it is the first, and
#: a column says so.
ANALYSED, WHEN, ODD = "Analysed", "Begin Date Time", "Remark"
#: Top of the band if not even the sample rate is known.
TOP_HZ = 11025.0


def recognises(first: FirstLine) -> bool:
    """Whether a file begins as a selection table."""
    return "begin_time_s" in first.keys and ("selection" in first.keys or first.separator == "\t")


# ---------------------------------------------------------------------- reading


def read(reading: Reading) -> list[Annotation]:
    """The selections, with times within their recording."""
    sheet = _filled_in(_without_waveforms(sheet_of(reading).stripped()))
    # Begin Path contains Begin File
    drop = ("selection", "view", "begin_file") if "begin_path" in sheet.keys else ("selection", "view")
    columns = Columns.of(sheet, NAMES, drop=drop)
    if "file_offset_s" not in columns.at and "recording" in columns.at:
        _check_one_clock(sheet, columns)
    ours = set(OURS) <= set(sheet.columns)
    annotations = columns.annotations(reading.label_column, guess=not ours)
    return [_behind(annotation, ours) for annotation in annotations]


def _behind(annotation: Annotation, ours: bool) -> Annotation:
    """An annotation whose label is the text from `shown`, in a table of `ours` or another."""
    said = _verdict_in_label(annotation) if ours and annotation.verdict is None else annotation.verdict
    label, verdict = behind(annotation.label, said, annotation.runner_up)
    return replace(annotation, label=label, verdict=verdict)


def _verdict_in_label(annotation: Annotation) -> str | None:
    """The verdict that the label spells out, where a spreadsheet left its own cell blank: "unknown" is no class."""
    text, runner_up = annotation.label or "", annotation.runner_up
    if text in (UNKNOWN, AMBIGUOUS):
        return text
    return AMBIGUOUS if runner_up is not None and text.endswith(f" or {runner_up}?") else None


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
    return sheet.with_rows([row for row, repeated in zip(sheet.rows, repeats, strict=True) if not repeated])


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
    start = next((keys.index(name) for name in NAMES["start_s"] if name in keys), None)
    if "file_offset_s" in keys and start is not None:
        name = next((keys.index(name) for name in NAMES["recording"] if name in keys), None)
        names = ["" if name is None else cells[name] for cells in rows]
        only = only_one(names)
        _fill_offsets(sheet, rows, [name or only for name in names], start, keys.index("file_offset_s"))
    return sheet.with_rows([Row(row.line, tuple(cells)) for row, cells in zip(sheet.rows, rows, strict=True)])


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


def _check_one_clock(sheet: Sheet, columns: Columns) -> None:
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


# ---------------------------------------------------------------------- writing


def write(annotations: Iterable[Annotation], about: About, durations: Mapping[str, float]) -> Iterator[str]:
    """The selection table."""
    # several passes: there may be more annotations than fit into memory
    files = FILES if any(annotation.recording is not None for annotation in annotations) else []
    mixed = [ANALYSED] if any(annotation.channel is None for annotation in annotations) else []
    when = [WHEN] if any(annotation.start_time for annotation in annotations) else []
    odd = [ODD] if any(annotation.remark for annotation in annotations) else []
    more = other_columns(annotations, [*LEADING, *OURS, *FILES, ANALYSED, WHEN, ODD])
    before = _time_before(annotations, durations)
    names = [guarded(one_line(name)) for name in more.values()]
    yield tab_line([*LEADING, *OURS, *files, *mixed, *when, *odd, *names])
    top = max((annotation.sample_rate / 2 for annotation in annotations if annotation.sample_rate), default=TOP_HZ)
    for i, annotation in enumerate(annotations, start=1):
        cells = _cells(i, annotation, before.get(annotation.recording or "", 0.0), top)
        cells += _file_cells(annotation) if files else []
        cells += [MIX if annotation.channel is None else ""] if mixed else []
        cells += [annotation.start_time or ""] if when else []
        cells += [guarded(one_line(annotation.remark))] if odd else []
        yield tab_line([*cells, *(guarded(one_line(annotation.more.get(key, ""))) for key in more)])


def _cells(selection: int, annotation: Annotation, before_s: float, top_hz: float) -> list[str]:
    annotation = _one_lined(annotation)
    known = annotation.low_hz is not None and annotation.high_hz is not None
    half = annotation.sample_rate / 2 if annotation.sample_rate else top_hz
    low = annotation.low_hz or 0.0
    high = annotation.high_hz if annotation.high_hz is not None else max(half, low)
    return [
        str(selection),
        "Spectrogram 1",
        str(annotation.channel or 1),
        decimal(before_s + annotation.start_s, TIME_DIGITS),
        decimal(before_s + annotation.end_s, TIME_DIGITS),
        decimal(low, FREQUENCY_DIGITS),
        decimal(high, FREQUENCY_DIGITS),
        guarded_label(shown(annotation)),
        annotation.verdict or "",
        decimal(annotation.score, SCORE_DIGITS),
        guarded_label(annotation.runner_up or ""),
        decimal(annotation.runner_up_score, SCORE_DIGITS),
        guarded(one_line(annotation.reason)),
        MEASURED if known else WHOLE_BAND,
    ]


def _one_lined(annotation: Annotation) -> Annotation:
    label, rival = (None if text is None else one_line(text) for text in (annotation.label, annotation.runner_up))
    return replace(annotation, label=label or None, runner_up=rival or None)


def _file_cells(annotation: Annotation) -> list[str]:
    path = one_line(annotation.recording or "")
    # Windows paths on Linux, and vice versa
    name = PurePath(path.replace("\\", "/")).name
    return [guarded(name), guarded(path), decimal(annotation.start_s, TIME_DIGITS)]


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
