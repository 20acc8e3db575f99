"""Driving the page: marking by mouse, waiting for what the page says of itself, and seeing that nothing leaves."""

import shutil
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--mute-audio",
    "--autoplay-policy=no-user-gesture-required",
)
#: Milliseconds; a limit for what hangs, not for what is slow.
PATIENCE = 120_000


def chromium() -> str | None:
    """Where a Chromium is, if there is one."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((path for path in map(shutil.which, names) if path), None)


class Visit:
    """A page that is open, with all that it asked for and all that it complained about."""

    def __init__(self, browser: Browser, url: str, **more: object) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}, **more})
        self.context.set_default_timeout(PATIENCE)
        self.page: Page = self.context.new_page()
        self.asked: list[str] = []
        self.complaints: list[str] = []
        self.ignored: str | None = None
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.url = url
        self.open()

    def open(self) -> None:
        self.page.goto(self.url)
        self.page.wait_for_selector("body[data-ready]")
        self.settled()

    def settled(self) -> None:
        """Until all changes are saved and all tiles in view are drawn."""
        self.page.wait_for_selector("body:not([data-waiting]), body[data-waiting='0']")
        self.page.wait_for_selector("#spectrogram[data-pending='0']")

    def saved(self) -> None:
        """Until all changes are saved."""
        self.page.wait_for_selector("body:not([data-waiting]), body[data-waiting='0']")

    def review_next(self) -> None:
        """Press G, and wait until a note is under review: keys that come earlier do nothing."""
        self.page.wait_for_function("() => import('/state.js').then(({ state }) => Boolean(state.recording))")
        self.page.keyboard.press("g")
        self.page.wait_for_function("() => import('/actions.js').then(({ currentItem }) => Boolean(currentItem()))")
        self.page.wait_for_selector("#card .verdicts")

    def show(self, t0: float, seconds: float) -> None:
        """Show a part of the recording, once it is drawn."""
        self.page.evaluate("([t, s]) => import('/view.js').then((view) => view.show(t, s))", [t0, seconds])
        self.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        self.settled()

    def x(self, t: float) -> float:
        """Where on the screen a time is."""
        canvas = self.page.locator("#spectrogram")
        data, box = canvas.evaluate("(e) => ({...e.dataset})"), canvas.bounding_box()
        return box["x"] + (t - float(data["t0"])) / float(data["spp"])

    def drag(self, t0: float, t1: float) -> None:
        """Annotation a part by mouse."""
        self.show(max(0.0, t0 - 2), 6)
        box = self.page.locator("#spectrogram").bounding_box()
        y = box["y"] + box["height"] / 2
        self.page.mouse.move(self.x(t0), y)
        self.page.mouse.down()
        self.page.mouse.move(self.x((t0 + t1) / 2), y)
        self.page.mouse.move(self.x(t1), y)
        self.page.mouse.up()
        self.page.wait_for_selector("#floating:not([hidden])")

    def name(self, label: str) -> None:
        """Answer the question for a name."""
        self.page.wait_for_selector("#dialog #name")
        self.page.keyboard.type(label)
        self.page.keyboard.press("Enter")
        self.page.wait_for_selector(f"#classes .name:text-is('{label}')")
        self.saved()

    def job(self, number: int) -> None:
        """Until the job of this number has ended, and its results and the groups of unknown sounds are shown."""
        self.page.wait_for_selector(f"body[data-jobs='{number}']")
        self.page.wait_for_selector("#clusters[aria-busy='false']", state="attached")
        self.settled()

    def get(self, path: str) -> object:
        """What the server says."""
        return self.page.evaluate("(path) => fetch(path).then((answer) => answer.json())", path)

    def statuses(self, run: int | None = None) -> dict[int, str]:
        """Of all detections, as the server knows them."""
        of = "" if run is None else f"&run={run}"
        return {i["id"]: i["status"] for i in self.get(f"/api/queue?order=time&limit=20000{of}")["items"]}

    def shot(self, folder: Path, name: str) -> None:
        """A screenshot."""
        self.settled()
        self.page.screenshot(path=folder / f"{name}.png")

    def close(self) -> None:
        """Nothing went elsewhere, and nothing was complained about."""
        self.context.close()
        # its own host by number, or data that is no request
        strangers = [
            url
            for url in self.asked
            if urlsplit(url).hostname != "127.0.0.1" and not url.startswith(("blob:", "data:"))
        ]
        assert strangers == []
        assert self.asked
        complaints = [one for one in self.complaints if self.ignored is None or self.ignored not in one]
        assert complaints == [], complaints
