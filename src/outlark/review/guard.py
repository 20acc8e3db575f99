"""Who may ask: this computer and this page, no other site, no other name for this computer.

Pages of other sites can make a browser send requests to this computer, and can give it a name of their own (DNS
rebinding). So the Host header must be exactly one of those that the server was started for, requests that another site
caused are refused, and what changes something must come from this page. On any address other than loopback, a token is
needed as well.
"""

import hmac
import json
from collections.abc import Iterable, Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Any, TypeAlias

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


class Guard:
    """ASGI middleware that refuses what should not be asked, and adds headers to what is answered.

    It serves the Host headers given, with port; with a token, every request needs it.
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
    """By name; of several of one name, none: it cannot be told which counts."""
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
    """Bodies must say how long they are; those that are no upload must be short."""
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
