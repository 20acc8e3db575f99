"""Recordings that are in a project file twice become one again, with the labels of both.

Earlier versions of outlark knew recordings by absolute path alone: after a folder had moved, each was added again.
"""

import json
import os
import shutil
import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from outlark.audio.sound_files import RecordingName
from outlark.review.identity import cache_key, is_recording, path_of, row_content
from outlark.review.store import Row

#: What a person did once to a recording.
_SAME = {"annotation": ("class_id", "t0", "t1", "role"), "review": ("run_id", "t0", "t1")}


def join_doubles(db: sqlite3.Connection, rows: Sequence[Row], folder: Path) -> list[Row]:
    """Join rows of an older project file that are about one recording; returns the rows that are left."""
    groups = defaultdict(list)
    for row in rows:
        if row["place"] is None:
            groups[row_content(row)].append(row)
    gone = set()
    for key, group in groups.items():
        if key is None or len(group) < 2 or sum(is_recording(row, path_of(row)) for row in group) > 1:
            continue  # copies that are all there are recordings of their own
        first, *others = sorted(group, key=lambda row: (-_work(db, row), row["id"]))
        for other in others:
            if _one_name(first["name"], other["name"]):
                _join(db, first, other, folder)
                gone.add(other["id"])
    return [row for row in rows if row["id"] not in gone]


def _work(db: sqlite3.Connection, row: Row) -> int:
    """How much people did to a recording."""
    counts = (db.execute(f"SELECT count(*) FROM {table} WHERE recording_id = ?", (row["id"],)) for table in _SAME)
    return sum(count.fetchone()[0] for count in counts)


def _one_name(name: str, other: str) -> bool:
    one, two = RecordingName.of(name), RecordingName.of(other)
    return one == two or one.shortens(two) or two.shortens(one)


def _join(db: sqlite3.Connection, kept: Row, gone: Row, folder: Path) -> None:
    ids = (kept["id"], gone["id"])
    for table, columns in _SAME.items():
        same = " AND ".join(f"k.{column} IS {table}.{column}" for column in columns)
        exists = f"EXISTS (SELECT 1 FROM {table} k WHERE k.recording_id = ? AND {same})"
        db.execute(f"DELETE FROM {table} WHERE recording_id = ? AND {exists}", ids[::-1])
        db.execute(f"UPDATE {table} SET recording_id = ? WHERE recording_id = ?", ids)
    _join_found(db, kept, gone, folder)
    _join_log(db, *ids)
    db.execute("DELETE FROM recording WHERE id = ?", (gone["id"],))


def _join_found(db: sqlite3.Connection, kept: Row, gone: Row, folder: Path) -> None:
    """Each run keeps what it found in one of them, with the scores of that."""
    cache = folder / "cache"
    for run_id, listed in db.execute("SELECT id, scanned FROM run").fetchall():
        scanned = set(json.loads(listed))
        ids = (kept["id"], gone["id"], run_id)
        for table in ("detection", "candidate"):
            if kept["id"] in scanned:
                db.execute(f"DELETE FROM {table} WHERE recording_id = ? AND run_id = ?", ids[1:])
            else:
                db.execute(f"UPDATE {table} SET recording_id = ? WHERE recording_id = ? AND run_id = ?", ids)
        scores, target = (cache / f"run-{run_id}" / cache_key(row) for row in (gone, kept))
        if kept["id"] not in scanned and scores.is_dir() and not target.exists():
            os.replace(scores, target)
        if gone["id"] in scanned:
            scanned = scanned - {gone["id"]} | {kept["id"]}
            db.execute("UPDATE run SET scanned = ? WHERE id = ?", (json.dumps(sorted(scanned)), run_id))
    same = "EXISTS (SELECT 1 FROM member k WHERE k.recording_id = ? AND k.t0 = member.t0 AND k.t1 = member.t1)"
    db.execute(f"DELETE FROM member WHERE recording_id = ? AND {same}", (gone["id"], kept["id"]))
    db.execute("UPDATE member SET recording_id = ? WHERE recording_id = ?", (kept["id"], gone["id"]))
    shutil.rmtree(cache / cache_key(gone), ignore_errors=True)


def _join_log(db: sqlite3.Connection, kept: int, gone: int) -> None:
    """Undo and redo must not bring the other one back."""
    events = db.execute("SELECT id, changes FROM event WHERE instr(changes, '\"recording_id\": ' || ?)", (gone,))
    for event_id, listed in events.fetchall():
        changes = json.loads(listed)
        for row in [row for change in changes for row in (change["before"], change["after"]) if row]:
            if row.get("recording_id") == gone:
                row["recording_id"] = kept
        db.execute("UPDATE event SET changes = ? WHERE id = ?", (json.dumps(changes), event_id))
