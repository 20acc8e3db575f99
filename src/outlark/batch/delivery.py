"""Files that are finished come to where they belong, once they are safe on the disk."""

import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from outlark.batch.task import Task
from outlark.batch.unit import Unit, parts_folder
from outlark.files.aside import sync_folders


def deliver(finished: Path, task: Task, unit: Unit) -> dict[str, str]:
    """Move all files of a folder to where those of a unit belong; their names in the output folder, and digests.

    The journal may say that they are there as soon as this returns.
    """
    output = Path(task.output)
    folder = Path(output, unit.source.name).parent
    if unit.part is not None:
        folder = task.workshop / "parts" / parts_folder(unit.source.name)
    folder.mkdir(parents=True, exist_ok=True)
    delivered = {}
    for file in sorted(finished.iterdir()):
        with file.open("rb+") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
            os.fsync(opened.fileno())
        os.replace(file, folder / file.name)
        delivered[(folder / file.name).relative_to(output).as_posix()] = digest
    sync_folders(folder, output)
    return delivered


def deliver_bytes(files: Mapping[str, bytes], scratch: Path, task: Task, unit: Unit) -> dict[str, str]:
    """The same for files that came from elsewhere, by name; `scratch` is a folder of one's own for a moment."""
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    for name, blob in files.items():
        (scratch / name).write_bytes(blob)
    return deliver(scratch, task, unit)
