"""Audacity label tracks: start, end and text between tabs, without a header."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from outlark.annotations.annotation import About, Annotation, Remarks, is_sound, shown, taken_apart
from outlark.annotations.delimited import (
    FREQUENCY_DIGITS,
    TIME_DIGITS,
    decimal,
    guarded_label,
    lines_of,
    number,
    one_line,
    optional_number,
    tab_cells,
    tab_line,
    unguarded,
)
from outlark.annotations.files import encoded
from outlark.errors import InputError

_SCORE = re.compile(r"(?:(.*) )?(-?\d+\.\d\d)", flags=re.DOTALL | re.ASCII)


def read(path: Path, text: str, about: Mapping[str, Any], remarks: Remarks) -> list[Annotation]:
    """The labels; if outlark wrote the file, scores are split from the text."""
    annotations: list[Annotation] = []
    label_refused = False
    for line, cells in ((i, tab_cells(line)) for i, line in enumerate(lines_of(text), start=1) if line.strip()):
        try:
            if cells[0].strip() != "\\":
                label_refused = True
                annotations.append(_annotation(cells, line))
                label_refused = False
            elif not label_refused:
                _add_frequencies(annotations, cells)
        except (ValueError, InputError) as error:
            remarks.refused.append(f"{path}, line {line}: {error}")
    if about.get("format") == "audacity":
        return [_taken_apart(annotation) for annotation in annotations]
    scored = next((annotation.label for annotation in annotations if ends_in_score(annotation.label)), None)
    if scored is not None:
        remarks.append(f"{scored!r} and the like are taken as labels; outlark's scores need the .about.json beside it")
    return annotations


def ends_in_score(label: str | None) -> bool:
    """Whether a label ends as those that outlark writes.

    >>> ends_in_score("song 0.50"), ends_in_score("song 2"), ends_in_score(None)
    (True, False, False)
    """
    return label is not None and _SCORE.fullmatch(label) is not None


def write(annotations: Collection[Annotation], about: About, durations: Mapping[str, float]) -> Iterator[bytes]:
    """Three columns, and a second line with the frequencies where they are known; without silence."""
    for annotation in filter(is_sound, annotations):
        score = "" if annotation.score is None else f" {annotation.score:.2f}".replace("-0.00", "0.00")
        times = [decimal(annotation.start_s, TIME_DIGITS), decimal(annotation.end_s, TIME_DIGITS)]
        yield encoded(tab_line([*times, guarded_label((one_line(shown(annotation)) + score).lstrip())]))
        if annotation.low_hz is not None and annotation.high_hz is not None:
            band = [decimal(annotation.low_hz, FREQUENCY_DIGITS), decimal(annotation.high_hz, FREQUENCY_DIGITS)]
            yield encoded(tab_line(["\\", *band]))


def _annotation(cells: list[str], line: int) -> Annotation:
    if not 2 <= len(cells) <= 4:
        raise ValueError(f"{len(cells)} cells between tabs; expected start, end and text, as in '0.5\\t0.75\\tsong'")
    try:
        start_s, end_s = number(cells[0]), number(cells[1])
    except ValueError as error:
        raise ValueError(f"{error}; expected start and end in seconds such as 83.25") from None
    label = unguarded(cells[2].strip()) if len(cells) > 2 else ""
    try:
        score = optional_number(cells[3]) if len(cells) > 3 else None
    except ValueError as error:
        raise ValueError(f"the fourth cell, {error}; expected a score, or only three cells") from None
    return Annotation(start_s=start_s, end_s=end_s, label=label or None, score=score, line=line)


def _add_frequencies(annotations: list[Annotation], cells: list[str]) -> None:
    """The line that begins with a backslash belongs to the label before it; -1 means no bound."""
    if len(cells) != 3:
        raise ValueError(f"a frequency line of {len(cells)} cells; expected a backslash, low and high frequency")
    if not annotations:
        raise ValueError("a frequency line before any label")
    low, high = (number(cell) for cell in cells[1:])
    annotations[-1] = replace(annotations[-1], low_hz=low if low >= 0 else None, high_hz=high if high >= 0 else None)


def _taken_apart(annotation: Annotation) -> Annotation:
    found = _SCORE.fullmatch(annotation.label or "")
    text, score = (found[1] or "", float(found[2])) if found else (annotation.label or "", annotation.score)
    label, verdict, runner_up = taken_apart(text)
    return replace(annotation, label=label, verdict=verdict, runner_up=runner_up, score=score)
