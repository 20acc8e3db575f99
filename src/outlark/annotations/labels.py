"""Which column holds the labels."""

from collections.abc import Container

from outlark.annotations.cells import optional_number
from outlark.annotations.sheets import Sheet, key_of
from outlark.errors import AnnotationError

#: Usual names, the most telling first.
USUAL = (
    "label", "labels", "annotation", "species", "class", "type", "common_name", "name", "call_type", "note_type",
    "song_type", "note", "syllable", "syllable_type", "call", "sound", "tag", "category", "vocalization",
    "vocalisation", "species_code", "code", "scientific_name", "text",
)  # fmt: skip
#: Columns of text that tell something else.
_NO_LABEL = (
    "file", "path", "folder", "dir", "date", "time", "view", "selection", "channel", "comment", "comments", "notes",
    "remarks",
)  # fmt: skip


def label_index(sheet: Sheet, taken: Container[int], wanted: str | int | None) -> int | None:
    """The number of the label column, from 0, and a remark on the choice; None where there is none.

    Parameters
    ----------
    taken : container of int
        Columns that are known to hold something else.
    wanted : str or int
        Name of the column, or its number from 1.

    Raises
    ------
    AnnotationError
        If the wanted column is not there.
    """
    if wanted is not None:
        return _wanted(sheet, wanted)
    keys = sheet.keys
    usual = [keys.index(name) for name in USUAL if name in keys and keys.index(name) not in taken]
    others = [i for i in range(len(keys)) if i not in taken and i not in usual and _may_be_labels(sheet, i)]
    found = next((i for i in usual if not sheet.rows or _filled(sheet, i)), None)
    if found is None:
        found = next(iter(others + usual), None)
    if found is None:
        sheet.remarks.append(f"no label column among {sheet.listed}; all labels are blank")
        return None
    also = [sheet.columns[i] for i in usual if i != found]
    hint = f" (not {also}; label_column= chooses)" if also else ""
    sheet.remarks.append(f"labels from the column {sheet.columns[found]!r}{hint}")
    return found


def _wanted(sheet: Sheet, wanted: str | int) -> int:
    name = str(wanted)
    keys = sheet.keys
    if name in sheet.columns:
        return sheet.columns.index(name)
    if key_of(name) in keys:
        return keys.index(key_of(name))
    if name.isascii() and name.isdigit() and 1 <= int(name) <= len(keys):
        return int(name) - 1
    raise AnnotationError(
        f"{sheet.path}: there is no column {wanted!r} for the labels; give one of {sheet.listed}, or its number "
        f"from 1 to {len(keys)}"
    )


def _filled(sheet: Sheet, i: int) -> bool:
    return any(row.cells[i].strip() for row in sheet.rows)


def _may_be_labels(sheet: Sheet, i: int) -> bool:
    """Text, and no name of something else."""
    if any(part in _NO_LABEL for part in sheet.keys[i].split("_")):
        return False
    return any(not _is_number(row.cells[i]) for row in sheet.rows)


def _is_number(cell: str) -> bool:
    try:
        optional_number(cell)
    except ValueError:
        return False
    return True
