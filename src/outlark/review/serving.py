"""Serving the page: the address, the web application, its answers to errors, and who may ask.

Only this computer and this page may ask. Pages of other sites can make a browser send requests to this computer, and
can give it a name of their own (DNS rebinding). So the Host header must be exactly one that the server was started for,
requests that another site caused are refused, and changes must come from this page. On any address other than loopback,
a token is needed as well.
"""

import errno
import hmac
import ipaddress
import json
import secrets
import socket
import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from importlib.resources import files
from typing import Annotated, Any, TypeAlias

from fastapi import Depends, FastAPI, Header, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.requests import ClientDisconnect
from starlette.staticfiles import StaticFiles

from outlark.errors import AudioError, InputError, OutlarkError
from outlark.review.actions import Gone
from outlark.review.api import Token, annotations, recordings, runs
from outlark.review.backup import Damaged
from outlark.review.opening import Opened
from outlark.version import __version__

#: Bytes of a token: twice what is needed.
TOKEN_BYTES = 32
#: Ports that systems do not hand out by themselves.
USUAL_PORTS = (20000, 30000)
Scope: TypeAlias = Mapping[str, Any]
Message: TypeAlias = dict[str, Any]
COOKIE, TOKEN_HEADER = "outlark_token", "x-outlark-token"
SAFE_METHODS = ("GET", "HEAD")
#: Longest body of a request that is not an upload.
MOST_BYTES = 2**22
HEADERS = {
    "content-security-policy": (
        "default-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; object-src 'none'; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "x-frame-options": "DENY",
}


@dataclass(frozen=True)
class Address:
    """Where the page is served: a bound socket, and a token unless the host is loopback."""

    host: str
    socket: socket.socket
    token: str | None

    @property
    def port(self) -> int:
        return int(self.socket.getsockname()[1])

    @property
    def hosts(self) -> list[str]:
        """The Host headers that are served."""
        names = ["127.0.0.1", "localhost", "[::1]"] if self.token is None else []
        own = f"[{self.host}]" if ":" in self.host else self.host
        return [f"{name}:{self.port}" for name in dict.fromkeys([*names, own])]

    @property
    def url(self) -> str:
        """What to open in a browser."""
        own = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{own}:{self.port}/" + (f"#t={self.token}" if self.token else "")


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this computer only.

    >>> [is_loopback(host) for host in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "192.168.1.5")]
    [True, True, True, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bind(host: str, port: int) -> Address:
    """An address to serve at, with a token unless it is loopback."""
    if host in ("0.0.0.0", "::", ""):
        raise InputError(
            f"--host {host or '(blank)'} means every address; give the one by which others reach this computer"
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise InputError(f"{host}:{port} cannot be served ({error.strerror}); give another --port or --host") from None
    return Address(host, bound, None if is_loopback(host) else secrets.token_urlsafe(TOKEN_BYTES))


def at_usual_port(address: Address, project: str) -> Address:
    """The same address at the port of this project, if that is free.

    A browser keeps changes that were not saved by address: a page that is still open, or opened again, must find the
    project where it was.
    """
    ports = range(*USUAL_PORTS)
    try:
        usual = bind(address.host, ports[int(project[:8], 16) % len(ports)])
    except InputError:
        return address
    address.socket.close()
    return usual


def serve(opened: Opened, address: Address, started: Callable[[], None] = lambda: None) -> None:
    """Serve until interrupted; `started` is called when the page can be opened."""
    import uvicorn  # takes long

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            started()

    app = make_app(opened, address.hosts, address.token)
    config = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off", server_header=False)
    try:
        Server(config).run(sockets=[address.socket])
    finally:
        opened.project.close()


class Guard:
    """ASGI middleware: refuses forbidden requests, adds headers to answers.

    `hosts` are the Host headers that it serves, with port; with a token, every request needs it.
    """

    def __init__(self, app: Any, hosts: Iterable[str], token: str | None = None) -> None:
        self._app, self._token = app, token
        self._hosts = {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, _with_headers(send))
        else:
            await _answer(_with_headers(send), *refusal)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = _headers(scope)
        if headers.get("host", "").lower() not in self._hosts:
            return 403, "this address is not served; open the address that outlark printed"
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return 403, "requests from other sites are refused"
        changing = scope["method"] not in SAFE_METHODS
        with_token = self._has_token(headers)
        if changing and not with_token and not self._from_this_page(headers):
            return 403, "changes are accepted from the page itself only"
        if changing and (long := _too_long(scope, headers)) is not None:
            return long
        path = str(scope["path"])
        if self._token and path.startswith("/api/") and path != "/api/token" and not with_token:
            return 401, "this address needs the token that outlark printed"
        return None

    def _from_this_page(self, headers: Mapping[str, str]) -> bool:
        origin = headers.get("origin", "")
        return origin.lower() == f"http://{headers.get('host', '').lower()}"

    def _has_token(self, headers: Mapping[str, str]) -> bool:
        if self._token is None:
            return False
        given = headers.get(TOKEN_HEADER) or _cookie(headers.get("cookie", ""))
        return hmac.compare_digest(given.encode(), self._token.encode())


def _headers(scope: Scope) -> dict[str, str]:
    """By name; blank for repeated ones, which are ambiguous."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        found[key] = "" if key in found else value.decode("latin-1")
    return found


def _cookie(text: str) -> str:
    try:
        morsel = SimpleCookie(text).get(COOKIE)
    except CookieError:
        return ""
    return "" if morsel is None else morsel.value


def _too_long(scope: Scope, headers: Mapping[str, str]) -> tuple[int, str] | None:
    """Bodies must state their length; all but uploads must be short."""
    length = headers.get("content-length", "0" if scope["method"] == "DELETE" else "")
    if not length.isdigit():
        return 411, "the request must say how long it is (Content-Length)"
    if int(length) > MOST_BYTES and not str(scope["path"]).startswith("/api/uploads/"):
        return 413, f"the request is longer than {MOST_BYTES} bytes"
    return None


def _with_headers(send: Any) -> Any:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = {name for name, _ in message["headers"]}
            more = [(k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in own]
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return sending


async def _answer(send: Any, status: int, message: str) -> None:
    body = json.dumps({"detail": message}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def make_app(opened: Opened, hosts: Iterable[str], token: str | None = None) -> Guard:
    """The application for a project."""
    # documentation pages would load scripts from elsewhere
    settings: dict[str, Any] = {"docs_url": None, "redoc_url": None, "openapi_url": "/api/openapi.json"}
    app = FastAPI(title="outlark review", version=__version__, dependencies=[Depends(_meant_for(opened))], **settings)
    app.include_router(runs.router(opened.project, opened.title, opened.problems))
    app.include_router(annotations.router(opened.project))
    app.include_router(recordings.router(opened.project))
    _token_route(app, token)
    _errors(app)
    page = files("outlark.review") / "page"
    app.mount("/", NoCache(directory=str(page), html=True))
    return Guard(app, hosts, token)


def _meant_for(opened: Opened) -> Callable[[str | None], Awaitable[None]]:
    """A check that a page asks for the project that it shows: an address may serve another one after a restart."""
    own = opened.project.store.identity()

    async def check(x_outlark_project: Annotated[str | None, Header(max_length=64)] = None) -> None:
        if x_outlark_project not in (None, own):
            raise HTTPException(421, "another project is served at this address now; reload the page to see it")

    return check


class NoCache(StaticFiles):
    """Static files that browsers do not cache, so that an update of outlark updates the page."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["cache-control"] = "no-cache"
        return response


def _token_route(app: FastAPI, token: str | None) -> None:
    @app.post("/api/token", tags=["files"])
    def swap(body: Token) -> Response:
        """Exchange the token for a cookie that scripts cannot read."""
        if token is None or not hmac.compare_digest(body.token.encode(), token.encode()):
            raise HTTPException(403, "this is not the token that outlark printed")
        response = JSONResponse({"ok": True})
        response.set_cookie(COOKIE, token, httponly=True, samesite="strict")
        return response


def _errors(app: FastAPI) -> None:
    """A message and a status code for errors that are not bugs."""

    @app.exception_handler(OutlarkError)
    def of_outlark(request: Request, error: Exception) -> JSONResponse:
        codes = {Gone: 404, AudioError: 409, Damaged: 503}
        code = next((code for kind, code in codes.items() if isinstance(error, kind)), 400)
        return JSONResponse({"detail": str(error)}, code)

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        # without the value given, which may be NaN: JSON cannot hold it
        return JSONResponse({"detail": [{"loc": list(e["loc"]), "msg": e["msg"]} for e in error.errors()]}, 422)

    @app.exception_handler(ClientDisconnect)
    def cut_off(request: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"detail": "the request was cut short on its way; send it again"}, 400)

    @app.exception_handler(sqlite3.OperationalError)
    @app.exception_handler(sqlite3.DatabaseError)
    def of_store(request: Request, error: Exception) -> JSONResponse:
        full = "full" in str(error)
        advice = "free some space, then do it again" if full else "check that the folder can be written to"
        return JSONResponse({"detail": f"this was not saved ({error}); {advice}"}, 507 if full else 503)

    @app.exception_handler(OSError)
    def of_disk(request: Request, error: OSError) -> JSONResponse:
        full = error.errno == errno.ENOSPC
        advice = "free some space" if full else "check the disk"
        return JSONResponse({"detail": f"{error}; {advice}"}, 507 if full else 503)
