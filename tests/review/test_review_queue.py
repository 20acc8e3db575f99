"""Long queues: every detection can be reached, and the counts are those of the server."""

import pytest

from outlark.data.synthetic import SAMPLE_RATE
from outlark.review.project import insert_detections
from outlark.segments import Segment
from tests.review.browsing import chromium

pytestmark = pytest.mark.skipif(chromium() is None, reason="no Chromium here: apt-get install chromium")


def lengthened(opened, total: int) -> None:
    """So many known detections, most of them of no length that matters, all over the recording."""
    store = opened.project.store
    have = store.row("SELECT count(*) AS n FROM detection WHERE class_id IS NOT NULL")["n"]
    run = opened.project.run()["id"]
    name = opened.project.class_names()[1]
    made = [
        Segment(start=300 * k, end=300 * k + 150, sample_rate=SAMPLE_RATE, label=name, score=0.5 + k / total)
        for k in range(total - have)
    ]
    with store.writing() as db:
        insert_detections(db, run, opened.project.recording(1), {name: 1}, made)


@pytest.mark.parametrize("order", ["uncertain", "random", "time"])
def test_pages_hold_each_detection_once(trained_client, order):
    lengthened(trained_client.opened, 3000)
    whole = trained_client.get("/api/queue", params={"order": order, "limit": 20000}).json()
    assert whole["total"] == len(whole["items"]) == 3000
    ids, more = [], {}
    while True:
        page = trained_client.get("/api/queue", params={"order": order, "limit": 700, **more}).json()
        ids += [item["id"] for item in page["items"]]
        # verdicts meanwhile do not move what follows
        trained_client.post("/api/reviews", json={"detection_id": ids[-1], "verdict": "confirm"})
        if not page["more"]:
            break
        more = {"after": ids[-1]}
    assert ids == [item["id"] for item in whole["items"]]
    through = trained_client.get("/api/queue", params={"order": order, "limit": 10, "through": ids[2500]}).json()
    assert [item["id"] for item in through["items"]] == ids[:2510]


def test_a_page_after_a_detection_that_is_gone_is_refused(trained_client):
    answer = trained_client.get("/api/queue", params={"after": 10**9})
    assert answer.status_code == 400
    assert "reload" in answer.json()["detail"]


def test_five_thousand_detections_can_all_be_reviewed(trained, visit):
    lengthened(trained, 5000)
    store, run = trained.project.store, trained.project.run()["id"]
    page = visit(trained)
    page.page.select_option("#queue-order", "time")
    page.page.wait_for_selector("#queue-count:has-text('of 5000 reviewed')")
    # all but ten are annotated as a person would have: what is left lies on the last pages
    rows = store.rows("SELECT * FROM detection WHERE run_id = ? AND class_id IS NOT NULL ORDER BY t0", run)
    with store.action("annotate") as action:
        for row in rows[:-10]:
            place = {name: row[name] for name in ("recording_id", "t0", "t1", "class_id")}
            action.insert("annotation", **place, role="truth", origin="confirmed")
    page.open()
    assert page.page.locator("#queue-order").input_value() == "time"
    count = page.page.locator("#queue-count")
    left = 5000 - int(count.inner_text().split()[0])
    assert 0 < left <= 10
    assert "Everything" not in page.page.locator("#card").inner_text()
    page.page.keyboard.press("g")
    for _ in range(left):
        current = page.page.wait_for_selector("#queue [aria-current=true][data-status=pending]")
        number = current.get_attribute("data-id")
        page.page.keyboard.press("y")
        page.page.wait_for_selector(f"#queue [data-id='{number}']:not([data-status=pending])", state="attached")
    page.saved()
    page.page.wait_for_selector("#queue-count:has-text('5000 of 5000')")
    page.page.wait_for_selector("#queue-count:has-text('Everything in this queue is reviewed')")
    assert "pending" not in page.statuses().values()


def test_what_is_clicked_beyond_the_first_page_can_be_judged(trained, visit):
    lengthened(trained, 3000)
    page = visit(trained)
    last = trained.project.store.row("SELECT * FROM detection WHERE recording_id = 1 ORDER BY t0 DESC LIMIT 1")
    t = (last["t0"] + last["t1"]) / 2 / trained.project.recording(1).sample_rate
    page.show(t - 0.5, 1)
    box = page.page.locator("#lanes").bounding_box()
    page.page.mouse.click(page.x(t), box["y"] + 5)
    page.page.wait_for_selector(f"#card[data-id='{last['id']}']")
    before = page.page.locator("#queue-count").inner_text()
    page.page.keyboard.press("y")
    page.saved()
    assert page.statuses().get(last["id"], "confirmed") == "confirmed"
    page.page.wait_for_function("(text) => document.getElementById('queue-count').innerText !== text", arg=before)
