"""The project file, an SQLite database: every action of a person is one transaction that can be undone.

An action stores the rows that it inserts, changes and deletes, before and after. Undo restores the rows before. The log
of all actions is the audit trail: also after a crash, the project is in the state that the log describes. The file is
checked and copied whenever it is opened, so that there is a state to return to if the disk damages it.
"""

import json
import os
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from outlark.errors import InputError, Problem
from outlark.files.io import written_aside

Row = dict[str, Any]
#: Tables that people change, and that undo restores.
UNDOABLE = ("class", "annotation", "review", "setting")
#: Seconds to wait for another process that writes.
WRITE_TIMEOUT_S = 10.0
#: The copy of the project file, and what SQLite writes beside the file, which belongs to that file alone.
BACKUP_NAME, SQLITE_SUFFIXES = "project.backup.sqlite", ("-wal", "-shm")
SCHEMA_VERSION = 5
PROJECT_TABLES = """
    CREATE TABLE recording (
        id INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT NOT NULL UNIQUE, name TEXT NOT NULL,
        sample_rate INTEGER NOT NULL, channels INTEGER NOT NULL, n_samples INTEGER NOT NULL,
        print TEXT NOT NULL, facts TEXT NOT NULL,
        place TEXT, sound TEXT, key TEXT); -- relative to the project; digest of the samples; folder in the cache
    CREATE TABLE class (
        id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, colour INTEGER NOT NULL);
    CREATE TABLE annotation (
        id INTEGER PRIMARY KEY AUTOINCREMENT, recording_id INTEGER NOT NULL, class_id INTEGER,
        t0 INTEGER NOT NULL, t1 INTEGER NOT NULL, low_hz REAL, high_hz REAL,
        role TEXT NOT NULL, origin TEXT NOT NULL);
    CREATE INDEX annotation_place ON annotation (recording_id, t0);
    CREATE INDEX annotation_class ON annotation (class_id);
    CREATE TABLE review (
        id INTEGER PRIMARY KEY AUTOINCREMENT, run_id INTEGER NOT NULL, recording_id INTEGER NOT NULL,
        t0 INTEGER NOT NULL, t1 INTEGER NOT NULL, class_id INTEGER, score REAL NOT NULL,
        verdict TEXT NOT NULL, new_class_id INTEGER, queue TEXT NOT NULL);
    CREATE INDEX review_place ON review (run_id, recording_id, t0);
    CREATE TABLE setting (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, value TEXT NOT NULL);
    CREATE TABLE event (
        id INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, kind TEXT NOT NULL, changes TEXT NOT NULL,
        state TEXT NOT NULL DEFAULT 'done');
    CREATE INDEX event_state ON event (state, id);
    CREATE TABLE run (
        id INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, model TEXT, sha256 TEXT, classes TEXT NOT NULL,
        thresholds TEXT NOT NULL, examples TEXT NOT NULL, health TEXT NOT NULL, remarks TEXT NOT NULL,
        scanned TEXT NOT NULL DEFAULT '[]', state TEXT NOT NULL, heard TEXT NOT NULL DEFAULT '{}');
    CREATE TABLE detection (
        id INTEGER PRIMARY KEY AUTOINCREMENT, run_id INTEGER NOT NULL, recording_id INTEGER NOT NULL,
        class_id INTEGER, verdict TEXT NOT NULL, t0 INTEGER NOT NULL, t1 INTEGER NOT NULL, score REAL NOT NULL,
        runner_up TEXT, runner_up_score REAL, reason TEXT NOT NULL, low_hz REAL, high_hz REAL);
    CREATE INDEX detection_place ON detection (run_id, recording_id, t0);
    CREATE TABLE candidate (
        id INTEGER PRIMARY KEY, run_id INTEGER NOT NULL, recording_id INTEGER NOT NULL, class_id INTEGER NOT NULL,
        t0 INTEGER NOT NULL, t1 INTEGER NOT NULL, score REAL NOT NULL);
    CREATE INDEX candidate_place ON candidate (run_id, recording_id, t0);
    CREATE TABLE cluster (
        id INTEGER PRIMARY KEY AUTOINCREMENT, run_id INTEGER NOT NULL, name TEXT NOT NULL);
    CREATE TABLE member (
        id INTEGER PRIMARY KEY AUTOINCREMENT, cluster_id INTEGER NOT NULL, recording_id INTEGER NOT NULL,
        t0 INTEGER NOT NULL, t1 INTEGER NOT NULL, low_hz REAL, high_hz REAL, distance REAL NOT NULL);
    CREATE INDEX member_cluster ON member (cluster_id);
    -- what a browser keeps is for one project; changes that were stored, so that none is stored twice
    CREATE TABLE identity (project TEXT NOT NULL);
    INSERT INTO identity VALUES (lower(hex(randomblob(16))));
    CREATE TABLE applied (key TEXT PRIMARY KEY, event_id INTEGER) WITHOUT ROWID;
"""


class DamagedError(InputError):
    """The project file cannot be read everywhere."""

    def __init__(self, path: Path, why: object) -> None:
        copy, steps = path.with_name(BACKUP_NAME), ["Copy its folder before you try anything"]
        if copy.is_file():
            files = ", ".join(path.name + end for end in ("", *SQLITE_SUFFIXES))
            steps.append(
                f"To return to the back-up copy of {_when(copy)}, move {files} elsewhere and open the project again"
            )
        steps.append(f"To rescue what can be read, use: sqlite3 {path.name} .recover")
        super().__init__(f"the project file {path} is damaged ({' '.join(str(why).split())}). {'. '.join(steps)}")


class AppliedError(Exception):
    """A change is stored already."""


class Action:
    """The changes of one action; made by `Store.action`. Its `outcome` is for whoever asked for it."""

    def __init__(self, db: sqlite3.Connection, kind: str) -> None:
        self.kind, self.changes, self.outcome, self._db = kind, list[Row](), Row(), db

    def insert(self, table: str, **values: Any) -> int:
        """A new row; its id."""
        row_id = insert(self._db, table, values)
        self._log(table, row_id, None)
        return row_id

    def update(self, table: str, row_id: int, **values: Any) -> None:
        """Change some columns of a row."""
        before = self._present(table, row_id)
        _put(self._db, table, row_id, {**before, **values})
        self._log(table, row_id, before)

    def delete(self, table: str, row_id: int) -> None:
        before = self._present(table, row_id)
        _put(self._db, table, row_id, None)
        self._log(table, row_id, before)

    def _present(self, table: str, row_id: int) -> Row:
        row = _row(self._db, table, row_id)
        if row is None:
            raise InputError(f"there is no {table} {row_id} any more; reload the page")
        return row

    def _log(self, table: str, row_id: int, before: Row | None) -> None:
        after = _row(self._db, table, row_id)
        self.changes.append({"table": table, "id": row_id, "before": before, "after": after})


class Store:
    """A project file, open for all threads of this process, which take turns.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     store = Store(Path(folder, "project.sqlite"))
    ...     with store.action("new class") as action:
    ...         _ = action.insert("class", name="song", colour=0)
    ...     _ = store.undo()
    ...     gone = store.rows("SELECT name FROM class")
    ...     _ = store.redo()
    ...     print(gone, store.rows("SELECT name FROM class"))
    ...     store.close()
    [] [{'name': 'song'}]
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._db: sqlite3.Connection | None = None
        with self._using() as db:
            _check_version(db)

    def rows(self, query: str, *values: Any) -> list[Row]:
        with self._using() as db:
            return [dict(row) for row in db.execute(query, values)]

    def row(self, query: str, *values: Any) -> Row | None:
        return next(iter(self.rows(query, *values)), None)

    def value(self, query: str, *values: Any) -> Any:
        """The first column of the first row; None without one."""
        return next(iter((self.row(query, *values) or {"": None}).values()))

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction for what can be computed again, without undo; within another one, a part of it."""
        with self._using() as db:
            if db.in_transaction:
                yield db
                return
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    @contextmanager
    def action(self, kind: str) -> Iterator[Action]:
        """An action of a person: at the end of the block, all of it is on the disk, or nothing."""
        with self.writing() as db:
            action = Action(db, kind)
            yield action
            if action.changes:
                db.execute("UPDATE event SET state = 'dropped' WHERE state = 'undone'")
                now = datetime.now(UTC).isoformat(timespec="milliseconds")
                insert(db, "event", {"at": now, "kind": action.kind, "changes": json.dumps(action.changes)})

    @contextmanager
    def once(self, key: str | None) -> Iterator[None]:
        """A transaction for a change that its sender repeats until it has heard an answer.

        Its key is stored with it; `AppliedError` if that has happened before.
        """
        with self.writing() as db:
            if self.value("SELECT 1 FROM applied WHERE key = ?", key):
                raise AppliedError
            yield
            if key is not None:
                db.execute("INSERT INTO applied SELECT ?, max(id) FROM event", (key,))

    def undo(self, of: str | None = None) -> Row | None:
        """Undo the last action, which must be the change with the key `of`, if given; its event, or None."""
        last = "SELECT * FROM event WHERE state = 'done' ORDER BY id DESC LIMIT 1"
        with self.writing():
            if of is not None:
                made = self.row("SELECT event_id FROM applied WHERE key = ?", of)
                if made is None:
                    return None
                if self.value(last) != made["event_id"]:
                    raise InputError(
                        "this was not undone: something else has been changed since, perhaps in another tab"
                    )
            return self._turn("undone", last)

    def redo(self) -> Row | None:
        """Redo the action undone last; its event, or None."""
        return self._turn("done", "SELECT * FROM event WHERE state = 'undone' ORDER BY id LIMIT 1")

    def _turn(self, state: str, query: str) -> Row | None:
        with self.writing() as db:
            event = self.row(query)
            if event is None:
                return None
            changes = json.loads(event["changes"])
            if state == "undone":
                changes = [{**c, "before": c["after"], "after": c["before"]} for c in changes[::-1]]
            for change in changes:
                _put(db, change["table"], change["id"], change["after"])
            db.execute("UPDATE event SET state = ? WHERE id = ?", (state, event["id"]))
            return {**event, "changes": changes}

    def identity(self) -> str:
        """Unique to this project, wherever its folder is."""
        return str(self.value("SELECT project FROM identity"))

    def revision(self) -> str:
        """Changes with every action, undo and redo, and with new results."""
        newest = [self.value(f"SELECT max(id) FROM {table}") for table in ("event", "run", "detection", "cluster")]
        return "-".join(map(str, [*newest, self.value("SELECT sum(id) FROM event WHERE state = 'done'")]))

    def close(self) -> None:
        with self._lock:
            if self._db is not None:
                self._db.close()
            self._db = None

    @contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                if self._db is None:
                    self._db = sqlite3.connect(
                        self.path, timeout=WRITE_TIMEOUT_S, isolation_level=None, check_same_thread=False
                    )
                    self._db.row_factory = sqlite3.Row
                    self._db.execute("PRAGMA journal_mode = WAL")
                    self._db.execute("PRAGMA synchronous = FULL")  # an empty battery must not cost what was reviewed
                yield self._db
            except sqlite3.DatabaseError as error:
                if _is_damage(error):
                    raise DamagedError(self.path, error) from error
                raise


def insert(db: sqlite3.Connection, table: str, values: Row) -> int:
    """A new row, without undo; its id."""
    names, places = ", ".join(f'"{name}"' for name in values), ", ".join("?" * len(values))
    return int(db.execute(f'INSERT INTO "{table}" ({names}) VALUES ({places})', tuple(values.values())).lastrowid or 0)


def _row(db: sqlite3.Connection, table: str, row_id: int) -> Row | None:
    found = db.execute(f'SELECT * FROM "{table}" WHERE id = ?', (row_id,)).fetchone()
    return None if found is None else dict(found)


def _put(db: sqlite3.Connection, table: str, row_id: int, row: Row | None) -> None:
    """Replace a row; None deletes it."""
    db.execute(f'DELETE FROM "{table}" WHERE id = ?', (row_id,))
    if row is not None:
        insert(db, table, row)


def _check_version(db: sqlite3.Connection) -> None:
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version not in (0, SCHEMA_VERSION):
        raise InputError(
            f"the project file has version {version}, this outlark reads version {SCHEMA_VERSION}; update outlark, or "
            "review in another folder (--project)"
        )
    if version == 0:
        try:
            db.executescript(f"BEGIN IMMEDIATE; {PROJECT_TABLES}; PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")
        except BaseException:
            if db.in_transaction:
                db.rollback()
            raise


# ------------------------------------------------------------ damage and the back-up copy


def check_and_copy(path: Path) -> list[Problem]:
    """Check a project file and copy it; continue from the copy if the file was moved away. What users should know."""
    copy = path.with_name(BACKUP_NAME)
    if not path.exists():
        return [_restored(path, copy)] if copy.is_file() else []
    try:
        with closing(sqlite3.connect(path)) as db:
            (found,) = db.execute("PRAGMA quick_check(1)").fetchone()
            if found != "ok":
                raise DamagedError(path, found)
            try:
                with written_aside(copy) as aside, closing(sqlite3.connect(aside)) as target:
                    db.backup(target)
            except (OSError, sqlite3.Error) as error:
                message = f"no back-up copy of the project could be made ({error}); free some space, then open it again"
                return [Problem(copy.name, message)]
    except sqlite3.DatabaseError as error:
        if _is_damage(error):
            raise DamagedError(path, error) from None
        raise InputError(f"{path} cannot be opened ({error}); check that you may write to its folder") from None
    return []


def _restored(path: Path, copy: Path) -> Problem:
    for end in SQLITE_SUFFIXES:  # of the file that was moved away: they would damage this one
        left = path.with_name(path.name + end)
        if left.exists():
            os.replace(left, left.with_name(f"{left.name}.old"))
    with written_aside(path) as aside:
        shutil.copyfile(copy, aside)
    when = _when(copy)
    return Problem(path.name, f"was not there; continued from the back-up copy of {when}. Delete both to start anew")


def _is_damage(error: sqlite3.Error) -> bool:
    """Whether an error is about the content of the file, not about the disk or other processes."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _when(path: Path) -> str:
    return datetime.fromtimestamp(path.stat().st_mtime).strftime("%Y-%m-%d %H:%M")
