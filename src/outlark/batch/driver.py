"""What has units of work done: processes of this machine, or of a cluster. A run does not know which."""

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

from outlark.batch.unit import Unit


class Event(NamedTuple):
    """What there is to tell of a unit.

    Attributes
    ----------
    unit : Unit
    what : mapping
        ``{"seconds", "share"}`` under way; at the end ``{"done": …}``, ``{"failed": message}``, ``{"refused":
        message}`` if the task cannot be done at all, or ``{"died": message}`` if the process has ended.
    """

    unit: Unit
    what: Mapping[str, Any]


class Driver(Protocol):
    """For a ``with`` block, with whose end all that is under way ends."""

    def start(self, n_units: int) -> bool:
        """Be ready for so many units; whether recordings can be worked on in parts.

        Raises
        ------
        InputError
            When the task cannot be done at all.
        """
        ...

    @property
    def n_free(self) -> int:
        """How many units can be submitted now."""
        ...

    def submit(self, unit: Unit) -> None:
        """Have a unit done; `events` will tell what came of it."""
        ...

    def events(self) -> Iterator[Event]:
        """What has happened to the units that were submitted; waits until something has, but not for long."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
