"""Marks of a recording that may be too many for the memory: on the disk from some thousands on."""

import pickle
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Self

from outlark.annotations import Mark

#: Marks that are put aside together, and bytes up to which they stay in memory.
TOGETHER, IN_MEMORY = 1000, 2**22


class Spool(Collection[Mark]):
    """Marks in order, for a ``with`` block; `finish` says what is to be done to each before it is given out.

    Examples
    --------
    >>> with Spool(Path(tempfile.gettempdir())) as spool:
    ...     spool.extend([Mark(start_s=i, end_s=i + 1) for i in range(3)])
    ...     [mark.start_s for mark in spool], len(spool)
    ([0.0, 1.0, 2.0], 3)
    """

    def __init__(self, folder: Path) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY, dir=str(folder))  # noqa: SIM115
        self._last: list[Mark] = []
        self._n = 0
        self._finish: Callable[[Mark], Mark] | None = None

    def extend(self, marks: Iterable[Mark]) -> None:
        """The next marks."""
        self._last.extend(marks)
        if len(self._last) >= TOGETHER:
            pickle.dump(self._last, self._file, protocol=pickle.HIGHEST_PROTOCOL)
            self._n += len(self._last)
            self._last = []

    def finish(self, change: Callable[[Mark], Mark]) -> None:
        """There will be no more."""
        self._finish = change

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[Mark]:
        given = (mark for batch in self._batches() for mark in batch)
        return given if self._finish is None else map(self._finish, given)

    def __len__(self) -> int:
        return self._n + len(self._last)

    def __contains__(self, mark: object) -> bool:
        return any(mark == one for one in self)

    def _batches(self) -> Iterator[list[Mark]]:
        at, left = 0, self._n
        while left:
            self._file.seek(at)  # others may have read meanwhile
            batch = pickle.load(self._file)
            at, left = self._file.tell(), left - len(batch)
            yield batch
        self._file.seek(0, 2)
        yield self._last
