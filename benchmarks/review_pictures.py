"""The pictures of the review page in docs/pictures: python benchmarks/review_pictures.py [--output docs/pictures]"""

import argparse
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import uvicorn
from PIL import Image
from playwright.sync_api import Page, sync_playwright
from review_speed import FLAGS

from outlark.data.demo_recordings import demo_sound
from outlark.data.synthetic import SAMPLE_RATE
from outlark.review.changes import NewAnnotation, NewName, Verdict, annotate, judge, new_class
from outlark.review.opening import Opened, open_project
from outlark.review.project import Job
from outlark.review.queues import queue
from outlark.review.serving import make_app
from outlark.review.training import train

KNOWN = ("tuti-D", "tuti-F", "cach-Z")


def marked(folder: Path, n: int) -> Opened:
    """The demonstration with n notes of each class annotated."""
    opened = open_project([], folder)
    project, (_, placed) = opened.project, demo_sound(0)
    recording = project.recordings()[0]
    for label in KNOWN:
        new_class(NewName(name=label), project)
        number = project.class_ids()[label]
        for note in [p for p in placed if p.label == label][:n]:
            t0, t1 = (round(t * SAMPLE_RATE) for t in (note.start_s, note.end_s))
            annotate(NewAnnotation(recording_id=recording.id, class_id=number, t0=t0, t1=t1), project)
    return opened


def reviewed(folder: Path) -> Opened:
    """The same with a model and some verdicts."""
    opened = marked(folder, 3)
    project = opened.project
    train(project, Job(1, "training"))
    pending = [i for i in queue(project, order="random", of="known", limit=99)["items"] if i["status"] == "pending"]
    for number, item in enumerate(pending[:16]):
        verdict = "reject" if number == 7 else "confirm"
        judge(Verdict(detection_id=item["id"], verdict=verdict, queue="random"), project)
    return opened


@contextmanager
def served(opened: Opened) -> Iterator[str]:
    """The address of its page."""
    bound = socket.create_server(("127.0.0.1", 0))
    host = f"127.0.0.1:{bound.getsockname()[1]}"
    server = uvicorn.Server(uvicorn.Config(make_app(opened, [host]), log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    yield f"http://{host}/"
    server.should_exit = True
    thread.join(10)
    opened.project.close()


def taken(page: Page, path: Path, theme: str) -> None:
    """One picture, when all of it is drawn."""
    page.select_option("#theme", theme)
    page.locator("#spectrogram").focus()
    page.wait_for_timeout(600)
    page.wait_for_selector("#spectrogram[data-pending='0']")
    kept(page, path)


def kept(page: Page, path: Path) -> None:
    """A screenshot with a palette: noise makes others large."""
    page.screenshot(path=path)
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(200, dither=Image.Dither.NONE).save(path, optimize=True)
    print(path, path.stat().st_size // 1000, "kB")


def first_steps(page: Page, url: str, output: Path) -> None:
    """A third note of a class is being marked."""
    page.goto(url)
    page.wait_for_selector("body[data-ready]")
    note = [p for p in demo_sound(0)[1] if p.label == KNOWN[0]][2]
    page.evaluate("([t, s]) => import('/view.js').then((view) => view.show(t, s))", [note.start_s - 3, 6])
    page.wait_for_timeout(600)
    box = page.locator("#spectrogram").bounding_box()
    x, y = (lambda t: box["x"] + box["width"] * (t - note.start_s + 3) / 6), box["y"] + box["height"] / 2
    page.mouse.move(x(note.start_s), y)
    page.mouse.down()
    page.mouse.move(x(note.start_s) + 9, y)
    page.mouse.move(x(note.end_s), y)
    page.mouse.up()
    taken(page, output / "review_first_steps.png", "light")


def review(page: Page, url: str, output: Path) -> None:
    """A note under review, the thresholds, and the gallery."""
    page.goto(url)
    page.wait_for_selector("body[data-ready]")
    page.keyboard.press("g")
    page.wait_for_timeout(800)
    taken(page, output / "review_page.png", "light")
    page.click("#tab-thresholds")
    taken(page, output / "review_page_dark.png", "dark")
    page.keyboard.press("c")
    page.wait_for_selector("#gallery .grid button")
    page.wait_for_timeout(1500)
    kept(page, output / "review_gallery.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("docs/pictures"))
    output = parser.parse_args().output
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        with served(marked(Path(folder, "first"), 2)) as url:
            first_steps(page, url, output)
        with served(reviewed(Path(folder, "then"))) as url:
            review(page, url, output)
        browser.close()


if __name__ == "__main__":
    main()
