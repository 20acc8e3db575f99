"""The project file, an SQLite database: every action of a person is one transaction that can be undone.

An action stores the rows that it inserts, changes and deletes, before and after. Undo restores the rows before. The log
of all actions is the audit trail: also after a crash, the project is in the state that the log describes.
"""

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from outlark.errors import InputError
from outlark.review.backup import Damaged, is_damage

#: What each version added; the `user_version` of a file is the number of steps that it has seen.
STEPS = (
    """
    CREATE TABLE recording (
        id INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT NOT NULL UNIQUE, name TEXT NOT NULL,
        sample_rate INTEGER NOT NULL, channels INTEGER NOT NULL, n_samples INTEGER NOT NULL,
        print TEXT NOT NULL, facts TEXT NOT NULL);
    CREATE TABLE class (
        id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, colour INTEGER NOT NULL);
    CREATE TABLE annotation (
        id INTEGER PRIMARY KEY AUTOINCREMENT, recording_id INTEGER NOT NULL, class_id INTEGER,
        t0 INTEGER NOT NULL, t1 INTEGER NOT NULL, low_hz REAL, high_hz REAL,
        role TEXT NOT NULL, origin TEXT NOT NULL);
    CREATE INDEX annotation_place ON annotation (recording_id, t0);
    CREATE TABLE review (
        id INTEGER PRIMARY KEY AUTOINCREMENT, run_id INTEGER NOT NULL, recording_id INTEGER NOT NULL,
        t0 INTEGER NOT NULL, t1 INTEGER NOT NULL, class_id INTEGER, score REAL NOT NULL,
        verdict TEXT NOT NULL, new_class_id INTEGER, queue TEXT NOT NULL);
    CREATE TABLE setting (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, value TEXT NOT NULL);
    CREATE TABLE event (
        id INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, kind TEXT NOT NULL, changes TEXT NOT NULL,
        state TEXT NOT NULL DEFAULT 'done');
    CREATE TABLE run (
        id INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, model TEXT, sha256 TEXT, classes TEXT NOT NULL,
        thresholds TEXT NOT NULL, examples TEXT NOT NULL, health TEXT NOT NULL, remarks TEXT NOT NULL,
        scanned TEXT NOT NULL DEFAULT '[]');
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
    """,
    """
    CREATE INDEX event_state ON event (state, id);
    CREATE INDEX review_place ON review (run_id, recording_id, t0);
    CREATE INDEX annotation_class ON annotation (class_id);
    """,
    # where a recording is relative to the project, a digest of its sound, the folder of what is computed from it
    """
    ALTER TABLE recording ADD COLUMN place TEXT;
    ALTER TABLE recording ADD COLUMN sound TEXT;
    ALTER TABLE recording ADD COLUMN key TEXT;
    """,
    # of earlier runs only these rows were left, without any results
    """
    DELETE FROM run WHERE id < (SELECT max(id) FROM run);
    ALTER TABLE run ADD COLUMN state TEXT NOT NULL DEFAULT 'grouped';
    ALTER TABLE run ADD COLUMN heard TEXT NOT NULL DEFAULT '{}';
    """,
    # an identity for what a browser keeps, and the changes that were stored, so that none is stored twice
    """
    CREATE TABLE identity (project TEXT NOT NULL);
    INSERT INTO identity VALUES (lower(hex(randomblob(16))));
    CREATE TABLE applied (key TEXT PRIMARY KEY, event_id INTEGER) WITHOUT ROWID;
    """,
)


def migrate(db: sqlite3.Connection) -> None:
    """Bring a project file to this version, each step completely or not at all.

    >>> db = sqlite3.connect(":memory:", isolation_level=None)
    >>> migrate(db)
    >>> db.execute("PRAGMA user_version").fetchone() == (len(STEPS),)
    True
    """
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version > len(STEPS):
        raise InputError(
            f"the project file has version {version}, this outlark knows {len(STEPS)}; update outlark, or review in "
            "another folder (--project)"
        )
    for number, step in enumerate(STEPS[version:], start=version + 1):
        try:
            db.executescript(f"BEGIN IMMEDIATE; {step}; PRAGMA user_version = {number}; COMMIT;")
        except BaseException:
            if db.in_transaction:
                db.rollback()
            raise


#: Tables that people change, and that undo restores.
UNDOABLE = ("class", "annotation", "review", "setting")
#: Seconds to wait for another process that writes.
PATIENCE_S = 10.0
Row = dict[str, Any]


class Applied(Exception):
    """A change is stored already."""


class Action:
    """The changes of one action; made by `Store.action`."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db, self.changes = db, list[Row]()

    def insert(self, table: str, **values: Any) -> int:
        """A new row; its id."""
        self._check(table)
        names = ", ".join(f'"{name}"' for name in values)
        places = ", ".join("?" * len(values))
        cursor = self.db.execute(f'INSERT INTO "{table}" ({names}) VALUES ({places})', tuple(values.values()))
        row_id = int(cursor.lastrowid or 0)
        self.changes.append({"table": table, "id": row_id, "before": None, "after": self._row(table, row_id)})
        return row_id

    def update(self, table: str, row_id: int, **values: Any) -> None:
        """Change some columns of a row."""
        self._check(table)
        before = self._row(table, row_id)
        if before is None:
            raise InputError(f"there is no {table} {row_id} any more; reload the page")
        names = ", ".join(f'"{name}" = ?' for name in values)
        self.db.execute(f'UPDATE "{table}" SET {names} WHERE id = ?', (*values.values(), row_id))
        self.changes.append({"table": table, "id": row_id, "before": before, "after": self._row(table, row_id)})

    def delete(self, table: str, row_id: int) -> None:
        """Remove a row."""
        self._check(table)
        before = self._row(table, row_id)
        if before is None:
            raise InputError(f"there is no {table} {row_id} any more; reload the page")
        self.db.execute(f'DELETE FROM "{table}" WHERE id = ?', (row_id,))
        self.changes.append({"table": table, "id": row_id, "before": before, "after": None})

    def _row(self, table: str, row_id: int) -> Row | None:
        found = self.db.execute(f'SELECT * FROM "{table}" WHERE id = ?', (row_id,)).fetchone()
        return None if found is None else dict(found)

    @staticmethod
    def _check(table: str) -> None:
        if table not in UNDOABLE:
            raise InputError(f"rows of {table!r} cannot be changed by an action; those of {UNDOABLE} can")


class Store:
    """A project file, open for all threads of this process.

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
        self._local = threading.local()
        self._opened: list[tuple[sqlite3.Connection, threading.RLock]] = []
        with self._lock, self._using() as db:
            migrate(db)

    def rows(self, query: str, *values: Any) -> list[Row]:
        with self._using() as db:
            return [dict(row) for row in db.execute(query, values)]

    def row(self, query: str, *values: Any) -> Row | None:
        with self._using() as db:
            found = db.execute(query, values).fetchone()
        return None if found is None else dict(found)

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction for what can be computed again, without undo; within another one, a part of it."""
        with self._lock, self._using() as db:
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
            action = Action(db)
            yield action
            if action.changes:
                db.execute("UPDATE event SET state = 'dropped' WHERE state = 'undone'")
                db.execute(
                    "INSERT INTO event (at, kind, changes) VALUES (?, ?, ?)",
                    (datetime.now(UTC).isoformat(timespec="milliseconds"), kind, json.dumps(action.changes)),
                )

    @contextmanager
    def once(self, key: str | None) -> Iterator[None]:
        """A transaction for a change that its sender repeats until it has heard an answer.

        Its key is stored with it; `Applied` if that has happened before.
        """
        with self.writing() as db:
            if db.execute("SELECT 1 FROM applied WHERE key = ?", (key,)).fetchone():
                raise Applied
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
                if (self.row(last) or {}).get("id") != made["event_id"]:
                    raise InputError(
                        "this was not undone: something else has been changed since, perhaps in another tab"
                    )
            return self._turn("done", "undone", last)

    def redo(self) -> Row | None:
        """Redo the action undone last; its event, or None."""
        return self._turn("undone", "done", "SELECT * FROM event WHERE state = 'undone' ORDER BY id LIMIT 1")

    def identity(self) -> str:
        """Unique to this project, wherever its folder is."""
        row = self.row("SELECT project FROM identity")
        assert row is not None
        return str(row["project"])

    def revision(self) -> str:
        """Changes with every action, undo and redo."""
        row = self.row(
            "SELECT (SELECT coalesce(max(id), 0) FROM event) AS last, "
            "(SELECT coalesce(sum(id), 0) FROM event WHERE state = 'done') AS done, "
            "(SELECT coalesce(max(id), 0) FROM run) AS run, (SELECT coalesce(max(id), 0) FROM detection) AS found, "
            "(SELECT coalesce(max(id), 0) FROM cluster) AS grouped"
        )
        assert row is not None
        return "-".join(str(value) for value in row.values())

    def close(self) -> None:
        """Close the connections of all threads."""
        with self._lock:
            for db, in_use in self._opened:
                with in_use:
                    db.close()
            self._opened.clear()
            self._local = threading.local()

    def _turn(self, before: str, after: str, query: str) -> Row | None:
        with self.writing() as db:
            found = db.execute(query).fetchone()
            if found is None:
                return None
            event = dict(found)
            event["changes"] = json.loads(event["changes"])
            ordered = event["changes"] if after == "done" else event["changes"][::-1]
            for change in ordered:
                put(db, change["table"], change["id"], change["after" if after == "done" else "before"])
            db.execute("UPDATE event SET state = ? WHERE id = ?", (after, event["id"]))
            return {**event, "state": after}

    @contextmanager
    def _using(self) -> Iterator[sqlite3.Connection]:
        """The connection of this thread; closing it meanwhile would crash the process."""
        local = self._local
        if not hasattr(local, "opened"):
            db = sqlite3.connect(self.path, timeout=PATIENCE_S, isolation_level=None, check_same_thread=False)
            db.row_factory = sqlite3.Row
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")  # an empty battery must not cost what was reviewed
            local.opened = (db, threading.RLock())
            self._opened.append(local.opened)
        db, in_use = local.opened
        with in_use:
            try:
                yield db
            except sqlite3.DatabaseError as error:
                if is_damage(error):
                    raise Damaged(self.path, error) from error
                raise


def put(db: sqlite3.Connection, table: str, row_id: int, row: Row | None) -> None:
    """Replace a row of a table; None deletes it."""
    db.execute(f'DELETE FROM "{table}" WHERE id = ?', (row_id,))
    if row is not None:
        names = ", ".join(f'"{name}"' for name in row)
        db.execute(f'INSERT INTO "{table}" ({names}) VALUES ({", ".join("?" * len(row))})', tuple(row.values()))
