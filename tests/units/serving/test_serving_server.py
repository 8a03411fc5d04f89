"""A real server: the address, half-sent requests, the end."""

import contextlib
import http.client
import logging
import socket
import threading
import time

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from patchword.core.errors import UserError
from patchword.serving.access import LOOPBACK, Access
from patchword.serving.connection import BoundedConnection
from patchword.serving.guard import Guard
from patchword.serving.secured_response import CONTENT_SECURITY_POLICY
from patchword.serving.server import bind, config_of, is_loopback, names_of


class Impatient(BoundedConnection):
    header_seconds = 0.3
    body_seconds = 0.6
    header_bytes = 20_000
    most_connections = 40


@pytest.fixture(scope="module")
def access():
    async def answer(request):
        return PlainTextResponse("the page")

    bound = bind("127.0.0.1", 0)
    access = Access(bound.getsockname()[1])
    app = Guard(Starlette(routes=[Route("/", answer), Route("/late", answer, methods=["POST"])]), access)
    server = uvicorn.Server(config_of(app, Impatient))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    yield access
    server.should_exit = True
    thread.join(10)
    assert not thread.is_alive()


@contextlib.contextmanager
def connected(access):
    with socket.create_connection(("127.0.0.1", access.port), timeout=5) as open_socket:
        yield open_socket


def received(open_socket) -> bytes:
    """Everything until the server closes; a connection that it keeps open is an error after 5 seconds."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := open_socket.recv(65536):
            found += piece
    return found


def head(access, *lines) -> bytes:
    host = f"Host: 127.0.0.1:{access.port}"
    cookie = f"Cookie: {access.cookie}={access.token}"
    return "\r\n".join([*lines, host, cookie]).encode()


def test_the_printed_address_opens_the_page(access, caplog):
    caplog.set_level(logging.DEBUG)
    client = http.client.HTTPConnection("127.0.0.1", access.port, timeout=5)
    client.request("GET", access.address.removeprefix(f"http://127.0.0.1:{access.port}"))
    first = client.getresponse()
    first.read()
    assert (first.status, first.headers["location"], first.headers["server"]) == (303, "/", None)
    client.request("GET", "/", headers={"Cookie": first.headers["set-cookie"].partition(";")[0]})
    page = client.getresponse()
    assert (page.status, page.read()) == (200, b"the page")
    assert access.token not in caplog.text


@pytest.mark.parametrize(
    "begin",
    [
        b"",
        b"GET / HT",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: ",
        b"\r\n",
    ],
)
def test_half_sent_headers_are_closed(access, begin):
    with connected(access) as one:
        one.sendall(begin)
        start = time.monotonic()
        assert received(one) == b""
        assert time.monotonic() - start < 3


def test_headers_that_come_byte_by_byte_are_closed(access):
    def send_slowly(one):
        for byte in b"GET / HTTP/1.1\r\nX-Slow: " + b"a" * 300:
            one.sendall(bytes([byte]))
            time.sleep(0.02)

    with connected(access) as one, pytest.raises((BrokenPipeError, ConnectionResetError)):
        send_slowly(one)


def test_the_second_request_of_a_connection_has_the_same_limit(access):
    with connected(access) as one:
        one.sendall(head(access, "GET / HTTP/1.1") + b"\r\n\r\n")
        while not one.recv(65536).endswith(b"the page"):
            pass
        one.sendall(b"GET / HTTP/1.1\r\nX-Half: ")
        assert received(one) == b""


def test_a_half_sent_body_is_closed(access):
    lines = ("POST /late HTTP/1.1", "Content-Type: application/json", "Content-Length: 100")
    with connected(access) as one:
        one.sendall(head(access, *lines) + b"\r\n\r\n{")
        assert received(one).endswith(b"the page")  # the route does not read the body; the connection ends all the same


def test_headers_that_are_too_long_are_refused(access):
    with connected(access) as one:
        one.sendall(b"GET / HTTP/1.1\r\nX-Long: " + b"a" * (Impatient.header_bytes + 1))
        answer = received(one)
    assert answer.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
    assert CONTENT_SECURITY_POLICY.encode() in answer


def test_what_is_not_http_is_refused_with_the_security_headers(access):
    with connected(access) as one:
        one.sendall(b"\x16\x03\x01 this is not HTTP\r\n\r\n")
        answer = received(one)
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert CONTENT_SECURITY_POLICY.encode() in answer


def test_web_socket_handshakes_are_no_requests_of_the_page(access):
    lines = ("GET / HTTP/1.1", "Upgrade: websocket", "Connection: Upgrade", "Origin: http://evil.example")
    with connected(access) as one:
        one.sendall(head(access, *lines) + b"\r\n\r\n")
        assert received(one).startswith(b"HTTP/1.1 403")


def test_connections_beyond_the_maximum_are_refused(access):
    with contextlib.ExitStack() as stack:
        many = [stack.enter_context(connected(access)) for _ in range(60)]
        answers = [received(one)[:12] for one in many]
    assert answers.count(b"HTTP/1.1 503") >= 15
    with connected(access) as one:  # and the server still answers
        one.sendall(head(access, "GET / HTTP/1.1", "Connection: close") + b"\r\n\r\n")
        assert received(one).endswith(b"the page")


def test_a_port_that_is_taken_is_an_error(access):
    with pytest.raises(UserError, match=f"cannot listen on 127.0.0.1, port {access.port}"):
        bind("127.0.0.1", access.port)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        *(("127.0.0.1", True), ("127.1.2.3", True), ("::1", True), ("localhost", True)),
        *(("0.0.0.0", False), ("::", False), ("192.168.1.5", False), ("localhost.evil.example", False)),
    ],
)
def test_what_only_this_machine_reaches(host, expected):
    assert is_loopback(host) is expected


@pytest.mark.parametrize(
    ("host", "first"),
    [("127.0.0.1", "127.0.0.1"), ("localhost", "127.0.0.1"), ("::1", "[::1]"), ("192.168.1.5", "192.168.1.5")],
)
def test_the_names_of_a_server(host, first):
    names = names_of(host)
    assert names[0] == first
    assert set(LOOPBACK) <= set(names)
    assert not {"0.0.0.0", "::"} & set(names_of("0.0.0.0"))
