"""The formats that outlark knows, and which of them a file is in."""

import json
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from outlark.annotations import crowsetta_formats, exact_formats
from outlark.annotations.delimited import check_size, key_of, lines_of, number, separator_of, tab_cells
from outlark.annotations.files import about_file, read_text
from outlark.annotations.outlark_csv import ANY_NAMES
from outlark.errors import AnnotationError


@dataclass(frozen=True)
class Format:
    """A format of annotation files.

    Attributes
    ----------
    name : str
    suffix : str
        Of written files; for formats that are only read, the usual one.
    what : str
        A short description.
    reads, writes : bool
    extra : str or None
        The extra of outlark that it needs: ``pip install "outlark[extra]"``.
    """

    name: str
    suffix: str
    what: str
    reads: bool = True
    writes: bool = True
    extra: str | None = None


#: All formats by name.
FORMATS: dict[str, Format] = {
    format.name: format
    for format in [
        Format("raven", ".Table.1.selections.txt", "Raven selection table"),
        Format("audacity", ".labels.txt", "Audacity label track"),
        Format("kaleidoscope", ".kaleidoscope.csv", "Kaleidoscope's table of detections"),
        Format("birdnet", ".birdnet.csv", "BirdNET-Analyzer's CSV"),
        Format("dcase", ".dcase.csv", "DCASE few-shot events: annotations are read, predictions written"),
        Format("csv", ".outlark.csv", "outlark's CSV; also reads other CSV files"),
        Format("jsonl", ".jsonl", "JSON lines, all digits"),
        Format("parquet", ".parquet", "Parquet, all digits", extra="parquet"),
        Format("aoef", ".aoef.json", "Whombat's exchange format (soundevent)", extra="aoef"),
        *(
            Format(name, suffix, what, writes=False, extra="formats")
            for name, (suffix, what) in crowsetta_formats.FORMATS.items()
        ),
    ]
}
#: The package that each extra installs.
_PACKAGES = {"parquet": "pyarrow", "aoef": "soundevent", "formats": "crowsetta"}
#: File name endings of one format only.
_ENDINGS = {
    ".textgrid": "textgrid",
    ".not.mat": "notmat",
    ".mat": "yarden",
    ".phn": "timit",
    ".wrd": "timit",
    ".xml": "birdsong-recognition-dataset",
    ".parquet": "parquet",
}


def format_named(name: str) -> Format:
    """One of `FORMATS`, or an error that lists them."""
    if name not in FORMATS:
        raise AnnotationError(f"format={name!r} is not known; choose one of {list(FORMATS)}")
    return FORMATS[name]


def is_ready(format: Format) -> bool:
    """Whether everything that the format needs is installed.

    >>> is_ready(FORMATS["raven"])
    True
    """
    return format.extra is None or find_spec(_PACKAGES[format.extra]) is not None


def detect_format(path: Path) -> str:
    """The name of the format of a file, from its content and its name."""
    name = path.name.casefold()
    for ending, format in _ENDINGS.items():
        if name.endswith(ending):
            return format
    with about_file(path, "read", "check that it exists and that you may read it"):
        if path.is_file():
            with path.open("rb") as file:
                if file.read(4) == exact_formats.PARQUET_MAGIC:
                    return "parquet"
    text = read_text(path, [])
    if not text.strip():
        if name.endswith(FORMATS["audacity"].suffix):
            return "audacity"
        raise AnnotationError(f"{path} is empty; if that means no labels, name its format, such as format='audacity'")
    line, first = next((i, line) for i, line in enumerate(lines_of(text), start=1) if line.strip())
    if first.lstrip().startswith("{"):
        return _json_kind(first, text)
    check_size(path, first.count(separator_of(first)) + 1)
    found = _of_first_line(first)
    if found is None:
        raise AnnotationError(
            f"{path}, line {line}: {first!r:.100} is not the start of a known format; expected a header with a start "
            "and an end column, or Audacity's start, end and text between tabs; or name the format (--format)"
        )
    return found


def _json_kind(first: str, text: str) -> str:
    """AOEF is one object, on one line or many; JSON lines have one per line."""
    for part in (first, text):
        try:
            found = json.loads(part)
        except (ValueError, RecursionError):
            continue
        return "aoef" if isinstance(found, dict) and "created_on" in found and "data" in found else "jsonl"
    return "jsonl"


def _of_first_line(line: str) -> str | None:
    separator = separator_of(line)
    cells = tab_cells(line) if separator == "\t" else [cell.strip(' "') for cell in line.split(separator)]
    keys = {key_of(cell) for cell in cells}
    if keys >= {"audiofilename", "starttime", "endtime"}:
        return "dcase"
    if keys >= {"in_file", "offset", "duration"}:
        return "kaleidoscope"
    if keys >= {"start_s", "end_s", "scientific_name", "common_name"}:
        return "birdnet"
    if "begin_time_s" in keys and ("selection" in keys or separator == "\t"):
        return "raven"
    if separator == "\t" and len(cells) >= 2 and _is_number(cells[0]) and _is_number(cells[1]):
        return "audacity"
    ends = {*ANY_NAMES["end_s"], *ANY_NAMES["duration_s"]}
    return "csv" if keys & set(ANY_NAMES["start_s"]) and keys & ends else None


def _is_number(cell: str) -> bool:
    try:
        number(cell)
    except ValueError as error:
        return "could be" in str(error)
    return True
