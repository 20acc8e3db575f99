"""Serving the page on this computer."""

import ipaddress
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass

from outlark.errors import InputError
from outlark.review.opening import Opened

#: Bytes of a token: twice what is needed.
TOKEN_BYTES = 32


@dataclass(frozen=True)
class Address:
    """Where the page is served.

    Attributes
    ----------
    host : str
    socket : socket.socket
        Bound, not yet listening.
    token : str or None
        None on loopback.
    """

    host: str
    socket: socket.socket
    token: str | None

    @property
    def port(self) -> int:
        """The port, chosen by the system if none was asked for."""
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
    """An address to serve at; with a token for any that is not loopback.

    Raises
    ------
    InputError
        When it cannot be had.
    """
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
    """Serve until interrupted.

    Parameters
    ----------
    opened : Opened
    address : Address
    started : function, optional
        Called when the page can be opened.
    """
    import uvicorn

    from outlark.review.app import make_app

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
