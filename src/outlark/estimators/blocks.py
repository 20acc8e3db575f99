"""Training samples that come in blocks, from a generator or any other iterable, and need not fit into memory."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from outlark.errors import InputError
from outlark.estimators.checks import check_groups, check_one_kind
from outlark.maths.rows import spooled

HINT = "give blocks (X, y) or (X, y, groups)"


def collected(
    blocks: Iterable[Any], validated: Callable[[ArrayLike, bool], np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """All blocks as one table: X in a file without a name, y and groups in memory.

    Parameters
    ----------
    blocks : iterable of (X, y) or (X, y, groups)
        Blocks without rows are passed over.
    validated : function of X and whether it is the first
        X as an array (n, d) of finite numbers.

    Raises
    ------
    InputError
        When a block does not fit; the message says which one, counted from 1.
    """
    y: list[np.ndarray] = []
    groups: list[np.ndarray] = []

    def samples() -> Iterator[np.ndarray]:
        for number, block in enumerate(blocks, start=1):
            X, labels, notes = _entries(block, number)
            if np.shape(X)[:1] == (0,):
                continue
            try:
                rows = validated(X, not y)
                y.append(_column(labels, len(rows)))
                if notes is not None:
                    groups.append(check_groups(notes, rows))
            except ValueError as error:
                raise InputError(f"block {number}: {error}") from error
            if len(groups) not in (0, len(y)):
                raise InputError(f"block {number}: some blocks have groups and others do not; {HINT}, all alike")
            yield rows

    X = spooled(samples())
    if len(X) == 1:
        raise InputError("the blocks have a single sample together; give at least two")
    # Of blocks with numbers and blocks with text NumPy would make text without a word.
    for name, columns in (("y", y), ("groups", groups)):
        check_one_kind([column.tolist()[0] for column in columns], f"{name} of the blocks")
    return X, np.concatenate(y), np.concatenate(groups) if groups else None


def _entries(block: Any, number: int) -> tuple[Any, Any, Any]:
    if not isinstance(block, tuple | list) or len(block) not in (2, 3):
        found = f"{len(block)} entries" if isinstance(block, tuple | list) else type(block).__name__
        raise InputError(f"block {number}: found {found}; {HINT}")
    return (*block, None) if len(block) == 2 else tuple(block)


def _column(labels: ArrayLike, n: int) -> np.ndarray:
    check_one_kind(labels)
    column = np.asarray(labels)
    if column.shape != (n,):
        raise InputError(f"y has the shape {column.shape} for {n} samples; give one label for each sample")
    return column
