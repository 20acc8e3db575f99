"""The web application: the requests, the page, and what is answered when something goes wrong."""

import errno
import hmac
import sqlite3
from collections.abc import Iterable
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.staticfiles import StaticFiles

from outlark.errors import AudioError, OutlarkError
from outlark.review.actions import Gone
from outlark.review.api import annotations, recordings, runs
from outlark.review.api import files as file_requests
from outlark.review.api.kinds import Token
from outlark.review.guard import COOKIE, Guard
from outlark.review.opening import Opened
from outlark.version import __version__


def make_app(opened: Opened, hosts: Iterable[str], token: str | None = None) -> Guard:
    """The application for a project.

    Parameters
    ----------
    opened : Opened
    hosts : iterable of str
        The Host headers that are served, such as "127.0.0.1:8000".
    token : str, optional
        Needed by every request, if given.
    """
    # documentation pages would load scripts from elsewhere
    settings: dict[str, Any] = {"docs_url": None, "redoc_url": None, "openapi_url": "/api/openapi.json"}
    app = FastAPI(title="outlark review", version=__version__, **settings)
    app.include_router(runs.router(opened.project, opened.title, opened.problems))
    app.include_router(annotations.router(opened.project))
    app.include_router(recordings.router(opened.project))
    app.include_router(file_requests.router(opened.project))
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
    """Errors that are not mistakes of ours: a message for the page, and a code."""

    @app.exception_handler(OutlarkError)
    def told(request: Request, error: Exception) -> JSONResponse:
        code = 404 if isinstance(error, Gone) else 409 if isinstance(error, AudioError) else 400
        return JSONResponse({"detail": str(error)}, code)

    @app.exception_handler(RequestValidationError)
    def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        # without what was given: that may be NaN, which no JSON can hold
        return JSONResponse({"detail": [{"loc": list(e["loc"]), "msg": e["msg"]} for e in error.errors()]}, 422)

    @app.exception_handler(sqlite3.OperationalError)
    @app.exception_handler(sqlite3.DatabaseError)
    def of_store(request: Request, error: Exception) -> JSONResponse:
        full = "full" in str(error)
        advice = "free some space, then do it again" if full else "see whether the folder can be written to"
        return JSONResponse({"detail": f"this was not saved ({error}); {advice}"}, 507 if full else 503)

    @app.exception_handler(OSError)
    def of_disk(request: Request, error: OSError) -> JSONResponse:
        full = error.errno == errno.ENOSPC
        advice = "free some space" if full else "check the disk"
        return JSONResponse({"detail": f"{error}; {advice}"}, 507 if full else 503)
