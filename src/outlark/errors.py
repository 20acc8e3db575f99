"""The errors that outlark raises on purpose.

All derive from `OutlarkError`; each also derives from the built-in error that a caller would expect, so that
``except ValueError`` keeps working.
"""

from typing import NamedTuple


class Problem(NamedTuple):
    """What could not be used, a file, a recording or a row, and why."""

    where: str
    message: str


class OutlarkError(Exception):
    """Base class: catch this to catch everything that outlark raises on purpose."""


class InputError(OutlarkError, ValueError):
    """Arrays or parameters that cannot be used. The message says what was found, what was expected, what to do."""


class ModelFileError(OutlarkError, ValueError):
    """A model file that cannot be written or read. The message names the file, what is wrong and what to do."""


class AudioError(OutlarkError, ValueError):
    """A recording that cannot be read. The message names the file, what is wrong with it and what to do."""


class AnnotationError(OutlarkError, ValueError):
    """An annotation file that cannot be read or written. The message names file, line and what was expected."""
