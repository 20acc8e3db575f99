"""One thing that the doctor looked at, and how bad it is."""

from collections.abc import Sequence
from dataclasses import dataclass

from outlark.errors import InputError

GOOD, WARNING, PROBLEM = "good", "warning", "problem"
SEVERITIES = (GOOD, WARNING, PROBLEM)
#: Notes, or classes, that a finding lists by name.
LISTED = 5


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was looked at.

    Attributes
    ----------
    severity : "good", "warning" or "problem"
    check : str
        What was looked at: "white noise", "left-out notes", …
    what : str
        What was found, in words.
    advice : str
        What to do about it; empty where all is well.
    """

    severity: str
    check: str
    what: str
    advice: str = ""

    def __post_init__(self) -> None:
        if self.severity not in SEVERITIES:
            raise InputError(f"severity={self.severity!r} must be one of {SEVERITIES}")

    def __str__(self) -> str:
        return f"{self.severity}: {self.what}" + (f". {self.advice}" if self.advice else "")


def listing(names: Sequence[str]) -> str:
    """Names with commas between; no more than a few of them.

    >>> listing(["a", "b"]), listing(list("abcdefgh"))
    ('a, b', 'a, b, c, d, e and 3 more')
    """
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more
