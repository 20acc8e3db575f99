"""Atomic writes: to a temporary file, which is then renamed."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import BinaryIO

#: Whether what is written is flushed to disk at once.
_AT_ONCE = ContextVar("at_once", default=True)


@contextmanager
def flushed_later() -> Iterator[None]:
    """Files written meanwhile are not flushed to disk: someone else does so before they count.

    Each flush takes milliseconds, for which a run over thousands of short recordings would wait.
    """
    before = _AT_ONCE.set(False)
    try:
        yield
    finally:
        _AT_ONCE.reset(before)


@contextmanager
def written_aside(target: Path) -> Iterator[Path]:
    """A temporary path in the folder of `target`, which replaces `target` at the end, in one step.

    After any failure `target` is unchanged, and no temporary file is left.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with written_aside(Path(folder, "a.txt")) as path:
    ...         _ = path.write_text("all of it")
    ...     os.listdir(folder)
    ['a.txt']
    """
    aside = target.parent / f".outlark-{secrets.token_hex(8)}.tmp"
    try:
        yield aside
        os.replace(aside, target)
        if _AT_ONCE.get():
            sync_folder(target.parent)
    except BaseException:
        with suppress(OSError):
            aside.unlink()
        raise


@contextmanager
def opened_aside(target: Path) -> Iterator[BinaryIO]:
    """The same, open for writing; flushed to disk before it is renamed."""
    with written_aside(target) as path, open(path, "xb") as file:
        yield file
        file.flush()
        if _AT_ONCE.get():
            os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to disk, so that a renamed file survives a power cut, where the system can."""
    with suppress(OSError):
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def sync_folders(folder: Path, outermost: Path) -> None:
    """The same for a folder and its parents up to `outermost`, which may be new, too."""
    for one in (folder, *folder.parents):
        sync_folder(one)
        if one == outermost:
            return
