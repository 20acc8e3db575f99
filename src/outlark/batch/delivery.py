"""Files that are finished come to where they belong, once they are safe on the disk."""

import hashlib
import os
from pathlib import Path

from outlark.aside import sync_folders


def deliver(finished: Path, folder: Path, output: Path) -> dict[str, str]:
    """Move all files of a folder to another one, which is made if needed; their names within `output`, and digests.

    The journal may say that they are there as soon as this returns.
    """
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
