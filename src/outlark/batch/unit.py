"""A unit of work: a recording, or the scores of one, as one process gets it."""

from dataclasses import dataclass

from outlark.batch.sources import Source


@dataclass(frozen=True)
class Unit:
    """What one process does in one go, and what is done again if it dies.

    Attributes
    ----------
    source : Source
    """

    source: Source
