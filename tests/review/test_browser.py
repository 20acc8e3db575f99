"""The page in a real browser. Every visit also checks that no request leaves this computer and the console is empty."""

import json
import threading

import numpy as np
import pytest
import soundfile
from axe_playwright_python.sync_playwright import Axe

from outlark.data.demo_recordings import demo_sound
from outlark.data.synthetic import SAMPLE_RATE
from outlark.review.tiles import Pyramid
from tests.recordings_on_disk import outlark
from tests.review.browsing import Visit, chromium
from tests.review.conftest import KNOWN

pytestmark = pytest.mark.skipif(chromium() is None, reason="no Chromium here: apt-get install chromium")


def test_the_whole_loop(opened, visit, tmp_path):
    page = visit(opened)
    keys = page.page.keyboard
    _, placed = demo_sound(0)
    page.shot(tmp_path, "1-open")
    for number, label in enumerate(KNOWN[:2], start=1):
        for i, note in enumerate([p for p in placed if p.label == label][:3]):
            page.drag(note.start_s, note.end_s)
            if i == 0:
                keys.press("Enter")
                page.name(label)
            else:
                keys.press(str(number))
            page.page.wait_for_selector(f"#classes li:nth-child({number}) small:has-text('{i + 1} example')")
    page.shot(tmp_path, "2-marked")
    keys.press("t")
    page.job(1)
    page.shot(tmp_path, "3-trained")
    before = page.statuses()
    assert list(before.values()).count("confirmed") == 6
    keys.press("g")
    for key in "yyyn2y" * 5:
        page.page.wait_for_selector("#queue [aria-current=true][data-status=pending]")
        keys.press(key)
    page.saved()
    reviewed = page.statuses()
    assert sum(reviewed[i] != before[i] for i in before) == 30
    assert {"confirmed", "rejected", "relabelled"} <= set(reviewed.values())
    page.shot(tmp_path, "4-reviewed")
    for key, expected in (("z", before), ("Shift+Z", reviewed)):
        for _ in range(30):
            keys.press(key)
        page.saved()
        assert page.statuses() == expected
    keys.press("c")
    page.page.wait_for_selector("#gallery .grid button")
    page.shot(tmp_path, "5-gallery")
    keys.press("x")
    keys.press("Enter")
    keys.type("new one")
    keys.press("Enter")
    page.page.wait_for_selector("#classes .name:text-is('new one')")
    keys.press("t")
    page.job(2)
    page.shot(tmp_path, "6-retrained")
    project = page.get("/api/project")
    assert [c["examples"] >= 3 for c in project["classes"]] == [True] * 3
    assert project["classes"][2]["found"] >= 5
    page.page.select_option("#recording", "1")
    page.page.wait_for_selector("#spectrogram[data-recording='1']")
    page.page.locator("#spectrogram").focus()
    keys.press("e")
    page.page.select_option("#export-scope", "decided")
    with page.page.expect_download() as download:
        page.page.click("#export-save")
    assert download.value.suggested_filename == "demo_20240512_053000.wav.Table.1.selections.txt"
    exported = json.dumps(download.value.path().read_text())
    assert exported.count("new one") >= 5
    (tmp_path / "model.outlark").write_bytes((opened.project.folder / opened.project.run()["model"]).read_bytes())
    recording = opened.project.recording(1).path
    done = outlark("detect", tmp_path / "model.outlark", recording, "-o", tmp_path / "found", "-f", "raven", "-q")
    assert done.returncode == 0, done.stderr
    (detected,) = (tmp_path / "found").glob("*.selections.txt")
    assert detected.read_bytes() == download.value.path().read_bytes()
    page.shot(tmp_path, "7-export")
    shown = page.page.locator("#classes").inner_text()
    page.open()
    assert page.page.locator("#classes").inner_text() == shown
    assert page.statuses() == {item["id"]: item["status"] for item in page.get("/api/queue?order=time")["items"]}
    assert page.get("/api/project")["run"]["id"] == 2
    for picture in tmp_path.glob("*.png"):
        assert picture.stat().st_size > 30_000


def test_quick_keys_are_all_stored(trained, visit):
    page = visit(trained)
    page.page.keyboard.press("g")
    page.page.wait_for_selector("#queue [aria-current=true]")
    pending = list(page.statuses().values()).count("pending")
    for _ in range(pending + 5):
        page.page.keyboard.press("y")
    page.saved()
    assert set(page.statuses().values()) == {"confirmed"}
    events = trained.project.store.rows("SELECT * FROM event WHERE kind = 'review: confirm'")
    assert len(events) >= pending


@pytest.mark.parametrize("ratio", [1, 2])
def test_a_click_train_is_drawn_where_it_is(visit, opens, tmp_path, ratio):
    times = (2.0, 7.3217, 11.0831)
    clicks = np.zeros(15 * SAMPLE_RATE)
    clicks[[round(t * SAMPLE_RATE) for t in times]] = 0.9
    soundfile.write(tmp_path / "clicks.wav", clicks, SAMPLE_RATE)
    page = visit(opens(tmp_path / "clicks.wav"), device_scale_factor=ratio, color_scheme="light")
    for seconds in (15.0, 6.0, 2.0, 0.6, 0.2, 0.05):
        for t in times:
            page.show(t - seconds / 2, seconds)
            found, loud = _darkness(page)
            at = time_of(loud, found, t)
            tolerance = max(found["spp"], 1e-4)
            assert abs(at - round(t * SAMPLE_RATE) / SAMPLE_RATE) <= tolerance, (seconds, t, at)
    # what Chromium says of this test, which reads pixels
    page.ignored = "willReadFrequently"


def _darkness(page):
    """What `DARKNESS` gives and the dark columns, once a click is drawn: on a busy machine, tiles are painted late."""
    for _ in range(200):
        found = page.page.evaluate(DARKNESS)
        loud = np.array(found["columns"]) - np.median(found["columns"])
        if loud.max() > 0:
            break
        page.page.wait_for_timeout(50)
    loud[loud < 0.3 * loud.max()] = 0.0
    return found, loud


#: How dark each column of pixels of the spectrogram is; the cursor, which is red, does not count.
DARKNESS = """() => {
  const canvas = document.getElementById("spectrogram");
  const { data, width, height } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const columns = new Array(width).fill(0);
  for (let y = Math.floor(height * 0.2); y < height * 0.8; y++)
    for (let x = 0; x < width; x++) {
      const k = 4 * (y * width + x);
      if (Math.abs(data[k] - data[k + 1]) < 8) columns[x] += 255 - data[k];
    }
  return { columns, width, css: canvas.clientWidth, t0: Number(canvas.dataset.t0), spp: Number(canvas.dataset.spp) };
}"""


def time_of(loud: np.ndarray, found: dict, near_s: float) -> float:
    """The centroid of what is loud, among the columns next to a time."""
    times = found["t0"] + (np.arange(len(loud)) + 0.5) * found["spp"] * found["css"] / found["width"]
    keep = np.abs(times - near_s) < 0.5
    return float((loud * times * keep).sum() / (loud * keep).sum())


def test_accessibility(trained, visit):
    page = visit(trained)
    page.review_next()
    for theme in ("light", "dark", "contrast"):
        page.page.select_option("#theme", theme)
        page.page.click("#tab-review")
        page.settled()
        check(page, theme)
        page.page.click("#tab-thresholds")
        page.page.wait_for_selector(".histogram")
        check(page, f"{theme}, thresholds")
        page.page.locator("#spectrogram").focus()
        page.page.keyboard.press("c")
        page.page.wait_for_selector("#gallery .grid button")
        check(page, f"{theme}, gallery")
        page.page.keyboard.press("Escape")
    for key, shown in (("e", "#export-format"), ("?", "#letters")):
        page.page.locator("#spectrogram").focus()
        page.page.keyboard.press(key)
        page.page.wait_for_selector(shown)
        check(page, key)
        page.page.keyboard.press("Escape")


def check(page: Visit, where: str) -> None:
    tags = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
    found = Axe().run(page.page, options=tags).response["violations"]
    told = [(v["id"], [n["target"] for n in v["nodes"]][:3], v["nodes"][0]["any"][:1]) for v in found]
    assert told == [], where


def test_keyboard_alone(opened, visit):
    """From an empty project to a trained one without a mouse."""
    page = visit(opened, reduced_motion="reduce")
    keys = page.page.keyboard
    _, placed = demo_sound(0)
    page.page.locator("#spectrogram").focus()
    notes = [p for p in placed if p.label == "tuti-D" and p.end_s < 55][:2]
    for i, note in enumerate(notes):
        keys.press("Home")
        page.page.evaluate("(t) => import('/player.js').then((player) => player.seek(t))", 0)
        cursor(page, note.start_s)
        keys.press("m")
        cursor(page, note.end_s)
        keys.press("m")
        page.page.wait_for_selector("#floating:not([hidden])")
        keys.press("Enter" if i == 0 else "1")
        if i == 0:
            page.name("hoarse")
        page.page.wait_for_selector(f"#classes small:has-text('{i + 1} example')")
    marked = page.get("/api/recordings/1/annotations")
    for note, row in zip(notes, marked, strict=True):
        assert abs(row["t0"] / SAMPLE_RATE - note.start_s) < 0.05
        assert abs(row["t1"] / SAMPLE_RATE - note.end_s) < 0.05
    keys.press("]")
    page.saved()
    (moved,) = [r for r in page.get("/api/recordings/1/annotations") if r["id"] == marked[1]["id"]]
    assert moved["t0"] == marked[1]["t0"] + round(0.005 * SAMPLE_RATE)
    keys.press("Delete")
    page.page.wait_for_selector("#classes small:has-text('1 example')")
    keys.press("z")
    page.page.wait_for_selector("#classes small:has-text('2 example')")
    # every control can be reached with Tab
    reached = set()
    page.page.evaluate("document.activeElement.blur()")
    for _ in range(80):
        keys.press("Tab")
        reached.add(page.page.evaluate("document.activeElement.id"))
    wanted = {
        "recording",
        "undo",
        "train",
        "export",
        "help",
        "theme",
        "new-class",
        "spectrogram",
        "play",
        "tab-review",
        "top",
        "import",
    }
    assert wanted <= reached


def cursor(page: Visit, t: float) -> None:
    """Move the cursor to about a time with > and the dot."""
    for key, pixels in ((">", 40), (".", 2)):
        while True:
            data = page.page.evaluate(
                "() => import('/state.js').then(({state}) => ({at: state.playhead, spp: state.view.spp}))"
            )
            if data["at"] + pixels * data["spp"] > t + 0.5 * data["spp"]:
                break
            page.page.keyboard.press(key)


def test_the_threshold_is_dragged(trained, visit):
    page = visit(trained)
    known = len(page.statuses())
    box = page.page.locator("#threshold").bounding_box()
    top = page.page.locator("#scores").bounding_box()["y"]
    x, y = box["x"] + 200, box["y"] + box["height"] / 2
    page.page.mouse.move(x, y)
    page.page.mouse.down()
    page.page.mouse.move(x, (y + top) / 2)
    page.page.mouse.move(x, top + 3)
    page.page.mouse.up()
    page.job(1)
    assert len(page.statuses()) < known
    assert float(page.page.locator("#threshold").get_attribute("aria-valuenow")) > 2
    page.page.keyboard.press("z")
    page.job(2)
    assert len(page.statuses()) == known


def test_sound_is_played(trained, visit):
    page = visit(trained)
    page.page.locator("#spectrogram").focus()
    page.page.keyboard.press("g")
    page.page.wait_for_selector("body[data-played]")
    page.page.keyboard.press(" ")
    length = page.page.evaluate(LENGTH)
    assert length == pytest.approx(60.0)
    page.page.keyboard.press(" ")


LENGTH = """() => new Promise((done) => {
  const audio = document.getElementById("audio");
  const look = () => (audio.duration > 0 && audio.currentTime > 0 ? done(audio.duration) : setTimeout(look, 20));
  look();
})"""


def test_two_tabs_on_one_project(trained, visit):
    one = visit(trained)
    two = Visit(one.context.browser, one.url)
    for page in (one, two):
        page.review_next()
        page.page.keyboard.press("y")
        page.saved()
    one.page.keyboard.press("z")
    one.page.keyboard.press("z")
    one.saved()
    two.page.wait_for_selector("#queue-count:has-text('9 of')")
    assert list(two.statuses().values()).count("confirmed") == 9
    two.close()


def test_trouble_is_told_on_the_page(visit, opens, tmp_path, demo_recordings):
    source = next(demo_recordings.glob("*.wav"))
    (tmp_path / "a.wav").write_bytes(source.read_bytes())
    (tmp_path / "broken.wav").write_bytes(b"nothing")
    page = visit(opens(tmp_path))
    page.ignored = "status of 409"  # the browser's own line about the answer, whenever it comes
    page.page.wait_for_selector("#alerts:has-text('broken.wav')")
    check(page, "first steps, and an alert")
    page.page.click("#alerts button")
    (tmp_path / "a.wav").unlink()
    page.page.evaluate("() => import('/view.js').then((view) => view.show(30, 0.3))")
    page.page.wait_for_selector("#alerts:has-text('does not exist')")


def test_the_spectrogram_is_seen_while_it_is_computed(visit, opens, tmp_path, monkeypatch):
    samples = np.tile(demo_sound(0)[0], 4)
    soundfile.write(tmp_path / "long.wav", samples, SAMPLE_RATE)
    go_on, blocks = threading.Event(), Pyramid._blocks

    def slowly(self, size):
        for number, block in enumerate(blocks(self, size)):
            if number == 2:
                go_on.wait(60)
            yield block

    monkeypatch.setattr(Pyramid, "_blocks", slowly)
    opened = opens(tmp_path / "long.wav")
    page = visit(opened)
    page.page.evaluate("() => import('/view.js').then((view) => view.showAll())")
    page.page.wait_for_function("() => /[1-9][0-9]? %/.test(document.getElementById('building').textContent)")
    page.page.wait_for_function(f"() => {{ const found = ({DARKNESS})(); return found.columns[40] > 0; }}")
    assert not opened.project.pyramid(opened.project.recording(1)).whole
    go_on.set()
    page.page.wait_for_selector("#building[hidden]", state="attached")
    page.ignored = "willReadFrequently"
