"""Requests to the review page, as the bytes that arrive: methods, paths, headers, ranges, bodies."""

import asyncio
import json
import random
import shutil
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

import h11
import soundfile

from fuzz.audio import Audio
from fuzz.mutation import changed_bytes, changed_list, changed_value, odd_text
from fuzz.tables import OTHERS
from fuzz.target import Target, expect
from outlark.data.demo_recordings import demo_sound
from outlark.data.synthetic import SAMPLE_RATE
from outlark.review.opening import open_project
from outlark.review.serving import make_app

HOST = "127.0.0.1:8000"
#: After so many inputs the project is as it was at first, so that an input depends on few others.
EVERY = 1000
BODIES: tuple[tuple[str, str, Any], ...] = (
    ("POST", "/api/annotations", {"recording_id": 1, "class_id": 1, "t0": 9000, "t1": 12000, "low_hz": 500.0}),
    ("PATCH", "/api/annotations/1", {"class_id": 2, "t0": 400, "t1": 4000}),
    ("DELETE", "/api/annotations/2", None),
    ("POST", "/api/reviews", {"detection_id": 1, "verdict": "relabel", "class_id": 1, "queue": "time"}),
    ("POST", "/api/reviews/batch", {"verdicts": [{"detection_id": 2, "verdict": "confirm"}]}),
    ("POST", "/api/classes", {"name": "song"}),
    ("PATCH", "/api/classes/2", {"name": "call"}),
    ("DELETE", "/api/classes/3", None),
    ("POST", "/api/clusters/1/promote", {"name": "new", "keep": [1, 2], "k": 5}),
    ("PUT", "/api/thresholds", {"values": {"1": 0.5, "2": 0.25}}),
    ("POST", "/api/undo", None),
    ("POST", "/api/redo", None),
    ("POST", "/api/token", {"token": "t"}),
    ("DELETE", "/api/jobs/1", None),
)
ASKED = (
    "/", "/main.js", "/api/openapi.json", "/api/project", "/api/revision", "/api/formats", "/api/model",
    "/api/calibration", "/api/queue?order=random&of=unknown&limit=5", "/api/queue?of=1", "/api/jobs/1",
    "/api/recordings/1", "/api/recordings/1/annotations", "/api/recordings/1/detections",
    "/api/recordings/1/candidates",
    "/api/recordings/1/tiles/0/0", "/api/recordings/1/tiles/2/0", "/api/recordings/1/block?t0=0.5&t1=1&columns=8",
    "/api/recordings/1/scores/1/0/0", "/api/recordings/1/score_levels/1", "/api/recordings/1/clip?t0=0.1&t1=0.3",
    "/api/detections/1/evidence", "/api/clusters/1", "/api/export?format=csv&scope=reviewed&recording=1",
    "/api/export?format=raven", "/api/recordings/1/audio",
)  # fmt: skip
RANGES = (
    "bytes=0-",
    "bytes=-10",
    "bytes=43-46",
    "bytes=0-99999999999999999",
    "bytes=44-43",
    "bytes=0-1,5-6",
    "lines=1-",
)


class Requests(Target):
    """Asks the application as its server does, in this process, with a project that has a trained model."""

    name = "requests"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._count, self._opened = 0, None
        self._loop = asyncio.new_event_loop()
        self.restore()

    def seeds(self) -> list[bytes]:
        """Every route, ranges, an upload and a table."""
        found = [request(method, path, None if body is None else json.dumps(body)) for method, path, body in BODIES]
        found += [request("GET", path) for path in ASKED]
        found += [request("GET", "/api/recordings/1/audio", more=[("range", one)]) for one in RANGES]
        sounds = Audio(self.folder).seeds()
        found += [request("PUT", f"/api/uploads/new{i}.wav", sounds[i]) for i in (0, 7)]
        tables = [("a.Table.1.selections.txt", OTHERS["raven"]), ("a.csv", OTHERS["csv"])]
        found += [request("POST", f"/api/recordings/1/import?name={name}", body) for name, body in tables]
        more = [("cookie", "outlark_token=x"), ("sec-fetch-site", "same-origin"), ("if-none-match", '"x"')]
        return [*found, request("GET", "/main.js", more=more), request("HEAD", "/api/project")]

    def mutate(self, data: bytes, rng: random.Random) -> bytes:
        """The line, a header or the body; most are still requests, and as long as they announce."""
        for _ in range(4):
            found = self._mutated(data, rng)
            if _Received(found).scope is not None:
                break
        return found

    def _mutated(self, data: bytes, rng: random.Random) -> bytes:
        head, gap, body = data.partition(b"\r\n\r\n")
        line, *headers = head.split(b"\r\n")
        how = rng.random()
        if how < 0.35:
            line = _changed_line(line, rng)
        elif how < 0.6:
            headers = changed_list(headers, rng, lambda one: _changed_header(one, rng))
        elif how < 0.9:
            body = _changed_body(body, rng)
        else:
            return changed_bytes(data, rng)
        if rng.random() < 0.9:
            headers = [one for one in headers if not one.lower().startswith(b"content-length")]
            headers.append(b"content-length: %d" % len(body))
        return b"\r\n".join([line, *headers]) + (gap or b"\r\n\r\n") + body

    def run(self, data: bytes) -> str:
        """The status of the answer, which must be whole and not an error of the server."""
        self._count += 1
        if self._count % EVERY == 0:
            self.restore()
        asked = _Received(data)
        if asked.scope is None:
            return "not a request"
        if asked.scope["path"] in ("/api/train", "/api/scan", "/api/decide"):
            return "a long job, not started"
        answer = self.answer(data)
        expect(answer.status < 500, f"{answer.status}: {answer.body[:300]!r}")
        if asked.whole and asked.scope["method"] != "HEAD":
            expect(
                answer.length in (None, len(answer.body)), f"{answer.length} bytes announced, {len(answer.body)} sent"
            )
        may_tell = answer.status >= 400 or asked.scope["path"] == "/api/export"  # exports are opened by other programs
        expect(may_tell or str(self.folder).encode() not in answer.body, "it says where files are")
        return f"{asked.scope['method'] if answer.status < 300 else ''} {HTTPStatus(answer.status).phrase}"

    def answer(self, data: bytes) -> "Answer":
        """Of the application to the bytes of a request."""
        return self._loop.run_until_complete(asyncio.wait_for(_asked(self._app, _Received(data)), 20))

    def close(self) -> None:
        self._opened.project.close()
        _close(self._loop)

    def left_over(self) -> list[Path]:
        """Files of uploads that were not finished."""
        return list((self.folder / "used" / "uploads").iterdir())

    def restore(self) -> None:
        """The project as it was when its model had been trained."""
        kept, used = self.folder / "kept", self.folder / "used"
        recordings = self.folder / "recordings"
        if self._opened is not None:
            self._opened.project.close()
        if not kept.exists():
            _train(recordings, kept)
        shutil.rmtree(used, ignore_errors=True)
        shutil.copytree(kept, used)
        self._opened = open_project([recordings], used)
        self._app = make_app(self._opened, [HOST])


def _train(recordings: Path, folder: Path) -> None:
    """Three seconds of the demonstration, two notes of each of two classes, and a model."""
    samples, placed = demo_sound(0)
    recordings.mkdir()
    soundfile.write(recordings / "a.wav", samples[: 12 * SAMPLE_RATE], SAMPLE_RATE)
    opened = open_project([recordings], folder)
    app, loop = make_app(opened, [HOST]), asyncio.new_event_loop()

    def ask(method: str, path: str, body: Any) -> None:
        answer = loop.run_until_complete(_asked(app, _Received(request(method, path, json.dumps(body)))))
        expect(answer.status < 300, f"{answer}")

    for number, label in enumerate(("tuti-D", "tuti-F", "cach-Z"), start=1):
        ask("POST", "/api/classes", {"name": label})
        for note in [one for one in placed if one.label == label and one.end_s < 12][:2]:
            span = {"t0": round(note.start_s * SAMPLE_RATE), "t1": round(note.end_s * SAMPLE_RATE)}
            ask("POST", "/api/annotations", {"recording_id": 1, "class_id": number, **span})
    ask("POST", "/api/train", {})
    opened.project.jobs.wait()
    expect(opened.project.jobs.last.state == "done", f"{opened.project.jobs.last}")
    opened.project.close()
    _close(loop)


def _close(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


# --------------------------------------------------------------------- requests


class _Received:
    """The bytes of a request as the server of the page, uvicorn, hands them on; no scope if they are none."""

    def __init__(self, data: bytes) -> None:
        self.scope: dict[str, Any] | None = None
        self.messages: list[dict[str, Any]] = []
        connection = h11.Connection(h11.SERVER)
        try:
            connection.receive_data(data)
            while (event := connection.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
                self._take(event)
                if isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
                    break
        except h11.RemoteProtocolError:
            pass
        self.whole = bool(self.messages) and not self.messages[-1]["more_body"]
        self.messages.append({"type": "http.disconnect"})

    def _take(self, event: Any) -> None:
        if isinstance(event, h11.Request):
            raw, _, query = event.target.partition(b"?")
            self.scope = {
                "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "root_path": "", "state": {},
                "http_version": event.http_version.decode("ascii"), "server": ("127.0.0.1", 8000), "raw_path": raw,
                "client": ("127.0.0.1", 9), "scheme": "http", "method": event.method.decode("ascii"),
                "path": unquote(raw.decode("ascii")), "query_string": query,
                "headers": [(name.lower(), value) for name, value in event.headers],
            }  # fmt: skip
        elif isinstance(event, h11.Data):
            self.messages.append({"type": "http.request", "body": bytes(event.data), "more_body": True})
        elif isinstance(event, h11.EndOfMessage):
            self.messages.append({"type": "http.request", "body": b"", "more_body": False})


class Answer(NamedTuple):
    """Status and body, and the length that was announced."""

    status: int
    body: bytes
    length: int | None


async def _asked(app: Any, request: _Received) -> Answer:
    waiting, answered = list(request.messages), asyncio.Event()
    status, body, length = 0, b"", None

    async def receive() -> dict[str, Any]:
        if len(waiting) == 1 and request.whole:
            await answered.wait()  # nobody hangs up before the answer
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    async def send(message: dict[str, Any]) -> None:
        nonlocal status, body, length
        if message["type"] == "http.response.start":
            status, lengths = message["status"], [v for k, v in message["headers"] if k == b"content-length"]
            length = int(lengths[0]) if lengths else None
        else:
            body += message.get("body", b"")
            if not message.get("more_body", False):
                answered.set()

    await app(request.scope, receive, send)
    return Answer(status, body, length)


def request(method: str, path: str, body: str | bytes | None = None, more: Any = ()) -> bytes:
    content = body.encode() if isinstance(body, str) else body or b""
    headers = [("host", HOST), ("origin", f"http://{HOST}"), ("content-type", "application/json"), *more]
    if method not in ("GET", "HEAD"):
        headers.append(("content-length", str(len(content))))
    head = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + content


def _changed_line(line: bytes, rng: random.Random) -> bytes:
    method, _, rest = line.partition(b" ")
    path, _, version = rest.rpartition(b" ")
    if rng.random() < 0.1:
        method = rng.choice((b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS", b"TRACE", b"X"))
    elif rng.random() < 0.8:
        between = rng.choice((b"/", b"/", b"=", b"&"))
        path = between.join(changed_list(path.split(between), rng, lambda one: _in_path(one, rng)))
    else:
        path = changed_bytes(path, rng)
    return b" ".join((method, path, version))


def _in_path(one: bytes, rng: random.Random) -> bytes:
    if one.isdigit() and rng.random() < 0.5:
        return str(rng.choice((0, 1, 2, 3, 5, 40, 2**31, 2**53, 2**53 + 1, 2**64))).encode()
    return quote(odd_text(rng), safe=rng.choice(("", "/.")), errors="replace").encode()


def _changed_header(one: bytes, rng: random.Random) -> bytes:
    name, _, value = one.partition(b": ")
    if rng.random() < 0.2:
        name = rng.choice((b"range", b"cookie", b"content-length", b"origin", b"content-type", b"if-range", b"accept",
                           b"x-outlark-token", b"transfer-encoding", b"if-modified-since", b"expect"))  # fmt: skip
    if name == b"range" and rng.random() < 0.8:
        first, last = (rng.choice(("", "0", "1", "43", "44", "529244", "529243", odd_text(rng))) for _ in range(2))
        value = rng.choice((b"bytes=%s-%s", b"bytes=%s-%s,0-1", b"Bytes = %s-%s")) % (
            first.encode("latin-1", "replace"), last.encode("latin-1", "replace"))  # fmt: skip
    elif rng.random() < 0.5:
        value = odd_text(rng).encode("latin-1", "replace")
    else:
        value = changed_bytes(value, rng)
    return name + b": " + value


def _changed_body(body: bytes, rng: random.Random) -> bytes:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return changed_bytes(body, rng)
    if rng.random() < 0.2:
        return changed_bytes(body, rng)
    return json.dumps(changed_value(value, rng)).encode("utf-8", "surrogatepass")
