"""The text that stands for a mark in formats with one place for a label, and the way back."""

import re

from outlark.annotations.marks import Mark
from outlark.verdict_names import AMBIGUOUS, KNOWN, SILENCE, UNKNOWN


def is_sound(mark: Mark) -> bool:
    """Whether the mark goes to programs that show notes: all but silence."""
    return mark.verdict != SILENCE


def is_known(mark: Mark) -> bool:
    """Whether the mark is a note of a known class."""
    return mark.verdict == KNOWN or (mark.verdict is None and mark.label is not None)


def shown(mark: Mark) -> str:
    """The label, or in words why there is none.

    >>> shown(Mark(start_s=0, end_s=1, label="tuti-D", verdict="known"))
    'tuti-D'
    >>> shown(Mark(start_s=0, end_s=1, label="tuti-D", verdict="ambiguous", runner_up="tuti-F"))
    'tuti-D or tuti-F?'
    >>> shown(Mark(start_s=0, end_s=1, verdict="unknown"))
    'unknown'
    """
    if mark.label is None:
        return "" if mark.verdict in (None, KNOWN) else str(mark.verdict)
    if mark.verdict != AMBIGUOUS:
        return mark.label
    return f"{mark.label}?" if mark.runner_up is None else f"{mark.label} or {mark.runner_up}?"


def label_behind(text: str | None, verdict: str | None, runner_up: str | None) -> str | None:
    """The label in what `shown` made, where the table tells the verdict and the runner-up.

    >>> label_behind("tuti-D or tuti-F?", "ambiguous", "tuti-F")
    'tuti-D'
    >>> label_behind("unknown", "unknown", None)
    """
    if text is None or (text == verdict and verdict != KNOWN):
        return None
    if verdict == AMBIGUOUS:
        return text.removesuffix("?" if runner_up is None else f" or {runner_up}?")
    return text


def verdict_behind(text: str | None, verdict: str | None, runner_up: str | None) -> str | None:
    """The verdict of a table beside what `shown` made; None where somebody has settled what was ambiguous.

    >>> verdict_behind("tuti-D or tuti-F?", "ambiguous", "tuti-F")
    'ambiguous'
    >>> verdict_behind("tuti-D", "ambiguous", "tuti-F")
    """
    settled = verdict == AMBIGUOUS and text not in (None, AMBIGUOUS) and label_behind(text, verdict, runner_up) == text
    return None if settled else verdict


def taken_apart(text: str) -> tuple[str | None, str | None, str | None]:
    """Label, verdict and runner-up in what `shown` made, as far as the text alone can tell.

    >>> taken_apart("tuti-D or tuti-F?")
    ('tuti-D', 'ambiguous', 'tuti-F')
    >>> taken_apart("unknown"), taken_apart("tuti-D")
    ((None, 'unknown', None), ('tuti-D', None, None))
    """
    if text in (UNKNOWN, AMBIGUOUS):
        return None, text, None
    # without the mark at the end nothing can match, and to find that out takes long for a text full of "or"
    found = text.endswith("?") and re.fullmatch(r"(.+?)(?: or (.+))?\?", text, flags=re.DOTALL)
    if found:
        return found[1], AMBIGUOUS, found[2]
    return text or None, None, None
