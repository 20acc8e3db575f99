"""A copy of the project file, made whenever it is opened, and what to do if the file is damaged."""

import os
import shutil
import sqlite3
from contextlib import closing
from datetime import datetime
from pathlib import Path

from outlark.errors import InputError
from outlark.files.io import written_aside

#: The copy, beside the project file.
COPY = "project.backup.sqlite"
#: What SQLite writes beside a project file; it belongs to that file alone.
BESIDE = ("-wal", "-shm")


class Damaged(InputError):
    """The project file cannot be read everywhere."""

    def __init__(self, path: Path, why: object) -> None:
        copy = path.with_name(COPY)
        steps = ["Copy its folder before you try anything"]
        if copy.is_file():
            files, when = ", ".join(path.name + end for end in ("", *BESIDE)), _when(copy)
            steps.append(f"To return to the back-up copy of {when}, move {files} elsewhere and open the project again")
        steps.append(f"To rescue what can be read, use: sqlite3 {path.name} .recover")
        super().__init__(f"the project file {path} is damaged ({' '.join(str(why).split())}). {'. '.join(steps)}")


def is_damage(error: sqlite3.Error) -> bool:
    """Whether an error is about the content of the file, not about the disk or other processes."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def secured(path: Path) -> list[dict[str, str]]:
    """Check a project file and copy it; continue from the copy if the file was moved away. What users should know."""
    copy = path.with_name(COPY)
    if not path.exists():
        return _continued(path, copy) if copy.is_file() else []
    try:
        with closing(sqlite3.connect(path)) as db:
            (found,) = db.execute("PRAGMA quick_check(1)").fetchone()
            if found != "ok":
                raise Damaged(path, found)
            return _copied(db, copy)
    except sqlite3.DatabaseError as error:
        if is_damage(error):
            raise Damaged(path, error) from None
        raise InputError(f"{path} cannot be opened ({error}); check that you may write to its folder") from None


def _copied(db: sqlite3.Connection, copy: Path) -> list[dict[str, str]]:
    try:
        with written_aside(copy) as aside, closing(sqlite3.connect(aside)) as target:
            db.backup(target)
    except (OSError, sqlite3.Error) as error:
        message = f"no back-up copy of the project could be made ({error}); free some space, then open it again"
        return [{"name": copy.name, "message": message}]
    return []


def _continued(path: Path, copy: Path) -> list[dict[str, str]]:
    for end in BESIDE:  # of the file that was moved away: they would damage this one
        left = path.with_name(path.name + end)
        if left.exists():
            os.replace(left, left.with_name(f"{left.name}.old"))
    with written_aside(path) as aside:
        shutil.copyfile(copy, aside)
    message = f"was not there; continued from the back-up copy of {_when(copy)}. Delete both to start anew"
    return [{"name": path.name, "message": message}]


def _when(path: Path) -> str:
    return datetime.fromtimestamp(path.stat().st_mtime).strftime("%Y-%m-%d %H:%M")
