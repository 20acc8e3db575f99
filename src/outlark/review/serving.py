"""Serving the page: the web application, its answers when something goes wrong, and the address."""

import errno
import hmac
import ipaddress
import secrets
import socket
import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.requests import ClientDisconnect
from starlette.staticfiles import StaticFiles

from outlark.errors import AudioError, InputError, OutlarkError
from outlark.review.actions import Gone
from outlark.review.api import Token, annotations, recordings, runs
from outlark.review.guard import COOKIE, Guard
from outlark.review.opening import Opened
from outlark.version import __version__

#: Bytes of a token: twice what is needed.
TOKEN_BYTES = 32


@dataclass(frozen=True)
class Address:
    """Where the page is served: a bound socket, and a token unless the host is loopback."""

    host: str
    socket: socket.socket
    token: str | None

    @property
    def port(self) -> int:
        """The port; chosen by the system if none was given."""
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


def make_app(opened: Opened, hosts: Iterable[str], token: str | None = None) -> Guard:
    """The application for a project."""
    # documentation pages would load scripts from elsewhere
    settings: dict[str, Any] = {"docs_url": None, "redoc_url": None, "openapi_url": "/api/openapi.json"}
    app = FastAPI(title="outlark review", version=__version__, **settings)
    app.include_router(runs.router(opened.project, opened.title, opened.problems))
    app.include_router(annotations.router(opened.project))
    app.include_router(recordings.router(opened.project))
    app.include_router(recordings.file_router(opened.project))
    _token_route(app, token)
    _errors(app)
    page = files("outlark.review") / "page"
    app.mount("/", NoCache(directory=str(page), html=True))
    return Guard(app, hosts, token)


class NoCache(StaticFiles):
    """Static files that browsers ask for again, so that an update of outlark is an update of the page."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["cache-control"] = "no-cache"
        return response


def _token_route(app: FastAPI, token: str | None) -> None:
    @app.post("/api/token", tags=["files"])
    def swap(body: Token) -> Response:
        """The token of the address, for a cookie that scripts cannot read."""
        if token is None or not hmac.compare_digest(body.token.encode(), token.encode()):
            raise HTTPException(403, "this is not the token that outlark printed")
        response = JSONResponse({"ok": True})
        response.set_cookie(COOKIE, token, httponly=True, samesite="strict")
        return response


def _errors(app: FastAPI) -> None:
    """Errors that are not bugs: a message for the page, and a status code."""

    @app.exception_handler(OutlarkError)
    def told(request: Request, error: Exception) -> JSONResponse:
        code = 404 if isinstance(error, Gone) else 409 if isinstance(error, AudioError) else 400
        return JSONResponse({"detail": str(error)}, code)

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        # without what was given: that may be NaN, which no JSON can hold
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
