"""Everyday use of the page: small windows, many classes, large groups, names, edges, and where one was."""

import pytest

from tests.review.browsing import Visit, chromium

pytestmark = pytest.mark.skipif(chromium() is None, reason="no Chromium here: apt-get install chromium")

SMALL = {"width": 1280, "height": 720}
STATE = "(name) => import('/state.js').then(({ state }) => state[name])"


def boxed(page: Visit, selector: str) -> dict[str, float]:
    return page.page.locator(selector).bounding_box()


def with_classes(opened, n: int) -> None:
    store = opened.project.store
    have = store.row("SELECT count(*) AS n FROM class")["n"]
    with store.action("classes") as action:
        for k in range(have, n):
            action.insert("class", name=f"another class of notes {k}", colour=k % 8)


def test_nine_classes_in_a_small_window(trained, visit):
    with_classes(trained, 9)
    page = visit(trained, viewport=SMALL)
    page.review_next()
    foot = boxed(page, "footer")
    assert foot["y"] + foot["height"] <= 720
    for control in ("#play", "#top", "#zoom-all"):
        at = boxed(page, control)
        assert at["y"] + at["height"] <= foot["y"]
    assert boxed(page, "#spectrogram")["height"] >= 100
    assert boxed(page, "#queue-of")["y"] >= boxed(page, "#tab-review")["y"], "the review panel is not scrolled away"
    lanes = boxed(page, "#lanes")
    assert lanes["y"] + lanes["height"] <= boxed(page, "#play")["y"]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_scrolls_sideways_at_twice_the_size(trained, visit, theme):
    with_classes(trained, 9)
    page = visit(trained, viewport={"width": 640, "height": 360}, device_scale_factor=2, color_scheme=theme)
    wide = "() => [document.documentElement.scrollWidth, innerWidth]"
    for key in ("g", "e", "Escape", "?", "Escape"):
        page.page.keyboard.press(key)
        page.settled()
        scrolled, window = page.page.evaluate(wide)
        assert scrolled <= window


def test_the_header_stays_while_a_job_runs(trained, visit):
    page = visit(trained, viewport=SMALL)
    before = [boxed(page, one) for one in ("header", "#train", "#recording", "#spectrogram")]
    page.page.evaluate(
        "() => { document.getElementById('job').hidden = false;"
        "document.getElementById('job-text').textContent = 'training: searching the second recording'.repeat(3); }"
    )
    assert [boxed(page, one) for one in ("header", "#train", "#recording", "#spectrogram")] == before
    assert boxed(page, "#job-cancel")["width"] > 30
    page.page.evaluate(
        "() => Object.assign(document.getElementById('job-new'), { hidden: false, textContent: 'See 100 of 200 new' })"
    )
    assert boxed(page, "#job-text")["width"] > 20


def test_a_gallery_of_148(trained, visit):
    store = trained.project.store
    with store.writing() as db:
        (number,) = db.execute("SELECT min(id) FROM cluster").fetchone()
        db.execute("DELETE FROM member WHERE cluster_id = ?", (number,))
        rows = [(number, 1, 300 * k, 300 * k + 2000, float(k)) for k in range(148)]
        db.executemany("INSERT INTO member (cluster_id, recording_id, t0, t1, distance) VALUES (?, ?, ?, ?, ?)", rows)
    page = visit(trained, viewport=SMALL)
    page.page.keyboard.press("c")
    page.page.wait_for_selector("#gallery .grid button")
    sizes = page.page.evaluate(
        "() => [...document.querySelectorAll('#gallery .grid button')].map((b) => [b.clientHeight, b.scrollHeight])"
    )
    assert len(sizes) == 148
    assert all(height >= 104 and height >= needed for height, needed in sizes)


def test_a_class_is_deleted_and_comes_back(trained, visit):
    page = visit(trained)
    page.page.click("#classes li:first-child .more")
    page.page.click("#dialog button:has-text('Delete class')")
    page.page.click("#dialog button.primary")
    page.page.wait_for_selector("#classes .name:text-is('tuti-D')", state="detached")
    page.saved()
    page.page.wait_for_selector("#status:has-text('tuti-D was deleted')")
    page.page.locator("#spectrogram").focus()
    page.page.keyboard.press("z")
    page.page.wait_for_selector("#classes .name:text-is('tuti-D')")
    page.page.click("#classes li:first-child .more")
    page.page.fill("#name", "  hoarse   call ")
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector("#classes .name:text-is('hoarse call')")


def test_a_name_with_two_spaces_labels_the_note(opened, visit):
    page = visit(opened)
    page.drag(10.0, 10.3)
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector("#dialog #name")
    page.page.keyboard.type("grey  tit")
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector("#classes small:has-text('1 example')")
    assert [c["name"] for c in page.get("/api/project")["classes"]] == ["grey tit"]


def test_space_plays_from_what_is_in_view(trained, visit):
    page = visit(trained)
    page.show(30, 5)
    page.page.locator("#spectrogram").focus()
    page.page.keyboard.press(" ")
    page.page.wait_for_function("() => document.getElementById('audio').currentTime > 30")
    assert page.page.evaluate(STATE, "view")["t0"] >= 29.9
    page.show(10, 5)  # looking elsewhere while it plays
    page.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert page.page.evaluate(STATE, "view")["t0"] == pytest.approx(10, abs=0.01)
    page.page.keyboard.press(" ")


def test_an_edge_stops_at_the_other(trained, visit):
    page = visit(trained)
    page.drag(30.0, 30.05)
    for _ in range(20):
        page.page.keyboard.press("]")
    chosen = page.page.evaluate(STATE, "selection")
    assert chosen["t0"] < chosen["t1"]
    page.page.keyboard.press("1")
    page.page.wait_for_function("() => import('/state.js').then(({ state }) => state.annotation > 0)")
    for key in "]]]}{{{{{{{{{{{{{{{{{{":
        page.page.keyboard.press(key)
    page.saved()
    number = page.page.evaluate(STATE, "annotation")
    (row,) = [r for r in page.get("/api/recordings/1/annotations") if r["id"] == number]
    assert row["t1"] - row["t0"] >= 16
    assert not page.page.locator("#alerts p").count()


def test_undo_returns_to_the_note(trained, visit):
    page = visit(trained)
    page.review_next()
    first = page.page.locator("#queue [aria-current=true]").get_attribute("data-id")
    page.page.keyboard.press("y")
    page.page.wait_for_selector(f"#queue [data-id='{first}'][data-status=confirmed]", state="attached")
    page.saved()
    page.page.keyboard.press("z")
    page.page.wait_for_selector(f"#queue [data-id='{first}'][aria-current=true][data-status=pending]")
    assert page.page.locator("#card").get_attribute("data-id") == first


def test_a_reload_keeps_the_place(trained, visit):
    page = visit(trained)
    page.page.select_option("#recording", "2")
    page.page.wait_for_selector("#spectrogram[data-recording='2']")
    page.page.select_option("#queue-order", "random")
    page.page.select_option("#queue-of", "unknown")
    page.page.wait_for_function(
        "() => import('/state.js').then(({ state }) => state.queue.items[0]?.class_id === null)"
    )
    page.show(21, 4)
    page.open()
    view = page.page.evaluate(STATE, "view")
    assert page.page.locator("#recording").input_value() == "2"
    assert view["t0"] == pytest.approx(21, abs=0.05)
    assert page.page.locator("#queue-order").input_value() == "random"
    assert page.page.locator("#queue-of").input_value() == "unknown"


def test_alerts_leave_the_spectrogram_free_and_can_be_closed(trained, visit):
    page = visit(trained, viewport=SMALL)
    told = "() => import('/dom.js').then(({ alertUser }) => alertUser('x'.repeat(200) + ' is not there; put it back'))"
    page.page.evaluate(told)
    alert, plot = boxed(page, "#alerts p"), boxed(page, "#spectrogram")
    assert alert["x"] >= plot["x"] + plot["width"]
    assert boxed(page, "#alerts button")["height"] < 32
    page.page.clock.install()
    page.page.evaluate(told.replace("put it back", "look"))
    page.page.clock.run_for(30_000)
    page.page.wait_for_selector("#alerts p:has-text('look')", state="detached")
    page.page.click("#alerts button")
    assert not page.page.locator("#alerts p").count()


def test_a_dropped_table_is_imported(trained, visit, tmp_path):
    page = visit(trained)
    before = len(page.get("/api/recordings/1/annotations"))
    text = "40.0\t40.2\ttuti-D\n"
    page.page.evaluate(
        "(text) => { const data = new DataTransfer(); data.items.add(new File([text], 'notes.txt'));"
        "document.dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true })); }",
        text,
    )
    page.page.wait_for_selector("#status:has-text('1 annotations from notes.txt')")
    assert len(page.get("/api/recordings/1/annotations")) == before + 1
