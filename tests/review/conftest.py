"""A project with notes that are marked and a model, made once and copied; a client; a server; a browser."""

import shutil
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import uvicorn
from playwright.sync_api import Browser, sync_playwright
from starlette.testclient import TestClient

from outlark.data.demo_recordings import demo_sound
from outlark.data.synthetic import SAMPLE_RATE
from outlark.review.opening import Opened, open_project
from outlark.review.serving import make_app
from tests.review.browsing import FLAGS, Visit, chromium

HOST = "127.0.0.1:8000"
#: Classes that are marked, in the order of their keys.
KNOWN = ("tuti-D", "tuti-F", "cach-Z")


class Client(TestClient):
    """As the page asks: with its own address as origin."""

    def __init__(self, opened: Opened, **more: object) -> None:
        self.opened = opened
        headers = {"origin": f"http://{HOST}"}
        super().__init__(make_app(opened, [HOST], **more), base_url=f"http://{HOST}", headers=headers)

    def work(self, path: str, **body: object) -> dict:
        """Start a job and wait for its end."""
        answer = self.post(path, json=body)
        assert answer.status_code == 202, answer.text
        self.opened.project.jobs.wait()
        self.opened.project.chores.wait()
        return self.get(f"/api/jobs/{answer.json()['id']}").json()


@contextmanager
def project_of(*args: object, **more: object) -> Iterator[Client]:
    """A client of the project that these arguments open."""
    opened = open_project(*args, **more)
    with Client(opened) as client:
        yield client
    opened.project.close()


def annotation(client: Client, n: int = 3, labels: tuple[str, ...] = KNOWN) -> None:
    """The first notes of each class in the first recording of the demonstration."""
    _, placed = demo_sound(0)
    for label in labels:
        assert client.post("/api/classes", json={"name": label}).status_code == 201
    ids = {c["name"]: c["id"] for c in client.get("/api/project").json()["classes"]}
    for label in labels:
        for note in [p for p in placed if p.label == label][:n]:
            span = {"t0": round(note.start_s * SAMPLE_RATE), "t1": round(note.end_s * SAMPLE_RATE)}
            answer = client.post("/api/annotations", json={"recording_id": 1, "class_id": ids[label], **span})
            assert answer.status_code == 201, answer.text


def limited(connect: Callable[..., sqlite3.Connection], most: int) -> Callable[..., sqlite3.Connection]:
    """Connections to a project on a disk that is full beyond so many pages."""

    def connected(*args: object, **kwargs: object) -> sqlite3.Connection:
        db = connect(*args, **kwargs)
        db.execute(f"PRAGMA max_page_count = {most}")
        return db

    return connected


@pytest.fixture(scope="session")
def demo_recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the demonstration makes, not opened yet; not to be changed."""
    folder = tmp_path_factory.mktemp("demo")
    open_project([], folder).project.close()
    return folder


@pytest.fixture(scope="session")
def trained_folder(demo_recordings: Path) -> Path:
    """A project in which three classes were marked and trained; not to be changed."""
    opened = open_project([demo_recordings], demo_recordings / "trained")
    with Client(opened) as client:
        annotation(client)
        assert client.work("/api/train")["state"] == "done"
    opened.project.close()
    return demo_recordings / "trained"


@pytest.fixture
def client(demo_recordings: Path, tmp_path: Path) -> Iterator[Client]:
    """A fresh project about the demonstration."""
    with project_of([demo_recordings], tmp_path / "project") as client:
        yield client


@pytest.fixture
def opened(client: Client) -> Opened:
    return client.opened


@pytest.fixture
def trained_client(demo_recordings: Path, trained_folder: Path, tmp_path: Path) -> Iterator[Client]:
    """A copy of the trained project."""
    shutil.copytree(trained_folder, tmp_path / "project")
    with project_of([demo_recordings], tmp_path / "project") as client:
        yield client


@pytest.fixture
def trained(trained_client: Client) -> Opened:
    return trained_client.opened


class Serving:
    """Serves projects on loopback; gives the address of each."""

    def __init__(self) -> None:
        self._started: dict[str, tuple[uvicorn.Server, threading.Thread]] = {}

    def __call__(self, opened: Opened, port: int = 0) -> str:
        bound = socket.create_server(("127.0.0.1", port))
        host = f"127.0.0.1:{bound.getsockname()[1]}"
        server = uvicorn.Server(uvicorn.Config(make_app(opened, [host]), log_level="error", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        self._started[f"http://{host}/"] = (server, thread)
        return f"http://{host}/"

    def stop(self, url: str) -> None:
        """As if its process had ended: nothing answers there any more."""
        server, thread = self._started.pop(url)
        server.should_exit = server.force_exit = True
        thread.join()

    def again(self, opened: Opened, url: str) -> None:
        """Serve a project where one was served before."""
        assert self(opened, urlsplit(url).port) == url

    def close(self) -> None:
        for url in list(self._started):
            self.stop(url)


@pytest.fixture
def serving() -> Iterator[Serving]:
    server = Serving()
    yield server
    server.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def opens() -> Iterator[Callable[..., Opened]]:
    """Opens projects, which are closed after the pages that show them."""
    every = []

    def open_one(*paths: Path) -> Opened:
        every.append(open_project(paths))
        return every[-1]

    yield open_one
    for opened in every:
        opened.project.close()


@pytest.fixture
def visit(browser: Browser, serving: Serving, opens: object) -> Iterator[Callable[..., Visit]]:
    """Opens the page of a project, or of an address."""
    visits = []

    def to(what: Opened | str, **more: object) -> Visit:
        visits.append(Visit(browser, what if isinstance(what, str) else serving(what), **more))
        return visits[-1]

    yield to
    for one in visits:
        one.close()
