"""Bringing the recordings of a project file up to date with the files that are there."""

import json
import sqlite3
from collections import Counter
from collections.abc import Container, Sequence
from pathlib import Path

from outlark.plain_text import writable
from outlark.review.doubles import join_doubles
from outlark.review.identity import (
    Files,
    Given,
    Matches,
    Measured,
    Problem,
    cache_key,
    content,
    located,
    match,
    new_key,
    path_of,
    place_of,
    row_content,
)
from outlark.review.store import Row, Store

#: What follows the name of a recording in whose place another one is.
EARLIER = " (earlier recording)"


def register(store: Store, folder: Path, files: Sequence[tuple[Path, str]]) -> list[Problem]:
    """Find each recording of the project among these files or elsewhere, and add the files that are new."""
    found = Files(files)
    match(store.rows("SELECT * FROM recording"), found, folder)  # measures files before others have to wait
    with store.writing() as db:
        rows = join_doubles(db, _rows(db), folder)
        matches = match(rows, found, folder)
        _store(db, rows, matches, found, folder)
    known = {row["name"] for row in rows}
    absent = [(path, name) for path, name in found.absent if name not in known]
    told = [
        {"name": name, "message": f"{path} does not exist; put it back, or open its folder"} for path, name in absent
    ]
    return [*told, *matches.problems]


def add(store: Store, folder: Path, path: Path, name: str) -> Problem | None:
    """Add one recording to a project that is open; if it is one of the missing ones, that is no longer missing."""
    found = Files([(path, name)])
    with store.writing() as db:
        given = {file.path for file in found.given}
        rows = [row for row in _rows(db) if path_of(row) in given or not path_of(row).is_file()]
        matches = match(rows, found, folder)
        _store(db, rows, matches, found, folder)
    return next(iter(matches.problems), None)


def _rows(db: sqlite3.Connection) -> list[Row]:
    return [dict(row) for row in db.execute("SELECT * FROM recording ORDER BY id")]


def _store(db: sqlite3.Connection, rows: Sequence[Row], matches: Matches, files: Files, folder: Path) -> None:
    taken = {file.path for file in (*matches.known.values(), *matches.new)}
    values = [
        _found(row, matches.known[row["id"]], files, folder)
        if row["id"] in matches.known
        else _elsewhere(row, folder, taken)
        for row in rows
    ]
    for one in values:  # two recordings may swap their paths, which are unique
        db.execute("UPDATE recording SET path = ? WHERE id = ?", (f"recording {one['id']}", one["id"]))
    for one in values:
        columns = ", ".join(f"{name} = :{name}" for name in one)
        db.execute(f"UPDATE recording SET {columns} WHERE id = :id", one)
    for file in matches.new:
        _insert(db, file, files.measured(file.path), folder)
    _name_apart(db)


def _found(row: Row, file: Given, files: Files, folder: Path) -> Row:
    """The new values of a recording whose file was given."""
    values = {
        "id": row["id"], "path": writable(str(file.path)), "place": place_of(file.path, folder),
        "name": row["name"] if row["name"].endswith(f"/{file.name}") else file.name,
        "print": json.dumps(file.print, sort_keys=True), "key": cache_key(row), "sound": row["sound"],
    }  # fmt: skip
    if content(file.print) == row_content(row):
        return values if row["sound"] is not None else values | {"sound": files.sound(file.path)}
    measured = files.measured(file.path)
    if row["sound"] is None:
        values["key"] = new_key(values)  # what was drawn may be another sound
    return values | {"sound": measured.sound, "channels": measured.channels, "facts": measured.facts}


def _elsewhere(row: Row, folder: Path, taken: Container[Path]) -> Row:
    """The new values of a recording whose file was not given."""
    path, displaced = located(row, folder, taken)
    place = place_of(path, folder) if path.is_file() else row["place"]
    name = row["name"].removesuffix(EARLIER) + (EARLIER if displaced else "")
    return {"id": row["id"], "path": writable(str(path)), "place": place, "name": name, "key": cache_key(row)}


def _insert(db: sqlite3.Connection, file: Given, measured: Measured, folder: Path) -> None:
    values = {
        "path": writable(str(file.path)), "place": place_of(file.path, folder), "name": file.name,
        "sample_rate": measured.sample_rate, "channels": measured.channels, "n_samples": measured.n_samples,
        "print": json.dumps(file.print, sort_keys=True), "sound": measured.sound, "facts": measured.facts,
    }  # fmt: skip
    values["key"] = new_key(values)
    db.execute(
        f"INSERT INTO recording ({', '.join(values)}) VALUES ({', '.join(f':{name}' for name in values)})", values
    )


def _name_apart(db: sqlite3.Connection) -> None:
    """Recordings of one name get as many of their folders as tell them apart; else their number."""
    before = {row["id"]: row["name"] for row in _rows(db)}
    paths = {row["id"]: path_of(row) for row in _rows(db)}
    names, longer = before, dict[int, str]()
    while longer != names:
        n_of = Counter(names.values())
        names, longer = (
            longer or names,
            {number: _with_folder(name, paths[number]) if n_of[name] > 1 else name for number, name in names.items()},
        )
    seen = set[str]()
    for number, name in names.items():
        apart = f"{name} ({number})" if name in seen else name
        seen.add(apart)
        if apart != before[number]:
            db.execute("UPDATE recording SET name = ? WHERE id = ?", (apart, number))


def _with_folder(name: str, path: Path) -> str:
    """The name with one more of the folders of its path, as far as there are any.

    >>> _with_folder("1.wav", Path("/data/night/1.wav")), _with_folder("b.wav", Path("/data/a.wav"))
    ('night/1.wav', 'b.wav')
    """
    n = name.count("/") + 1
    parts = [writable(part) for part in path.parts[1:]]
    return "/".join(parts[-n - 1 :]) if "/".join(parts[-n:]) == name and len(parts) > n else name
