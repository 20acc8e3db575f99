"""How fast the review page is on an hour of sound, in a real browser: python benchmarks/review_page.py [--minutes 60]

Prints the figures of docs/benchmarks.md: building the spectrogram, opening the page, panning, memory, verdicts by key.
They depend on the machine; what is asserted about the page is in tests/review.
"""

import argparse
import shutil
import socket
import statistics
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import soundfile
import uvicorn
from playwright.sync_api import Page, sync_playwright

from outlark.experiment.synthetic import SAMPLE_RATE
from outlark.review.app import make_app
from outlark.review.demo import demo_sound
from outlark.review.jobs import Job
from outlark.review.opening import Opened, open_project
from outlark.review.training import train

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--mute-audio",
    "--autoplay-policy=no-user-gesture-required",
    "--enable-precise-memory-info",
)
PAN = """async () => {
  const view = await import("/view.js"), { frames } = await import("/main.js");
  view.show(10, 12);
  await new Promise((done) => setTimeout(done, 800));
  frames.length = 0;
  for (let i = 0; i < 240; i++) { view.pan(0.02); await new Promise(requestAnimationFrame); }
  return [...frames];
}"""


class Figures(dict[str, float]):
    """Prints each figure when it is known: a run over an hour takes a while."""

    def __setitem__(self, name: str, value: float) -> None:
        super().__setitem__(name, value)
        print(f"{name:20} {value:10.3f}", flush=True)


def hour_of_sound(path: Path, minutes: int) -> None:
    """The demonstration over and over, each time other notes."""
    with soundfile.SoundFile(path, "w", SAMPLE_RATE, 1, "PCM_16") as file:
        for seed in range(minutes):
            file.write(demo_sound(seed)[0])


def annotated(folder: Path, minutes: int, search: bool) -> tuple[Opened, "Figures"]:
    """A trained project about one long recording, and how long its parts took."""
    hour_of_sound(folder / "long.wav", minutes)
    opened, took = open_project([folder / "long.wav"], folder / "project"), Figures()
    project = opened.project
    recording = project.recordings()[0]
    start = time.perf_counter()
    pyramid = project.pyramid(recording)
    pyramid.build()
    took["pyramid_s"] = time.perf_counter() - start
    took["pyramid_mb"] = sum(f.stat().st_size for f in (project.folder / "cache").rglob("*.npy")) / 1e6
    _, placed = demo_sound(0)
    for label in ("tuti-D", "tuti-F", "cach-Z"):
        with project.store.action("class") as action:
            number = action.insert("class", name=label, colour=len(project.classes()))
            for note in [p for p in placed if p.label == label][:3]:
                span = {"t0": round(note.start_s * SAMPLE_RATE), "t1": round(note.end_s * SAMPLE_RATE)}
                action.insert(
                    "annotation", recording_id=recording.id, class_id=number, **span, role="example", origin="drawn"
                )
    if not search:
        return opened, took
    start = time.perf_counter()
    train(project, Job(1, "training"))
    took["train_and_search_s"] = time.perf_counter() - start
    return opened, took


def drawn(page: Page, url: str) -> float:
    """Seconds from asking for the page until its spectrogram, scores and decisions are drawn."""
    start = time.perf_counter()
    page.goto(url)
    page.wait_for_selector("body[data-ready]")
    page.wait_for_selector("#spectrogram[data-pending='0']")
    return time.perf_counter() - start


def verdicts(page: Page, n: int) -> float:
    """Seconds for so many verdicts by key until all are stored."""
    page.keyboard.press("g")
    page.wait_for_selector("#queue [aria-current=true]")
    start = time.perf_counter()
    for _ in range(n):
        page.keyboard.press("y")
    page.wait_for_selector("body[data-waiting='0']", timeout=0)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--keys", type=int, default=100)
    parser.add_argument("--no-search", dest="search", action="store_false", help="no scores, detections and verdicts")
    given = parser.parse_args()
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        opened, found = annotated(Path(folder), given.minutes, given.search)
        bound = socket.create_server(("127.0.0.1", 0))
        host = f"127.0.0.1:{bound.getsockname()[1]}"
        server = uvicorn.Server(uvicorn.Config(make_app(opened, [host]), log_level="error", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        found["open_s"] = drawn(page, f"http://{host}/")
        found["open_again_s"] = statistics.median(drawn(page, f"http://{host}/") for _ in range(3))
        frames = page.evaluate(PAN)
        found["pan_ms_p50"], found["pan_ms_p95"] = (float(q) for q in np.quantile(frames, [0.5, 0.95]))
        found["heap_mb"] = page.evaluate("performance.memory.usedJSHeapSize / 1e6")
        if given.search:
            found["verdicts_s"] = verdicts(page, given.keys)
            stored = opened.project.store.row("SELECT count(*) AS n FROM event WHERE kind = 'review: confirm'")
            found["verdicts_stored"] = stored["n"]
        browser.close()
        server.should_exit = True
        thread.join(10)
        opened.project.close()


if __name__ == "__main__":
    main()
