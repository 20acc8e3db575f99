"""How fast the review page is on an hour of sound, in a real browser.

    python benchmarks/review_speed.py                 # an hour
    python benchmarks/review_speed.py --minutes 10    # a quick look

Prints each figure with its target and their ratio: building the spectrogram, opening the page, panning, memory,
verdicts by key. The server is a process of its own, as for users. On a shared machine wall time says little: the
processor time of the server and of the page is printed as well, and each frame counts by the fastest of four. The
recording repeats one minute of the demonstration; that minute is really searched, and its detections and scores are
repeated with it.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import soundfile
from playwright.sync_api import Page, sync_playwright

from outlark.data.demo_recordings import demo_sound
from outlark.data.synthetic import SAMPLE_RATE
from outlark.review.changes import NewAnnotation, NewName, annotate, new_class
from outlark.review.opening import open_project
from outlark.review.project import Job, Project, ProjectRecording
from outlark.review.tiles import save_curves
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
#: Figure → the target it should stay below.
TARGETS = {
    "pyramid of an hour, s": 10.0,
    "open and drawn, s": 3.0,
    "open again, s": 3.0,
    "pan, p95, ms a frame": 10.0,
    "pan zoomed out, p95, ms a frame": 10.0,
    "heap, MB": 80.0,
    "100 verdicts, s": 5.0,
}
PAN = """async (seconds) => {
  const view = await import("/view.js"), { frames } = await import("/main.js");
  view.show(10, seconds);
  await new Promise((done) => setTimeout(done, 800));
  const least = new Array(240).fill(Infinity);
  for (let again = 0; again < 4; again++) {
    view.show(10, seconds);
    await new Promise((done) => setTimeout(done, 300));
    for (let i = 0; i < least.length; i++) {
      view.pan(0.02);
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      least[i] = Math.min(least[i], frames.at(-1));
    }
  }
  return least;
}"""
KNOWN = ("tuti-D", "tuti-F", "cach-Z")
TICKS = os.sysconf("SC_CLK_TCK")


def told(name: str, value: float, note: str = "") -> None:
    """Print a figure, its target and their ratio."""
    target = TARGETS.get(name)
    against = "" if target is None else f"   target {target:g}, ratio {value / target:.2f}"
    print(f"{name:34} {value:9.2f}{against}{note and '   ' + note}", flush=True)


def pyramid_built(project: Project, recording: ProjectRecording, minutes: int) -> None:
    """Build the spectrogram of the long recording."""
    wall, cpu = time.perf_counter(), time.process_time()
    project.pyramid(recording).build()
    wall, cpu = (60 / minutes * t for t in (time.perf_counter() - wall, time.process_time() - cpu))
    told("pyramid of an hour, s", wall, f"processor {cpu:.1f} s")
    size = sum(file.stat().st_size for file in (project.folder / "cache" / recording.key).rglob("*.npy"))
    told("pyramid of an hour, MB", 60 / minutes * size / 1e6)


def prepared(folder: Path, minutes: int) -> None:
    """A project about a minute that is searched and a long recording that repeats it."""
    samples, placed = demo_sound(0)
    soundfile.write(folder / "minute.wav", samples, SAMPLE_RATE, subtype="PCM_16")
    with soundfile.SoundFile(folder / "long.wav", "w", SAMPLE_RATE, 1, "PCM_16") as file:
        for _ in range(minutes):
            file.write(samples)
    project = open_project([folder / "minute.wav"], folder / "project").project
    (minute,) = project.recordings()
    for label in KNOWN:
        new_class(NewName(name=label), project)
        for note in [p for p in placed if p.label == label][:3]:
            t0, t1 = (round(t * SAMPLE_RATE) for t in (note.start_s, note.end_s))
            number = project.class_ids()[label]
            annotate(NewAnnotation(recording_id=minute.id, class_id=number, t0=t0, t1=t1), project)
    train(project, Job(1, "training"))
    project.add(folder / "long.wav", "long.wav")
    long = next(r for r in project.recordings() if r.name == "long.wav")
    repeat_found(project, minute, long, minutes)
    pyramid_built(project, long, minutes)
    project.close()


def repeat_found(project: Project, minute: ProjectRecording, long: ProjectRecording, minutes: int) -> None:
    """Detections, candidates and scores of the minute, over and over."""
    for table in ("detection", "candidate"):
        rows = project.store.rows(f"SELECT * FROM {table}")
        with project.store.writing() as db:
            db.execute(f"DELETE FROM {table}")  # only the long recording is to be reviewed
            for shift in range(0, minutes * minute.n_samples, minute.n_samples):
                for row in rows:
                    row = {**row, "recording_id": long.id, "t0": row["t0"] + shift, "t1": row["t1"] + shift}
                    del row["id"]
                    columns = ", ".join(row)
                    annotations = ", ".join("?" * len(row))
                    db.execute(f"INSERT INTO {table} ({columns}) VALUES ({annotations})", tuple(row.values()))
    told("detections", len(project.store.rows("SELECT id FROM detection")))
    with project.store.writing() as db:
        db.execute("UPDATE run SET scanned = ?", (json.dumps([minute.id, long.id]),))
    source, target = (project.run_folder(1, recording) for recording in (minute, long))
    save_curves(np.tile(np.load(source / "0.npy")[:, :, 1], (minutes, 1)), target)
    shutil.copy(source / "spans.json", target)


@contextmanager
def served(folder: Path):
    """`outlark review` as a process of its own: its address and process id."""
    command = [
        sys.executable,
        "-m",
        "outlark",
        "review",
        str(folder / "long.wav"),
        "--project",
        str(folder / "project"),
    ]
    child = subprocess.Popen([*command, "--no-browser", "--json"], stdout=subprocess.PIPE, text=True)
    try:
        yield json.loads(child.stdout.readline())["url"], child.pid
    finally:
        child.terminate()
        child.wait()


def processor_s(pid: int) -> float:
    """Seconds of processor time that a process has used (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Watched:
    """A page whose main thread is timed by Chromium itself."""

    def __init__(self, page: Page, server: int) -> None:
        self.page, self._server = page, server
        self._session = page.context.new_cdp_session(page)
        self._session.send("Performance.enable")

    @contextmanager
    def timing(self, name: str):
        """Print wall time, and the processor time of page and server, of what happens inside."""
        wall, (main, page), server = time.perf_counter(), self._busy_s(), processor_s(self._server)
        yield
        wall, (main_then, page_then) = time.perf_counter() - wall, self._busy_s()
        server = processor_s(self._server) - server
        main, page = max(0.0, main_then - main), max(0.0, page_then - page)
        told(name, wall, f"processor: main thread {main:.2f} s, page {page:.2f} s, server {server:.2f} s")

    def _busy_s(self) -> tuple[float, float]:
        metrics = {one["name"]: one["value"] for one in self._session.send("Performance.getMetrics")["metrics"]}
        return metrics["ThreadTime"], metrics["ProcessTime"]


def drawn(page: Page, url: str) -> None:
    """Open the page, until its spectrogram, scores and decisions are drawn."""
    page.goto(url)
    page.wait_for_selector("body[data-ready]")
    page.wait_for_selector("#spectrogram[data-pending='0']")


def judged(page: Page, n: int) -> None:
    """Verdicts by key, until all are stored."""
    for _ in range(n):
        page.keyboard.press("y")
    page.wait_for_selector("body[data-waiting='0']", timeout=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=int, default=60)
    given = parser.parse_args()
    with TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        prepared(folder, given.minutes)
        with served(folder) as (url, server):
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            watched = Watched(page, server)
            with watched.timing("open and drawn, s"):
                drawn(page, url)
            with watched.timing("open again, s"):
                drawn(page, url)
            for name, seconds in (("pan", 12), ("pan zoomed out", 600)):
                frames = page.evaluate(PAN, seconds)
                told(f"{name}, p95, ms a frame", float(np.quantile(frames, 0.95)), f"median {np.median(frames):.2f} ms")
            told("heap, MB", page.evaluate("performance.memory.usedJSHeapSize / 1e6"))
            page.keyboard.press("g")
            page.wait_for_selector("#queue [aria-current=true]")
            page.wait_for_timeout(500)
            with watched.timing("100 verdicts, s"):
                judged(page, 100)
            items = page.evaluate("fetch('/api/queue?limit=20000').then((answer) => answer.json())")["items"]
            told("verdicts stored", sum(item["status"] == "confirmed" for item in items))
            browser.close()


if __name__ == "__main__":
    main()
