"""Columns that outlark does not know: kept from table to table."""

from collections.abc import Iterable, Sequence

from outlark.annotations.marks import Mark
from outlark.annotations.sheets import key_of


def other_columns(marks: Iterable[Mark], own: Sequence[str]) -> dict[str, str]:
    """Key in `Mark.more` → name of its column, in the order of appearance; no name is that of an own column.

    >>> other_columns([Mark(start_s=0, end_s=1, more={"Site": "A", "label": "b"})], ["label"])
    {'Site': 'Site', 'label': 'label (more)'}
    """
    found: dict[str, str] = {}
    taken = {key_of(name) for name in own}
    for mark in marks:
        for key in mark.more:
            if key not in found:
                name = key
                while key_of(name) in taken:
                    name += " (more)"
                found[key] = name
                taken.add(key_of(name))
    return found
