"""Everyday accidents on the review page: a real server, a real Chromium, and what the project file holds afterwards.

A row counts verdicts (or detections, recordings and exported rows): how many were given, how many are in the project
file, how many twice, how many not at all.
"""

import io
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import urllib.request
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from chaos_ground import OUTLARK, Result, TrialError, not_run
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright
from playwright.sync_api import Error as BrowserError
from review_pictures import marked
from review_speed import FLAGS

from outlark.review.project import Job
from outlark.review.training import train

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
#: Milliseconds; a limit for what hangs, not for what is slow.
PATIENCE = 300_000
CURRENT = "() => import('/actions.js').then(({ currentItem }) => currentItem() ?? null)"
ANOTHER = "(id) => import('/actions.js').then(({ currentItem }) => currentItem()?.id !== id)"
#: Y for every note that comes, until none waits; in the page, because the way to it and back takes longer than the key.
CONFIRM_ALL = """async () => {
  const { currentItem } = await import("/actions.js"), { state } = await import("/state.js");
  const pending = () => state.queue.more || state.queue.items.some((item) => item.status === "pending");
  while (pending()) {
    const { id } = currentItem();
    document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "y", bubbles: true }));
    while (currentItem().id === id && pending()) await new Promise((done) => setTimeout(done));
  }
}"""
SAVED = "body:not([data-waiting]), body[data-waiting='0']"
#: The progress of a training from which on recordings are searched, or nearly.
SEARCHING = 0.5
#: Recording and onset of a detection.
Place = tuple[int, int]


class Desk:
    """A project about two recordings, its server, which comes back at the same address, and its file."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, 0
        self._server: subprocess.Popen[str] | None = None

    @property
    def project(self) -> Path:
        return self.folder / "outlark-review" / "project.sqlite"

    def start(self) -> str:
        """The address, once the server answers."""
        command = [*OUTLARK, "review", str(self.folder), "--no-browser", "--json", "--port", str(self.port)]
        environment = {**os.environ, "OUTLARK_CACHE": str(self.folder.parent / "cache")}
        self._server = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
        )
        assert self._server.stdout is not None
        line = self._server.stdout.readline()
        if not line:
            raise TrialError("the server of the review page did not start")
        url = str(json.loads(line)["url"])
        self.port = int(url.rstrip("/").rsplit(":", 1)[1])
        return url

    def signal(self, number: int) -> None:
        assert self._server is not None
        self._server.send_signal(number)
        if number in (signal.SIGKILL, signal.SIGTERM):
            self._server.communicate()

    def close(self) -> None:
        if self._server is not None and self._server.poll() is None:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGKILL)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        address = f"http://127.0.0.1:{self.port}"
        headers = {"content-type": "application/json", "origin": address}
        request = urllib.request.Request(address + path, json.dumps(body or {}).encode(), headers, method=method)
        if method == "GET":
            request.data = None
        with urllib.request.urlopen(request) as answer:
            return json.loads(answer.read() or b"null")

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(f"file:{self.project}?mode=ro", uri=True)) as db:
            return db.execute(query).fetchall()

    def verdicts(self) -> Counter[Place]:
        """How often each place has a verdict."""
        return Counter(self.rows("SELECT recording_id, t0 FROM review WHERE verdict = 'confirm'"))


class Tab:
    """The page in a tab of its own."""

    def __init__(self, person: BrowserContext, url: str) -> None:
        self.page: Page = person.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.page.on("dialog", lambda dialog: dialog.accept())  # "leave the page?"
        self.page.goto(url)
        self.ready()

    def ready(self) -> None:
        """Until a note is under review."""
        self.page.wait_for_selector("body[data-ready]")
        self.page.wait_for_function("() => import('/state.js').then(({ state }) => Boolean(state.recording))")
        self.page.keyboard.press("g")
        self.page.wait_for_function(CURRENT)
        self.page.wait_for_selector("#card .verdicts")

    def confirm(self, n: int) -> list[Place]:
        """Press Y for n notes, of which there must be more; the places."""
        found: list[Place] = []
        while len(found) < n:
            item = self.page.evaluate(CURRENT)
            self.page.keyboard.press("y")
            self.page.wait_for_function(ANOTHER, arg=item["id"])
            found.append((item["recording_id"], item["t0"]))
        return found

    def saved(self) -> None:
        """Until the page says that nothing waits to be stored."""
        self.page.wait_for_selector(SAVED)


def compared(scenario: str, done: str, given: Iterable[Any], kept: Counter[Any]) -> Result:
    """What was given against what is kept."""
    wanted = set(given)
    doubled, lost = (kept - Counter(wanted)).total(), len(wanted - set(kept))
    verdict = "identical" if not doubled and not lost else "WRONG: not what was given"
    return Result(scenario, done, len(wanted), kept.total(), doubled, lost, verdict)


class Office:
    """Makes desks with a trained project and opens tabs, for all trials."""

    def __init__(self, folder: Path, browser: Browser) -> None:
        self.folder, self._n = folder, 0
        self._person = browser.new_context(viewport={"width": 1440, "height": 900})  # whose tabs share their storage
        opened = marked(folder / "made", 3)
        train(opened.project, Job(1, "training"))
        opened.project.close()

    @contextmanager
    def desk(self) -> Iterator[tuple[Desk, str]]:
        """A copy of the project, and the address of its page."""
        self._n += 1
        shutil.copytree(self.folder / "made", self.folder / str(self._n) / "season")
        desk = Desk(self.folder / str(self._n) / "season")
        try:
            yield desk, desk.start()
        finally:
            desk.close()

    def tab(self, url: str) -> Tab:
        return Tab(self._person, url)


def killed(office: Office) -> Iterator[Result]:
    """The server is killed; verdicts go on, and it comes back."""
    with office.desk() as (desk, url):
        before, tab = set(desk.verdicts()), office.tab(url)
        given = tab.confirm(5)
        desk.signal(signal.SIGKILL)
        given += tab.confirm(5)
        desk.start()
        tab.saved()
        done = "SIGKILL after 5 verdicts, 5 more without it, started again"
        yield compared("review: server killed", done, before | set(given), desk.verdicts())


def stopped(office: Office) -> Iterator[Result]:
    """The server stands still for some verdicts, or is ended, and the page is loaded anew."""
    with office.desk() as (desk, url):
        before, tab = set(desk.verdicts()), office.tab(url)
        desk.signal(signal.SIGSTOP)
        given = tab.confirm(5)
        desk.signal(signal.SIGCONT)
        tab.saved()
        done = "SIGSTOP, 5 verdicts, SIGCONT"
        yield compared("review: server stands still", done, before | set(given), desk.verdicts())
        desk.signal(signal.SIGTERM)
        given += tab.confirm(3)
        desk.start()
        tab.page.reload()
        tab.ready()
        tab.saved()
        done = "SIGTERM, 3 verdicts without it, started again, page loaded anew"
        yield compared("review: server ended", done, before | set(given), desk.verdicts())


def moved(office: Office) -> Iterator[Result]:
    """The folder gets another name: recordings, verdicts and exports are those of before."""
    with office.desk() as (desk, url):
        tab = office.tab(url)
        tab.confirm(3)
        tab.saved()
        before, exported = _all_of(desk), _exported(desk)
        desk.signal(signal.SIGTERM)
        desk.folder = desk.folder.rename(desk.folder.parent / "USB disk")
        desk.start()
        done = "3 verdicts, folder renamed, opened again"
        yield compared("review: project moved", done, before, _all_of(desk))
        yield compared("review: project moved", "its exports", exported, _exported(desk))


def _all_of(desk: Desk) -> Counter[Any]:
    """Recordings by name, and verdicts and annotations by place and the name of their recording."""
    kept: Counter[Any] = Counter(r["name"] for r in desk.ask("GET", "/api/project")["recordings"])
    for table in ("review", "annotation"):
        query = f"SELECT r.name, x.t0, x.t1 FROM {table} x JOIN recording r ON r.id = x.recording_id"
        kept.update((table, *row) for row in desk.rows(query))
    return kept


def _exported(desk: Desk) -> Counter[Any]:
    """The rows of the exported tables."""
    with urllib.request.urlopen(f"http://127.0.0.1:{desk.port}/api/export?format=csv&scope=corrected") as answer:
        archive = zipfile.ZipFile(io.BytesIO(answer.read()))
    tables = [name for name in archive.namelist() if name.endswith(".csv")]
    return Counter((name, row) for name in tables for row in enumerate(archive.read(name).decode().splitlines()))


def cancelled(office: Office) -> Iterator[Result]:
    """A training that is cancelled leaves the detections of the last one, which can be reviewed."""
    with office.desk() as (desk, url):
        shown, before = set(_detections(desk)), set(desk.verdicts())
        tab = office.tab(url)
        job = desk.ask("POST", "/api/train")["id"]
        given = tab.confirm(2)
        while (now := desk.ask("GET", f"/api/jobs/{job}"))["progress"] < SEARCHING and now["state"] == "running":
            pass
        desk.ask("DELETE", f"/api/jobs/{job}")
        while (state := desk.ask("GET", f"/api/jobs/{job}")["state"]) == "running":
            pass
        tab.saved()
        done = f"Train again, 2 verdicts, Cancel ({state})"
        yield compared("review: training cancelled", done, shown, Counter(_detections(desk)))
        yield compared("review: training cancelled", "its verdicts", before | set(given), desk.verdicts())


def _detections(desk: Desk) -> list[Any]:
    """Places of what the page shows, or would show."""
    recordings = desk.ask("GET", "/api/project")["recordings"]
    found = [d for r in recordings for d in desk.ask("GET", f"/api/recordings/{r['id']}/detections")]
    return [(d["recording_id"], d["t0"], d["t1"]) for d in found]


def many(office: Office, n: int) -> Iterator[Result]:
    """A queue of thousands can be reviewed to its end."""
    with office.desk() as (desk, _):
        desk.signal(signal.SIGTERM)
        _multiply(desk.project, n)
        tab = office.tab(desk.start())
        wanted = set(desk.rows("SELECT recording_id, t0 FROM detection WHERE class_id IS NOT NULL"))
        tab.page.evaluate(CONFIRM_ALL)
        tab.saved()
        done = f"{len(wanted):,} detections, Y until the end"
        yield compared("review: a long queue", done, wanted, desk.verdicts())


def _multiply(project: Path, n: int) -> None:
    """More detections like the first one, one after another and too short to overlap, until there are n."""
    with closing(sqlite3.connect(project)) as db, db:
        first = "SELECT run_id, recording_id, class_id, verdict, score, reason FROM detection WHERE class_id NOT NULL"
        like = db.execute(f"{first} LIMIT 1").fetchone()
        db.execute("DELETE FROM detection")
        db.execute("DELETE FROM annotation")
        db.execute("DELETE FROM review")
        insert = "INSERT INTO detection (run_id, recording_id, class_id, verdict, score, reason, t0, t1)"
        db.executemany(f"{insert} VALUES (?, ?, ?, ?, ?, ?, ?, ?)", [(*like, 200 * k, 200 * k + 150) for k in range(n)])


def two_tabs(office: Office) -> Iterator[Result]:
    """Two tabs that review the same queue at once, the second from its tenth note on; then the server is killed."""
    with office.desk() as (desk, url):
        before, tabs = set(desk.verdicts()), [office.tab(url), office.tab(url)]
        for _ in range(9):
            tabs[1].page.keyboard.press("j")
        given = [place for _ in range(7) for tab in tabs for place in tab.confirm(1)]
        desk.signal(signal.SIGKILL)
        given += [place for _ in range(5) for tab in tabs for place in tab.confirm(1)]
        desk.start()
        for tab in tabs:
            tab.saved()
        done = "7 verdicts in each in turn, SIGKILL, 5 more in each, started again; some on the same notes"
        yield compared("review: two tabs", done, before | set(given), desk.verdicts())


TRIALS: dict[str, Callable[[Office], Iterator[Result]]] = {
    "review-killed": killed,
    "review-stopped": stopped,
    "review-moved": moved,
    "review-cancelled": cancelled,
    "review-many": lambda office: many(office, 5000),
    "review-tabs": two_tabs,
}


def tried(name: str, folder: Path) -> Iterator[Result]:
    """One trial, in a browser of its own."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        yield not_run(name, "there is no Chromium")
        return
    place = folder / name
    place.mkdir()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        try:
            yield from TRIALS[name](Office(place, browser))
        except (BrowserError, OSError, KeyError) as error:
            raise TrialError(str(error).splitlines()[0]) from error
        finally:
            browser.close()
