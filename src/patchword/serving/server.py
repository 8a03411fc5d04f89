"""Runs an ASGI application on this machine, and stops it within seconds."""

import asyncio
import contextlib
import ipaddress
import logging
import os
import socket
import sys
import threading
import webbrowser

import uvicorn
from starlette.types import ASGIApp

from patchword.core.errors import UserError
from patchword.serving.access import LOOPBACK
from patchword.serving.connection import BoundedConnection

_IDLE = 75  # seconds; load balancers close idle connections after 60, so ours never ends first, under a request


def is_loopback(host: str) -> bool:
    """Return True for an address that only this machine reaches."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that accepts connections. port: 0 takes a free one."""
    host = "127.0.0.1" if host == "localhost" else host  # which some machines resolve to ::1
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
    except UnicodeError:  # of a part that is empty or longer than 63 characters
        raise UserError("cannot listen on this host", expected="a name or an address", got=host[:80]) from None
    except OSError as error:
        raise UserError(f"cannot listen on {host}", got=error.strerror, hint="leave --host out") from None
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(128)
    except OSError as error:
        bound.close()
        hint = "--port 0 takes a free port"
        raise UserError(f"cannot listen on {host}, port {port}", got=error.strerror, hint=hint) from None
    return bound


def names_of(host: str) -> tuple[str, ...]:
    """Return the names under which a server on this host is reached; the first one is printed."""
    if host == "localhost":
        return LOOPBACK
    address = ipaddress.ip_address(host) if _is_address(host) else None
    if address is None:
        return (host.lower(), *LOOPBACK)
    written = f"[{address}]" if address.version == 6 else str(address)
    if address.is_unspecified:
        return (*_names_of_machine(), *LOOPBACK)
    return tuple(dict.fromkeys([written, *LOOPBACK]))


def serve(app: ASGIApp, bound: socket.socket) -> None:
    """Serve until Ctrl-C or SIGTERM; open streams get 3 seconds to end."""
    server = uvicorn.Server(config_of(app))
    logging.getLogger("uvicorn.error").addFilter(_is_no_cancelled_request)
    with contextlib.suppress(KeyboardInterrupt), bound:
        server.run(sockets=[bound])


def _is_no_cancelled_request(record: logging.LogRecord) -> bool:
    """Return False for what the server writes of requests that it ends when it stops, with their tracebacks."""
    cancelled = record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError)
    return not cancelled and "timeout graceful shutdown exceeded" not in record.getMessage()


def config_of(app: ASGIApp, http: type[BoundedConnection] = BoundedConnection) -> uvicorn.Config:
    """Return the settings of the server. There is no access log: the first address contains the token."""
    return uvicorn.Config(
        app,
        http=http,
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_IDLE,
        timeout_graceful_shutdown=3,
    )


def open_browser(address: str) -> bool:
    """Open a browser in the background, if this machine has a screen; return whether one was tried."""
    has_screen = sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if not has_screen:  # a browser in the terminal would take the terminal
        return False
    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    return True


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _names_of_machine() -> tuple[str, ...]:
    """Return the host name of this machine and the addresses that it resolves to."""
    name = socket.gethostname().lower()
    found = [name]
    with contextlib.suppress(OSError):
        for *_, address in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM):
            one = str(address[0])
            found.append(f"[{one}]" if ":" in one else one)
    return tuple(dict.fromkeys(found))
