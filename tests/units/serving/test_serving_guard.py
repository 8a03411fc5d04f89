"""The guard refuses every request that does not come from its own page, and secures every response."""

import asyncio
import logging

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from patchword.serving.access import Access
from patchword.serving.guard import Guard, Limits
from patchword.serving.secured_response import CONTENT_SECURITY_POLICY
from support.lab.asgi import Caller

TOKEN = "a-token-of-this-test"
ACCESS = Access(8765, token=TOKEN)
HOST = {"host": "127.0.0.1:8765"}
COOKIE = {**HOST, "cookie": f"{ACCESS.cookie}={TOKEN}"}
JSON = {"content-type": "application/json"}
MEGABYTE = b"x" * 1_000_000


async def _answer(request: Request) -> Response:
    return JSONResponse({"bytes": len(await request.body())}, headers={"access-control-allow-origin": "*"})


async def _fail(request: Request) -> Response:
    raise RuntimeError("a fault in a route")


def guarded(limits: Limits = Limits()) -> Guard:
    methods = ["GET", "POST", "DELETE"]
    routes = [Route("/", _answer), Route("/api/echo", _answer, methods=methods), Route("/api/fail", _fail)]
    return Guard(Starlette(routes=routes), ACCESS, limits)


@pytest.fixture(scope="module")
def call():
    return Caller(guarded(), COOKIE)


def test_a_request_with_the_cookie_is_answered(call):
    assert call("/api/echo").status == 200
    sent = call("/api/echo", "POST", JSON, [b"{}", b"  "])
    assert (sent.status, sent.json()) == (200, {"bytes": 4})
    assert call("/api/echo", "DELETE").status == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"cookie": None}, 401),
        ({"cookie": f"{ACCESS.cookie}=wrong"}, 401),
        ({"cookie": f"{ACCESS.cookie}="}, 401),
        ({"cookie": f"{ACCESS.cookie}={TOKEN[:-1]}"}, 401),
        ({"cookie": f"patchword-1={TOKEN}"}, 401),  # of a server on another port
        ({"cookie": f"a=b; {ACCESS.cookie}={TOKEN}; c=d"}, 200),
        ({"host": "evil.example"}, 421),
        ({"host": "evil.example:8765"}, 421),
        ({"host": "127.0.0.1"}, 421),
        ({"host": "127.0.0.1:8766"}, 421),
        ({"host": None}, 421),
        ({"host": "LOCALHOST:8765"}, 200),
        ({"host": "[::1]:8765"}, 200),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://127.0.0.1:9000"}, 403),
        ({"origin": "https://127.0.0.1:8765"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": ""}, 403),
        ({"origin": "http://localhost:8765"}, 200),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),  # another port of this machine
        ({"sec-fetch-site": "same-origin"}, 200),
        ({"sec-fetch-site": "none"}, 200),
    ],
)
def test_who_is_answered(call, headers, status):
    for method in ("GET", "POST"):
        assert call("/api/echo", method, {**JSON, **headers}, [b"{}"] if method == "POST" else ()).status == status


@pytest.mark.parametrize("name", ["host", "origin", "content-type", "content-length"])
def test_a_header_that_is_given_twice_is_refused(call, name):
    extra = [(name, "127.0.0.1:8765"), (name, "evil.example")]
    assert call("/api/echo", "POST", {"host": None if name == "host" else HOST["host"]}, extra=extra).status == 400


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 200),
        ("application/json; charset=utf-8", 200),
        ("application/octet-stream", 200),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=x", 415),
        ("text/plain; application/json", 415),
        (None, 415),
    ],
)
def test_a_body_is_json_or_bytes(call, kind, status):
    assert call("/api/echo", "POST", {"content-type": kind}, [b"{}"]).status == status
    assert call("/api/echo", "DELETE", {"content-type": kind, "content-length": "2"}, [b"{}"]).status == status


def test_a_compressed_body_is_refused(call):
    assert call("/api/echo", "POST", {**JSON, "content-encoding": "gzip"}, [b"{}"]).status == 415


@pytest.mark.parametrize("method", ["OPTIONS", "TRACE", "CONNECT", "PROPFIND"])
def test_other_methods_are_refused(call, method):
    found = call("/api/echo", method, {"origin": "http://localhost:8765", "access-control-request-method": "POST"})
    assert found.status == 405
    assert not any(name.startswith("access-control") for name in found.headers)


class Counted:
    """A body that counts what was read of it."""

    def __init__(self, chunks: int) -> None:
        self.left, self.read = chunks, 0

    def __iter__(self):
        while self.read < self.left:
            self.read += 1
            yield MEGABYTE


def test_fifty_megabytes_are_refused_by_their_length(call):
    body = Counted(50)
    found = call("/api/echo", "POST", {**JSON, "content-length": str(50 * len(MEGABYTE))}, body)
    assert (found.status, body.read, found.headers["connection"]) == (413, 0, "close")


@pytest.mark.parametrize("length", ["-1", "1e9", "0x10", "9" * 5000, "²"])
def test_a_length_that_is_no_small_number_is_refused(call, length):
    assert call("/api/echo", "POST", {**JSON, "content-length": length}).status in (400, 413)


def test_fifty_megabytes_in_chunks_are_refused_after_the_limit(call):
    body = Counted(50)
    found = call("/api/echo", "POST", {**JSON, "transfer-encoding": "chunked"}, body)
    assert (found.status, body.read, found.headers["connection"]) == (413, 2, "close")
    assert call("/api/echo", "POST", {**JSON, "transfer-encoding": "chunked"}, [MEGABYTE]).status == 200


def test_a_get_request_has_no_body(call):
    assert call("/api/echo", headers={"content-length": "5"}).status == 400
    assert call("/api/echo", headers={"transfer-encoding": "chunked"}).status == 400
    assert call("/api/echo", headers={"content-length": "0"}).status == 200


def test_a_slow_body_is_refused():
    async def slow():
        await asyncio.sleep(30)

    async def send(message):
        sent.append(message)

    sent: list = []
    scope = {"type": "http", "method": "POST", "path": "/api/echo", "query_string": b"", "root_path": ""}
    headers = [(name.encode(), value.encode()) for name, value in {**COOKIE, **JSON}.items()]
    asyncio.run(guarded(Limits(body_seconds=0.05))({**scope, "headers": headers}, slow, send))
    assert sent[0]["status"] == 408


def test_the_token_becomes_a_cookie(call):
    found = call(f"/?token={TOKEN}", headers={"cookie": None})
    assert (found.status, found.headers["location"], found.body) == (303, "/", b"")
    name, *flags = found.headers["set-cookie"].split("; ")
    assert name == f"patchword-8765={TOKEN}"
    assert flags == ["HttpOnly", "SameSite=Strict", "Path=/"]
    assert call("/", headers={"cookie": name}).status == 200


@pytest.mark.parametrize(
    "query", ["token=", "token=wrong", "token=%00%ff", f"token={TOKEN}x", f"token={TOKEN}&token=x"]
)
def test_a_wrong_token_is_refused(call, query):
    found = call(f"/?{query}", headers={"cookie": None})
    assert found.status == 401
    assert "set-cookie" not in found.headers


def test_the_token_is_read_on_the_first_page_only(call):
    assert call(f"/api/echo?token={TOKEN}", headers={"cookie": None}).status == 401


@pytest.mark.parametrize("headers", [{"host": "evil.example"}, {"sec-fetch-site": "cross-site"}, {"origin": "null"}])
def test_the_token_helps_no_foreign_page(call, headers):
    found = call(f"/?token={TOKEN}", headers=headers)
    assert found.status in (403, 421)
    assert "set-cookie" not in found.headers


def test_the_token_is_in_no_text(call, caplog):
    caplog.set_level(logging.DEBUG)
    found = [call(f"/?token={TOKEN}"), call("/api/fail"), call(f"/?token={TOKEN[:-1]}", headers={"cookie": None})]
    assert TOKEN not in caplog.text
    assert TOKEN[:-1] not in caplog.text
    for one in found:
        rest = {name: value for name, value in one.headers.items() if name != "set-cookie"}
        assert TOKEN[:-1] not in f"{rest}{one.body!r}"
    assert TOKEN not in repr(ACCESS)


@pytest.mark.parametrize(
    ("address", "headers", "status"),
    [
        ("/api/echo", {}, 200),
        ("/", {}, 200),
        (f"/?token={TOKEN}", {}, 303),
        ("/nothing", {}, 404),
        ("/api/fail", {}, 500),
        ("/api/echo", {"cookie": None}, 401),
        ("/api/echo", {"host": "evil.example"}, 421),
        ("/api/echo", {"origin": "null"}, 403),
        ("/api/echo", {"content-length": "9"}, 400),
    ],
)
def test_every_response_is_secured(call, address, headers, status):
    found = call(address, headers=headers)
    assert found.status == status
    assert found.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert found.headers["x-content-type-options"] == "nosniff"
    assert found.headers["cross-origin-resource-policy"] == "same-origin"
    assert found.headers["cross-origin-opener-policy"] == "same-origin"
    assert found.headers["referrer-policy"] == "no-referrer"
    assert found.headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in found.headers


def test_the_policy_allows_no_inline_script():
    assert CONTENT_SECURITY_POLICY.startswith("default-src 'none'; ")
    assert "unsafe" not in CONTENT_SECURITY_POLICY
    assert "*" not in CONTENT_SECURITY_POLICY


def test_a_refusal_is_json_for_the_api_and_text_for_a_reader(call):
    error = call("/api/echo", headers={"cookie": None}).json()["error"]
    assert error.keys() == {"what", "expected", "got", "hint"}
    assert "printed" in error["hint"]
    assert call("/", headers={"cookie": None}).headers["content-type"] == "text/plain; charset=utf-8"


def test_a_fault_shows_nothing_of_the_program(call):
    found = call("/api/fail")
    assert b"a fault in a route" not in found.body
    assert b"Traceback" not in found.body


def test_web_sockets_are_refused():
    sent = []

    async def send(message):
        sent.append(message)

    headers = [(name.encode(), value.encode()) for name, value in COOKIE.items()]
    asyncio.run(guarded()({"type": "websocket", "path": "/", "headers": headers}, None, send))
    assert sent == [{"type": "websocket.close", "code": 1008}]


def test_every_start_has_another_token():
    tokens = {Access(1).token for _ in range(50)}
    assert len(tokens) == 50
    assert min(map(len, tokens)) >= 43  # 256 bits
