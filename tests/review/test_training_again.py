"""Training again on the page: what was found before stays, and can be reviewed, until the new results are complete."""

import errno
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from outlark.review import training
from outlark.review.opening import Opened, open_project
from outlark.review.store import UNDOABLE
from tests.recordings_on_disk import environment
from tests.review.browsing import Visit, chromium
from tests.review.conftest import Client, annotation
from tests.review.replay import replayed

in_chromium = pytest.mark.skipif(chromium() is None, reason="no Chromium here: apt-get install chromium")


class Gate:
    """Lets the first recording be searched, and holds the second until it is opened or told to fail."""

    def __init__(self, search: Callable) -> None:
        self._search, self._open, self.error, self._n = search, threading.Event(), None, 0

    def __call__(self, *args: object) -> object:
        self._n += 1
        if self._n == 2:
            *_, progress = args
            while not self._open.wait(0.02):
                progress(0.0)  # stops here if the job is cancelled
            if self.error is not None:
                raise self.error
        return self._search(*args)

    def open(self, error: Exception | None = None) -> None:
        self.error = error
        self._open.set()


@pytest.fixture
def gate(monkeypatch) -> Iterator[Gate]:
    gate = Gate(training.search)
    monkeypatch.setattr(training, "search", gate)
    yield gate
    gate.open()


def train_up_to_the_gate(page: Visit) -> None:
    page.page.keyboard.press("t")
    page.page.wait_for_selector("#job-text:has-text('searching demo_20240512_061500.wav')")


def judge_next(page: Visit, key: str = "y") -> dict:
    """Give a verdict on the next note; the note."""
    page.review_next()
    page.page.wait_for_selector("#queue [aria-current=true][data-status=pending]")
    number = int(page.page.locator("#queue [aria-current=true]").get_attribute("data-id"))
    page.page.keyboard.press(key)
    page.saved()
    assert page.page.locator("#alerts p").count() == 0
    return next(i for i in page.get("/api/queue?order=time&limit=20000")["items"] if i["id"] == number)


def nothing_is_left_of_the_new_run(opened: Opened) -> None:
    store = opened.project.store
    assert [row["id"] for row in store.rows("SELECT id FROM run")] == [1]
    for table in ("detection", "candidate", "cluster"):
        assert {row["run_id"] for row in store.rows(f"SELECT DISTINCT run_id FROM {table}")} <= {0, 1}
    assert sorted(path.name for path in (opened.project.folder / "models").iterdir()) == ["run-1.outlark"]
    assert not (opened.project.folder / "cache" / "run-2").exists()
    tables = {t: {row["id"]: row for row in store.rows(f'SELECT * FROM "{t}"')} for t in UNDOABLE}
    assert tables == replayed(store.rows("SELECT * FROM event ORDER BY id"))


@in_chromium
def test_the_old_results_are_reviewed_until_the_new_ones_are_complete(trained, visit, gate):
    page = visit(trained)
    before = page.statuses()
    train_up_to_the_gate(page)
    assert page.statuses().keys() == before.keys()
    item = judge_next(page)
    assert item["status"] == "confirmed"
    # what the new model has found so far is one click away, and so is the way back
    page.page.click("#job-new")
    page.page.wait_for_selector("#job-text:has-text('model 2 so far: 1 of 2 recordings')")
    new = page.statuses(2)
    assert new.keys().isdisjoint(before)
    page.page.wait_for_selector(f"#queue li[data-id='{min(new)}'], #queue li[data-id='{max(new)}']", state="attached")
    second = judge_new(page, new)
    page.page.click("#job-new")
    page.page.wait_for_selector("#job-text:not(:has-text('so far'))")
    kept = page.statuses()
    assert kept.keys() == before.keys()
    gate.open()
    page.job(1)
    project = page.get("/api/project")
    assert (project["run"]["id"], project["run"]["searched"]) == (2, 2)
    assert project["run"]["new"] >= 1, "what was judged meanwhile is not in the model yet"
    found = page.get("/api/queue?order=time&limit=20000")["items"]
    for place in (item, second):
        (same,) = [f for f in found if all(f[k] == place[k] for k in ("recording_id", "t0", "t1", "class_id"))]
        assert same["status"] == "confirmed"
    # undo returns to the results before, with all verdicts, and redo to the new ones
    page.page.keyboard.press("z")
    page.page.wait_for_selector("#model:has-text('model 1')")
    assert page.statuses() == kept
    page.page.keyboard.press("Shift+Z")
    page.page.wait_for_selector("#model:has-text('model 2')")
    assert page.statuses() == {f["id"]: f["status"] for f in found}


def judge_new(page: Visit, new: dict[int, str]) -> dict:
    """Confirm the first pending note of the run that is being made."""
    page.review_next()
    page.page.wait_for_selector("#queue [aria-current=true][data-status=pending]")
    number = int(page.page.locator("#queue [aria-current=true]").get_attribute("data-id"))
    assert new[number] == "pending"
    page.page.keyboard.press("y")
    page.saved()
    return next(i for i in page.get("/api/queue?order=time&limit=20000&run=2")["items"] if i["id"] == number)


@in_chromium
@pytest.mark.parametrize("how", ["cancelled", "failed"])
def test_what_is_not_completed_changes_nothing(trained, visit, gate, how):
    page = visit(trained)
    before = page.statuses()
    train_up_to_the_gate(page)
    item = judge_next(page, "n")
    if how == "cancelled":
        page.page.click("#job-cancel")
    else:
        gate.open(OSError(errno.ENOSPC, "No space left on device"))
    page.job(1)
    assert page.get("/api/jobs/1")["state"] == how
    after = page.statuses()
    assert after == {**before, item["id"]: "rejected"}
    page.page.wait_for_selector("#model:has-text('model 1')")
    nothing_is_left_of_the_new_run(trained)
    page.page.click("#alerts button") if how == "failed" else None
    judge_next(page)


@in_chromium
def test_results_of_the_first_model_appear_as_recordings_are_searched(opened, visit, gate):
    with Client(opened) as client:
        annotation(client)
    page = visit(opened)
    page.page.keyboard.press("t")
    page.page.wait_for_selector("#queue li")
    judge_next(page)
    assert {i["recording_id"] for i in page.get("/api/queue?order=time")["items"]} == {1}
    gate.open()
    page.job(1)
    assert {i["recording_id"] for i in page.get("/api/queue?order=time")["items"]} == {1, 2}


@in_chromium
def test_review_does_not_wait_for_the_grouping(opened, visit, monkeypatch):
    with Client(opened) as client:
        annotation(client)
    find, go_on = training.find_clusters, threading.Event()

    def held(*args: object) -> None:
        *_, job = args
        while not go_on.wait(0.02):
            job.tell(0.0, "")
        find(*args)

    monkeypatch.setattr(training, "find_clusters", held)
    page = visit(opened)
    page.page.keyboard.press("t")
    page.page.wait_for_selector("body[data-jobs='1']")
    page.page.wait_for_selector("#clusters[aria-busy='true']", state="attached")
    judge_next(page)
    judge_next(page, "n")
    # other work does not wait either
    assert page.page.evaluate("fetch('/api/decide', {method: 'POST'}).then((answer) => answer.status)") == 202
    go_on.set()
    page.page.wait_for_selector("#clusters li")
    page.page.wait_for_selector("#clusters[aria-busy='false']", state="attached")
    assert page.get("/api/project")["grouping"] is False


#: Serves a project; the second recording of a training is never searched.
SERVE = """
import sys, threading
from pathlib import Path
from outlark.review import training
from outlark.review.opening import open_project
from outlark.review.serving import bind, serve

search, n = training.search, 0

def held(*args):
    global n
    n += 1
    if n == 2:
        args[-1](0.0)
        threading.Event().wait()
    return search(*args)

training.search = held
address = bind("127.0.0.1", 0)
serve(open_project([sys.argv[1]], Path(sys.argv[2])), address, lambda: print(address.url, flush=True))
"""


@in_chromium
def test_a_kill_during_training_again_returns_to_the_old_results(trained, demo_recordings, browser, serving):
    """SIGKILL of the server: after a restart the run before and all verdicts are there, and nothing of the new run."""
    folder = trained.project.folder
    trained.project.close()
    command = [sys.executable, "-c", SERVE, str(demo_recordings), str(folder)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment())
    try:
        page = Visit(browser, child.stdout.readline().strip())
        before = page.statuses()
        train_up_to_the_gate(page)
        judged = [judge_next(page, key)["id"] for key in "yn"]
        page.close()
    finally:
        child.send_signal(signal.SIGKILL)
        child.communicate()
    opened = open_project([demo_recordings], folder)
    try:
        page = Visit(browser, serving(opened))
        expected = dict(zip(judged, ("confirmed", "rejected"), strict=True))
        assert page.statuses() == {**before, **expected}
        page.page.wait_for_selector("#model:has-text('model 1')")
        nothing_is_left_of_the_new_run(opened)
        assert page.get("/api/project")["clusters"]
        page.close()
    finally:
        opened.project.close()


def test_a_run_that_another_process_makes_is_left_alone(trained, demo_recordings, gate):
    """Two windows on one project: opening the second does not sweep away what the first is making."""
    with Client(trained) as one:
        before = {i["id"] for i in one.get("/api/queue", params={"limit": 20000}).json()["items"]}
        job = one.post("/api/train", json={}).json()
        while one.get(f"/api/jobs/{job['id']}").json()["searched"] < 1:
            pass
        other = open_project([demo_recordings], trained.project.folder)
        with Client(other) as two:
            assert {i["id"] for i in two.get("/api/queue", params={"limit": 20000}).json()["items"]} == before
            refused = two.work("/api/train")
            assert refused["state"] == "failed"
            assert "another" in refused["message"]
            gate.open()
            trained.project.jobs.wait()
            assert two.get("/api/project").json()["run"]["id"] == 2
        other.project.close()


def test_a_verdict_on_what_was_just_replaced_is_stored(trained_client):
    """Thresholds were moved, or a model was trained, while the verdict was on its way."""
    client = trained_client
    first = client.get("/api/queue", params={"order": "time"}).json()["items"][0]
    assert client.work("/api/decide")["state"] == "done"
    second = client.get("/api/queue", params={"order": "time"}).json()["items"][1]
    assert client.work("/api/train")["state"] == "done"
    for item in (first, second):
        found = {name: item[name] for name in ("recording_id", "class_id", "t0", "t1", "score")}
        body = {"detection_id": item["id"], "found": found, "verdict": "confirm"}
        assert client.post("/api/reviews", json=body).status_code == 201
    now = client.get("/api/queue", params={"order": "time", "limit": 20000}).json()["items"]
    for item in (first, second):
        assert [i["status"] for i in now if (i["recording_id"], i["t0"]) == (item["recording_id"], item["t0"])] == [
            "confirmed"
        ]


def test_undo_reaches_back_over_several_trainings(trained_client):
    """Results of models before the last one are searched again when they are wanted."""
    client = trained_client
    first = client.get("/api/queue", params={"order": "time", "limit": 20000}).json()["items"]
    for _ in range(2):
        assert client.work("/api/train")["state"] == "done"
    for number in (2, 1):
        assert client.post("/api/undo").json()["run"] is True
        assert client.get("/api/project").json()["run"]["id"] == number
    assert client.get("/api/project").json()["run"]["searched"] == 0
    assert client.work("/api/scan")["state"] == "done"
    again = client.get("/api/queue", params={"order": "time", "limit": 20000}).json()["items"]
    assert [(i["t0"], i["t1"], i["class_id"], i["status"]) for i in again] == [
        (i["t0"], i["t1"], i["class_id"], i["status"]) for i in first
    ]
    events = client.opened.project.store.rows("SELECT * FROM event ORDER BY id")
    assert [json.loads(e["changes"])[0]["table"] for e in events if e["kind"] == "train again"] == ["setting"] * 2
