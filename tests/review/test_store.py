"""The project file: actions, undo, what is left after a kill."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from outlark.errors import InputError
from outlark.review.store import STEPS, UNDOABLE, Store, migrate
from tests.review.replay import replayed

#: Forks children that review one after the other and are killed after so many acknowledged actions.
KILLS = """
import os, random, signal, sys
from pathlib import Path
from outlark.review.store import Store

path, kills = Path(sys.argv[1]), int(sys.argv[2])
chance, acknowledged = random.Random(7), 0
for _ in range(kills):
    heard, told = os.pipe()
    child = os.fork()
    if child == 0:
        store = Store(path)
        n = 0
        while True:
            n += 1
            if n % 5 == 0:
                store.undo()
            else:
                with store.action("review") as action:
                    place = {"recording_id": 1, "t0": n, "t1": n + 100}
                    action.insert("annotation", **place, role="truth", origin="confirmed")
                    action.insert("review", **place, run_id=1, score=1.0, verdict="confirm", queue="time")
            os.write(told, b"x")
    os.close(told)
    for _ in range(chance.randrange(1, 6)):
        acknowledged += len(os.read(heard, 1))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    acknowledged += len(os.read(heard, 10_000))
    os.close(heard)
print(acknowledged)
"""


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


def test_results_cannot_be_changed_by_an_action(store):
    with pytest.raises(InputError, match="'detection' cannot be changed"), store.action("wrong") as action:
        action.insert("detection", run_id=1)


def test_a_project_of_a_later_outlark_is_refused(tmp_path):
    db = sqlite3.connect(tmp_path / "later.sqlite", isolation_level=None)
    db.execute(f"PRAGMA user_version = {len(STEPS) + 1}")
    with pytest.raises(InputError, match="update outlark"):
        migrate(db)
    db.close()


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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_hundred_kills_lose_at_most_the_action_in_flight(tmp_path):
    path = tmp_path / "project.sqlite"
    Store(path).close()
    done = subprocess.run([sys.executable, "-c", KILLS, path, "100"], capture_output=True, text=True, check=True)
    acknowledged = int(done.stdout)
    store = Store(path)
    events = store.rows("SELECT * FROM event ORDER BY id")
    # an undo is no new event: it turns one
    turned = sum(event["state"] != "done" for event in events)
    assert acknowledged <= len(events) + turned <= acknowledged + 100
    assert acknowledged > 100
    assert tables(store) == replayed(events)
    assert all(json.loads(event["changes"]) for event in events)
    assert store.row("PRAGMA integrity_check") == {"integrity_check": "ok"}
    store.close()


def test_a_killed_writer_releases_the_project(tmp_path):
    """Killed in the midst of a transaction: nothing of it is there, and others can write."""
    path = tmp_path / "project.sqlite"
    code = (
        "import sys; from pathlib import Path; from outlark.review.store import Store\n"
        "store = Store(Path(sys.argv[1]))\n"
        "with store.action('half') as action:\n"
        "    action.insert('class', name='half', colour=0)\n"
        "    print('inside', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", code, path]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"inside\n"
    child.send_signal(signal.SIGKILL)
    child.communicate()
    store = Store(path)
    assert not any(tables(store).values())
    with store.action("whole") as action:
        action.insert("class", name="whole", colour=0)
    store.close()
