"""Which format a file is in, from its content and its name."""

import json
from pathlib import Path

from outlark.annotations import parquet
from outlark.annotations.cells import number, tab_cells
from outlark.annotations.files import about_file, read_text
from outlark.annotations.own import ANY_NAMES
from outlark.annotations.sheets import check_size, key_of, lines_of, separator_of
from outlark.errors import AnnotationError

#: Endings that tell; the others are shared by many formats.
_ENDINGS = {
    ".textgrid": "textgrid",
    ".not.mat": "notmat",
    ".mat": "yarden",
    ".phn": "timit",
    ".wrd": "timit",
    ".xml": "birdsong-recognition-dataset",
    ".parquet": "parquet",
}
EMPTY_AUDACITY = ".labels.txt"


def told(path: Path) -> str:
    """The name of the format.

    Raises
    ------
    AnnotationError
        If it is none of them; the message has the first line.
    """
    name = path.name.casefold()
    for ending, format in _ENDINGS.items():
        if name.endswith(ending):
            return format
    with about_file(path, "read", "see that it is there and that you may read it"):
        if path.is_file():
            with path.open("rb") as file:
                if file.read(4) == parquet.MAGIC:
                    return "parquet"
    text = read_text(path, [])
    if not text.strip():
        if name.endswith(EMPTY_AUDACITY):
            return "audacity"
        raise AnnotationError(f"{path} is empty; if that means no labels, name its format, such as format='audacity'")
    line, first = next((i, line) for i, line in enumerate(lines_of(text), start=1) if line.strip())
    if not first.lstrip().startswith("{"):
        check_size(path, first.count(separator_of(first)) + 1)
    format_ = _json_kind(first, text) if first.lstrip().startswith("{") else _of_first_line(first)
    if format_ is None:
        raise AnnotationError(
            f"{path}, line {line}: {first!r:.100} begins no table that outlark knows; expected a header with a start "
            "and an end column, or Audacity's start, end and text between tabs. `format` names the format"
        )
    return format_


def _json_kind(first: str, text: str) -> str:
    """AOEF is one object, on one line or many; JSON lines are one on each."""
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
