"""What each command does, without the command line."""

from collections.abc import Sequence

#: Names that `listing` shows.
LISTED = 5


def listing(names: Sequence[str]) -> str:
    """The first few names, separated by commas.

    >>> listing(["a", "b"]), listing(list("abcdefgh"))
    ('a, b', 'a, b, c, d, e and 3 more')
    """
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more
