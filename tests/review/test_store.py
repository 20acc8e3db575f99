"""The project file: actions, undo, what is left after a kill."""

import contextlib
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from outlark.errors import InputError
from outlark.review.store import SCHEMA_VERSION, UNDOABLE, Store
from tests.review.replay import replayed


def tables(store: Store) -> dict[str, dict[int, dict]]:
    return {table: {row["id"]: row for row in store.rows(f'SELECT * FROM "{table}"')} for table in UNDOABLE}


@pytest.fixture
def store(tmp_path: Path):
    store = Store(tmp_path / "project.sqlite")
    yield store
    store.close()


def test_undo_all_and_redo_all_give_the_same_tables(store):
    with store.action("class") as action:
        song = action.insert("class", name="song", colour=0)
    with store.action("two changes") as action:
        first = action.insert("annotation", recording_id=1, class_id=song, t0=0, t1=50, role="example", origin="drawn")
        action.update("annotation", first, t1=80)
    with store.action("delete") as action:
        action.delete("annotation", first)
        action.update("class", song, name="call")
    full = tables(store)
    kinds = []
    while (event := store.undo()) is not None:
        kinds.append(event["kind"])
    assert kinds == ["delete", "two changes", "class"]
    assert not any(tables(store).values())
    while store.redo() is not None:
        pass
    assert tables(store) == full


def test_a_new_action_ends_what_could_be_redone(store):
    for name in "ab":
        with store.action(name) as action:
            action.insert("class", name=name, colour=0)
    store.undo()
    with store.action("c") as action:
        action.insert("class", name="c", colour=0)
    assert store.redo() is None
    assert [row["name"] for row in store.rows("SELECT name FROM class ORDER BY name")] == ["a", "c"]
    states = [row["state"] for row in store.rows("SELECT state FROM event ORDER BY id")]
    assert states == ["done", "dropped", "done"], "the log keeps what was dropped"


def test_an_action_that_fails_leaves_nothing(store):
    def half() -> None:
        with store.action("half") as action:
            action.insert("class", name="x", colour=0)
            action.delete("annotation", 99)

    with pytest.raises(InputError, match="there is no annotation 99"):
        half()
    assert not any(tables(store).values())
    assert not store.rows("SELECT * FROM event")


@pytest.mark.parametrize("version", [SCHEMA_VERSION - 1, SCHEMA_VERSION + 1])
def test_a_project_of_another_version_is_refused(tmp_path, version):
    with closing(sqlite3.connect(tmp_path / "other.sqlite", isolation_level=None)) as db:
        db.execute(f"PRAGMA user_version = {version}")
    with pytest.raises(InputError, match="update outlark"):
        Store(tmp_path / "other.sqlite")


def test_closing_waits_for_what_is_being_read(store):
    """Threads of a server that ends may still be answering; to take their connections away would crash the process."""
    with store.action("classes") as action:
        for n in range(100):
            action.insert("class", name=str(n), colour=0)
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            with contextlib.suppress(sqlite3.ProgrammingError):  # closed before it began
                store.rows("SELECT * FROM class a, class b")

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(30):
        store.close()
    ended.set()
    for thread in threads:
        thread.join()


def test_two_processes_may_write(store):
    other = Store(store.path)
    for n in range(10):
        for one in (store, other):
            with one.action("class") as action:
                action.insert("class", name=f"{n} {one is other}", colour=0)
    assert len(store.rows("SELECT * FROM class")) == 20
    assert tables(store) == replayed(store.rows("SELECT * FROM event ORDER BY id"))
    other.close()
