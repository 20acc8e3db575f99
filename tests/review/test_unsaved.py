"""Changes that cannot be stored at once: kept in the browser, shown as unsaved, sent again, stored once."""

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from contextlib import suppress

import pytest

from outlark.review.opening import open_project
from outlark.review.store import Store
from tests.review.browsing import Visit, chromium
from tests.review.conftest import Client, limited

pytestmark = pytest.mark.skipif(chromium() is None, reason="no Chromium here: apt-get install chromium")


@pytest.fixture
def visit(visit):
    """Visits during which requests may fail: the browser's own lines about them are not complaints of the page."""

    def to(*args: object) -> Visit:
        page = visit(*args)
        page.ignored = "Failed to load resource"
        return page

    return to


def unsaved(page: Visit, n: int) -> None:
    """Until the page says that so many changes are not saved, and does not say that all are."""
    page.page.wait_for_selector(f"body[data-waiting='{n}']")
    page.page.wait_for_selector("#foot.trouble #saved:has-text('not saved')")
    assert "All changes are saved" not in page.page.locator("footer").inner_text()


def judged(page: Visit, key: str, times: int = 1) -> list[int]:
    """Press a key for one pending note after the other; their ids."""
    ids = []
    for _ in range(times):
        current = page.page.wait_for_selector("#queue [aria-current=true][data-status=pending]")
        ids.append(int(current.get_attribute("data-id")))
        page.page.keyboard.press(key)
        page.page.wait_for_selector(f"#queue [data-id='{ids[-1]}']:not([data-status=pending])", state="attached")
    return ids


def back(page: Visit) -> None:
    """Once the server is there again: ask the page to try, and wait until it has saved everything."""
    with suppress(Exception):  # it may have tried by itself in this very moment
        page.page.click("#saved button:has-text('Try again')", timeout=3000)
    page.page.wait_for_selector("#saved:has-text('All changes are saved.')")
    page.saved()


def events(opened) -> list[str]:
    return [row["kind"] for row in opened.project.store.rows("SELECT kind FROM event ORDER BY id")]


def test_verdicts_given_while_the_server_is_stopped_are_stored_when_it_is_back(trained, visit, serving):
    page = visit(trained)
    page.review_next()
    before = events(trained)
    serving.stop(page.url)
    ids = judged(page, "u", 3)
    unsaved(page, 3)
    assert events(trained) == before
    serving.again(trained, page.url)
    back(page)
    assert events(trained) == [*before, *["review: unknown"] * 3]
    assert {page.statuses()[i] for i in ids} == {"relabelled"}


def test_unsaved_changes_outlive_the_page_and_leaving_it_warns(trained, visit, serving):
    page = visit(trained)
    page.review_next()
    serving.stop(page.url)
    ids = judged(page, "u", 2)
    unsaved(page, 2)
    asked = []
    page.page.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.dismiss()))
    page.page.evaluate("location.reload()")
    page.page.wait_for_function("() => document.body.dataset.waiting === '2'")
    assert asked == ["beforeunload"]
    page.page.close(run_before_unload=False)
    serving.again(trained, page.url)
    page.page = page.context.new_page()
    page.open()
    page.saved()
    assert {page.statuses()[i] for i in ids} == {"relabelled"}
    assert events(trained)[-2:] == ["review: unknown"] * 2


def test_a_reload_with_changes_that_cannot_be_stored_shows_them(trained, visit, monkeypatch):
    """A server that answers, on a disk that is full: they are drawn as judged, and counted as unsaved."""
    page = visit(trained)
    page.review_next()
    store, connect = trained.project.store, sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", limited(connect, store.row("PRAGMA page_count")["page_count"]))
    store.close()  # a disk without a free page, as seen by all connections from now on
    for _ in range(20):
        page.page.keyboard.press("y")
    page.page.wait_for_selector("#saved:has-text('free some space')")
    n = int(page.page.evaluate("document.body.dataset.waiting"))
    unsaved(page, n)
    shown = int(page.page.locator("#queue-count").inner_text().split()[0])
    assert shown > list(page.statuses().values()).count("confirmed")
    page.page.on("dialog", lambda dialog: dialog.accept())
    page.page.goto(page.url)
    page.page.wait_for_selector("body[data-ready]")
    unsaved(page, n)
    page.page.wait_for_selector(f"#queue-count:has-text('{shown} of')")
    monkeypatch.setattr(sqlite3, "connect", connect)
    store.close()
    back(page)
    assert list(page.statuses().values()).count("confirmed") == shown


def test_a_change_whose_answer_was_lost_is_stored_once(trained, visit):
    page = visit(trained)
    page.review_next()
    before = events(trained)

    asked = []

    def lose(route) -> None:
        """The first answer is lost, the others arrive."""
        asked.append(route.request.headers["idempotency-key"])
        if len(asked) > 1:
            route.continue_()
            return
        route.fetch()
        route.abort()

    page.page.route("**/api/reviews", lose)
    (judged_id,) = judged(page, "u")
    page.saved()
    assert len(asked) == 2
    assert len(set(asked)) == 1
    assert len(events(trained)) == len(before) + 1
    assert page.statuses()[judged_id] == "relabelled"


def test_a_change_that_is_refused_is_told_and_the_rest_are_stored(trained, visit, serving):
    page = visit(trained)
    page.review_next()
    serving.stop(page.url)
    before = events(trained)
    (gone,) = judged(page, "u") and judged(page, "y")
    judged(page, "u")
    unsaved(page, 3)
    with trained.project.store.writing() as db:  # as another tab deletes a class
        db.execute("DELETE FROM class WHERE id = (SELECT class_id FROM detection WHERE id = ?)", (gone,))
    serving.again(trained, page.url)
    back(page)
    page.page.wait_for_selector("#alerts:has-text('Not saved')")
    page.page.wait_for_selector(f"#queue [data-id='{gone}']", state="detached")
    assert events(trained) == [*before, *["review: unknown"] * 2]


def test_verdicts_on_results_that_were_replaced_meanwhile_are_stored(trained, visit, serving):
    """They are about a place in a recording, whatever a new model has found there."""
    page = visit(trained)
    page.review_next()
    serving.stop(page.url)
    ids = judged(page, "u", 2) + judged(page, "y") + judged(page, "n")
    unsaved(page, 4)
    store, span = trained.project.store, "recording_id, t0, t1"
    places = [tuple(store.row(f"SELECT {span} FROM detection WHERE id = ?", number).values()) for number in ids]
    with Client(trained) as client:
        for _ in range(2):
            assert client.work("/api/train")["state"] == "done"
    assert [store.row("SELECT id FROM detection WHERE id = ?", number) for number in ids] == [None] * 4
    serving.again(trained, page.url)
    back(page)
    assert page.page.locator("#alerts").inner_text() == ""
    given = store.rows(f"SELECT {span}, origin FROM annotation ORDER BY id DESC LIMIT 4")[::-1]
    assert [tuple(row.values())[:3] for row in given] == places
    assert [row["origin"] for row in given] == ["relabelled", "relabelled", "confirmed", "rejected"]
    assert events(trained)[-4:] == ["review: unknown", "review: unknown", "review: confirm", "review: reject"]


def test_a_note_that_could_not_be_shown_is_shown_when_the_server_is_back(trained, visit, serving):
    """A verdict must not be about another note than the one in sight: here the next one is in another recording."""
    page = visit(trained)
    page.review_next()
    shown = page.page.locator("#recording").input_value()
    serving.stop(page.url)
    current = "() => import('/actions.js').then(({ currentItem }) => String(currentItem().recording_id))"
    while page.page.evaluate(current) == shown:
        judged(page, "u")
    page.page.wait_for_selector("#status:has-text('cannot be shown')")
    assert page.page.locator("#recording").input_value() == shown
    serving.again(trained, page.url)
    back(page)
    page.page.wait_for_function(f"() => document.getElementById('recording').value !== '{shown}'")
    page.page.wait_for_function("() => document.querySelector('#card canvas').height === 256")


def test_annotations_and_undo_wait_like_verdicts(trained, visit, serving):
    page = visit(trained)
    keys = page.page.keyboard
    before = events(trained)
    count = len(page.get("/api/recordings/1/annotations"))
    page.drag(30.0, 30.2)
    serving.stop(page.url)
    keys.press("1")
    unsaved(page, 1)
    page.page.evaluate("() => import('/state.js').then(({ state }) => { state.selection = null; })")
    keys.press("g")
    judged(page, "u")
    unsaved(page, 2)
    keys.press("z")  # it may have reached the server: undone there, after it
    page.page.wait_for_selector("#queue [aria-current=true][data-status=pending]")
    assert page.page.evaluate("document.body.dataset.waiting") in ("1", "3")
    serving.again(trained, page.url)
    back(page)
    assert events(trained)[: len(before) + 1] == [*before, "annotate"]
    states = [row["state"] for row in trained.project.store.rows("SELECT state FROM event ORDER BY id")]
    assert states[len(before)] == "done"
    assert set(states[len(before) + 1 :]) <= {"undone"}
    assert len(page.get("/api/recordings/1/annotations")) == count + 1


def test_what_needs_the_server_says_so(trained, visit, serving):
    page = visit(trained)
    serving.stop(page.url)
    page.page.wait_for_selector("body[data-connection=away]")
    for press in ("#new-class", "#classes li:first-child .more", "#train", "#export"):
        page.page.click(press)
        page.page.wait_for_selector("#alerts:has-text('not possible now')")
        assert not page.page.locator("dialog[open]").count()
        page.page.click("#alerts button")
    serving.again(trained, page.url)
    page.page.wait_for_selector("body[data-connection=there]")
    page.page.click("#new-class")
    page.page.wait_for_selector("#dialog #name")


def test_another_project_at_the_same_address_gets_nothing(trained, visit, serving, opens, demo_recordings, tmp_path):
    (tmp_path / "other").mkdir()
    shutil.copy(next(demo_recordings.glob("*.wav")), tmp_path / "other")
    other = opens(tmp_path / "other")
    page = visit(trained)
    page.review_next()
    serving.stop(page.url)
    judged(page, "u", 2)
    unsaved(page, 2)
    serving.again(other, page.url)
    page.page.wait_for_selector("#saved:has-text('another project')")
    assert events(other) == []
    serving.stop(page.url)
    serving.again(trained, page.url)
    back(page)
    assert events(trained)[-2:] == ["review: unknown"] * 2


def test_unsaved_changes_can_be_thrown_away(trained, visit, serving):
    page = visit(trained)
    page.review_next()
    before = events(trained)
    serving.stop(page.url)
    (judged_id,) = judged(page, "u")
    unsaved(page, 1)
    page.page.click("#saved button:has-text('Throw away')")
    page.page.click("#dialog button:has-text('Throw away')")
    page.page.wait_for_selector(f"#queue [data-id='{judged_id}'][data-status=pending]")
    serving.again(trained, page.url)
    page.page.wait_for_selector("body[data-connection=there]")
    page.open()
    assert events(trained) == before


def test_two_tabs_that_save_at_once_show_each_others_changes(trained, visit):
    """The answer to a change tells that another one came before it, without waiting for the next look."""
    one = visit(trained)
    two = visit(one.url)
    one.review_next()
    two.page.evaluate("() => { setInterval = () => 0; }")
    two.review_next()
    two.page.route("**/api/revision", lambda route: route.abort())  # no look at what others do
    mine = judged(one, "u", 2)
    one.saved()
    judged(two, "y")
    two.saved()
    for number in mine:
        two.page.wait_for_selector(f"#queue [data-id='{number}']:not([data-status=pending])", state="attached")


def served(folder, *more: object) -> tuple[subprocess.Popen, str]:
    """`outlark review`, as a person starts it, and its address."""
    command = [sys.executable, "-m", "outlark", "review", folder, "--no-browser", "--json", *map(str, more)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return process, json.loads(process.stdout.readline())["url"]


def test_a_killed_server_is_found_again_where_it_was(demo_recordings, trained_folder, tmp_path, visit):
    """Without --port: the page that is still open must reach the project when outlark is started again."""
    shutil.copytree(trained_folder, tmp_path / "project")
    process, url = served(demo_recordings, "--project", tmp_path / "project")
    try:
        page = visit(url)
        page.review_next()
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        judged(page, "u", 3)
        unsaved(page, 3)
        process, again = served(demo_recordings, "--project", tmp_path / "project")
        assert again == url
        back(page)
    finally:
        process.kill()
        process.communicate()
    store = Store(tmp_path / "project" / "project.sqlite")
    kinds = [row["kind"] for row in store.rows("SELECT kind FROM event ORDER BY id")]
    store.close()
    assert kinds[-3:] == ["review: unknown"] * 3
    assert kinds.count("review: unknown") == 3


def test_a_port_that_is_taken_is_no_obstacle(demo_recordings, tmp_path):
    open_project([demo_recordings], tmp_path / "project").project.close()
    process, url = served(demo_recordings, "--project", tmp_path / "project")
    process.kill()
    process.communicate()
    port = int(url.rstrip("/").rsplit(":", 1)[1])
    with socket.create_server(("127.0.0.1", port)):
        process, other = served(demo_recordings, "--project", tmp_path / "project")
        process.kill()
        process.communicate()
    assert other != url
