"""The pictures of the review page in docs/pictures: python benchmarks/review_pictures.py [--output docs/pictures]"""

import argparse
import shutil
import socket
import threading
from pathlib import Path
from tempfile import TemporaryDirectory

import uvicorn
from PIL import Image
from playwright.sync_api import Page, sync_playwright
from review_speed import FLAGS

from outlark.experiment.synthetic import SAMPLE_RATE
from outlark.review.actions import annotate, judge, new_class
from outlark.review.app import make_app
from outlark.review.demo import demo_sound
from outlark.review.jobs import Job
from outlark.review.opening import Opened, open_project
from outlark.review.queues import queue
from outlark.review.training import train

KNOWN = ("tuti-D", "tuti-F", "cach-Z")


def prepared(folder: Path) -> Opened:
    """The demonstration with three notes of each class marked, a model, and some verdicts."""
    opened = open_project([], folder)
    project, (_, placed) = opened.project, demo_sound(0)
    recording = project.recordings()[0]
    for label in KNOWN:
        new_class(project, label)
        number = project.class_ids()[label]
        for note in [p for p in placed if p.label == label][:3]:
            annotate(project, recording, number, round(note.start_s * SAMPLE_RATE), round(note.end_s * SAMPLE_RATE))
    train(project, Job(1, "training"))
    pending = [i for i in queue(project, order="random", of="known", limit=99)["items"] if i["status"] == "pending"]
    for number, item in enumerate(pending[:16]):
        judge(project, item["id"], "reject" if number == 7 else "confirm", None, "random")
    return opened


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("docs/pictures"))
    output = parser.parse_args().output
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        opened = prepared(Path(folder))
        bound = socket.create_server(("127.0.0.1", 0))
        host = f"127.0.0.1:{bound.getsockname()[1]}"
        server = uvicorn.Server(uvicorn.Config(make_app(opened, [host]), log_level="error", lifespan="off"))
        threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True).start()
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(f"http://{host}/")
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
        browser.close()
        server.should_exit = True
        opened.project.close()


if __name__ == "__main__":
    main()
