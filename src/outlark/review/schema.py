"""The project file: one SQLite database, and the steps from each version of it to the next."""

import sqlite3

from outlark.errors import InputError

#: What each version added; the number of those that were run is the `user_version` of the file.
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
)


def migrate(db: sqlite3.Connection) -> None:
    """Bring a project file to this version, each step whole or not at all.

    Raises
    ------
    InputError
        For a file of a later outlark.

    Examples
    --------
    >>> db = sqlite3.connect(":memory:", isolation_level=None)
    >>> migrate(db)
    >>> db.execute("PRAGMA user_version").fetchone() == (len(STEPS),)
    True
    """
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version > len(STEPS):
        raise InputError(
            f"the project file is of version {version}, this outlark knows {len(STEPS)}; update outlark, or review in "
            "another folder (--project)"
        )
    for number, step in enumerate(STEPS[version:], start=version + 1):
        try:
            db.executescript(f"BEGIN IMMEDIATE; {step}; PRAGMA user_version = {number}; COMMIT;")
        except BaseException:
            if db.in_transaction:
                db.rollback()
            raise
