"""Serving the page: the address, the web application, its answers to errors, and who may ask.

Only this computer and this page may ask. Pages of other sites can make a browser send requests to this computer, and
can give it a name of their own (DNS rebinding). So the Host header must be exactly one that the server was started for,
requests that another site caused are refused, and changes must come from this page. On any address other than loopback,
a token is needed as well.
"""

import errno
import hmac
import ipaddress
import secrets
import socket
import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.resources import files
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import Field
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.staticfiles import StaticFiles

from outlark.errors import AudioError, InputError, OutlarkError
from outlark.review import changes, overview, queues, recordings, tables, training
from outlark.review.opening import Opened
from outlark.review.project import Body, GoneError
from outlark.review.store import AppliedError, DamagedError
from outlark.version import __version__

#: Bytes of a token: twice what is needed.
TOKEN_BYTES = 32
TOKEN_COOKIE = "outlark_token"
#: Ports that systems do not hand out by themselves.
USUAL_PORTS = range(20000, 30000)
#: Longest body of a request that is not an upload.
MAX_BODY_BYTES = 2**22
SECURITY_HEADERS = {
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
        """The Host headers that are served, its own first."""
        own = f"[{self.host}]" if ":" in self.host else self.host
        names = ["127.0.0.1", "localhost", "[::1]"] if self.token is None else []
        return [f"{name}:{self.port}" for name in dict.fromkeys([own, *names])]

    @property
    def url(self) -> str:
        """What to open in a browser."""
        return f"http://{self.hosts[0]}/" + (f"#t={self.token}" if self.token else "")


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
    try:
        usual = bind(address.host, USUAL_PORTS[int(project[:8], 16) % len(USUAL_PORTS)])
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

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        if scope["type"] != "http":
            return

        async def sending(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self._refusal(Request(scope))
        app = self._app if refusal is None else JSONResponse({"detail": refusal[1]}, refusal[0])
        await app(scope, receive, sending)

    def _refusal(self, request: Request) -> tuple[int, str] | None:
        headers = request.headers
        # a header that is repeated is ambiguous
        host, site, origin = (
            values[0].lower() if len(values) == 1 else "".join(values and ["?"])
            for values in map(headers.getlist, ("host", "sec-fetch-site", "origin"))
        )
        if host not in self._hosts:
            return 403, "this address is not served; open the address that outlark printed"
        if site not in ("", "none", "same-origin"):
            return 403, "requests from other sites are refused"
        with_token = self._has_token(request)
        if request.method not in ("GET", "HEAD"):
            if not with_token and origin != f"http://{host}":
                return 403, "changes are accepted from the page itself only"
            if (long := _too_long(request)) is not None:
                return long
        path = request.url.path
        if self._token and path.startswith("/api/") and path != "/api/token" and not with_token:
            return 401, "this address needs the token that outlark printed"
        return None

    def _has_token(self, request: Request) -> bool:
        given = request.headers.get("x-outlark-token") or request.cookies.get(TOKEN_COOKIE, "")
        return self._token is not None and hmac.compare_digest(given.encode(), self._token.encode())


def _too_long(request: Request) -> tuple[int, str] | None:
    """Bodies must state their length; all but uploads must be short."""
    length = request.headers.get("content-length", "0" if request.method == "DELETE" else "")
    if not length.isdigit():
        return 411, "the request must say how long it is (Content-Length)"
    if int(length) > MAX_BODY_BYTES and not request.url.path.startswith("/api/uploads/"):
        return 413, f"the request is longer than {MAX_BODY_BYTES} bytes"
    return None


def make_app(opened: Opened, hosts: Iterable[str], token: str | None = None) -> Guard:
    """The application for a project."""
    # documentation pages would load scripts from elsewhere
    settings: dict[str, Any] = {"docs_url": None, "redoc_url": None, "openapi_url": "/api/openapi.json"}
    app = FastAPI(title="outlark review", version=__version__, dependencies=[Depends(_check_project)], **settings)
    app.state.opened, app.state.token, app.state.identity = opened, token, opened.project.store.identity()
    for part in (overview, queues, training, changes, recordings, tables):
        app.include_router(part.routes)
    app.add_api_route("/api/token", swap_token, methods=["POST"])
    for kind, handler in ERROR_HANDLERS.items():
        app.add_exception_handler(kind, handler)
    app.mount("/", UncachedFiles(directory=str(files("outlark.review") / "page"), html=True))
    return Guard(app, hosts, token)


async def _check_project(
    request: Request, x_outlark_project: Annotated[str | None, Header(max_length=64)] = None
) -> None:
    """A page must ask for the project that it shows: an address may serve another one after a restart."""
    if x_outlark_project not in (None, request.app.state.identity):
        raise HTTPException(421, "another project is served at this address now; reload the page to see it")


class Token(Body):
    """The token that outlark printed."""

    token: str = Field(max_length=200)


def swap_token(body: Token, request: Request) -> Response:
    """Exchange the token for a cookie that scripts cannot read."""
    token = request.app.state.token
    if token is None or not hmac.compare_digest(body.token.encode(), token.encode()):
        raise HTTPException(403, "this is not the token that outlark printed")
    response = JSONResponse({"ok": True})
    response.set_cookie(TOKEN_COOKIE, token, httponly=True, samesite="strict")
    return response


class UncachedFiles(StaticFiles):
    """Static files that browsers do not cache, so that an update of outlark updates the page."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["cache-control"] = "no-cache"
        return response


# ------------------------------------------------------------ a message and a status code for errors that are not bugs


def _answer(status: int, **content: Any) -> Any:
    """A handler that gives this answer; by default, with the message of the error."""
    return lambda request, error: JSONResponse(content or {"detail": str(error)}, status)


def _invalid(request: Request, error: Any) -> JSONResponse:
    # without the value given, which may be NaN: JSON cannot hold it
    return JSONResponse({"detail": [{"loc": list(e["loc"]), "msg": e["msg"]} for e in error.errors()]}, 422)


def _of_disk(request: Request, error: Exception) -> JSONResponse:
    """Of SQLite or of the system."""
    full = getattr(error, "errno", None) == errno.ENOSPC or "full" in str(error)
    advice = "free some space, then do it again" if full else "check the disk, and that the folder can be written to"
    return JSONResponse({"detail": f"this was not saved ({error}); {advice}"}, 507 if full else 503)


ERROR_HANDLERS: dict[Any, Any] = {
    OutlarkError: _answer(400),
    GoneError: _answer(404),
    AudioError: _answer(409),
    DamagedError: _answer(503),
    AppliedError: _answer(200, again=True),
    ClientDisconnect: _answer(400, detail="the request was cut short on its way; send it again"),
    RequestValidationError: _invalid,
    sqlite3.Error: _of_disk,
    OSError: _of_disk,
}
