"""Files that are there whole or not at all: written aside, then renamed."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def written_aside(target: Path) -> Iterator[Path]:
    """A path in the folder of `target` to write to. It takes the place of `target` at the end, in one step.

    Whatever goes wrong before, `target` is what it was, and nothing is left beside it.

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
        sync_folder(target.parent)
    except BaseException:
        with suppress(OSError):
            aside.unlink()
        raise


@contextmanager
def opened_aside(target: Path) -> Iterator[BinaryIO]:
    """The same, open for writing; safe on the disk before it is renamed."""
    with written_aside(target) as path, open(path, "xb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on the disk, so that a file which was renamed is there after a power cut.

    Systems and disks that cannot do this are left to do as they do.
    """
    with suppress(OSError):
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def sync_folders(folder: Path, outermost: Path) -> None:
    """The same for a folder and those around it, up to `outermost`, because they may be new, too."""
    for one in (folder, *folder.parents):
        sync_folder(one)
        if one == outermost:
            return
