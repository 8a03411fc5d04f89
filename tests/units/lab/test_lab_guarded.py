"""Every route of the lab, also those of later pages: what it refuses without the token, and what it bounds."""

import json
import tracemalloc
from itertools import repeat
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from patchword.lab.app import PARTS, LabSettings, build_app
from patchword.lab.bundle import read_bundle
from patchword.serving.access import Access
from patchword.serving.guard import Guard
from patchword.serving.request_rules import METHODS
from patchword.serving.secured_response import SECURITY_HEADERS
from support.lab.asgi import Caller

JSON, BYTES = {"content-type": "application/json"}, {"content-type": "application/octet-stream"}
TRAVERSALS = (
    "..",
    "%2e%2e",
    "..%2f..%2fetc%2fpasswd",
    "%2fetc%2fpasswd",
    "..~1..~1etc",
    "@..",
    "%00",
    "x" * 3000,
    "-1",
)


@pytest.fixture(scope="module")
def guarded(page, models, tmp_path_factory) -> Guard:
    runs = tmp_path_factory.mktemp("guarded") / "runs"
    app = build_app(LabSettings(Access(8765), read_bundle(page), models, runs=runs))
    assert isinstance(app, Guard)
    return app


@pytest.fixture(scope="module")
def send(guarded) -> Caller:
    cookie = f"{guarded.access.cookie}={guarded.access.token}"
    return Caller(guarded, {"host": "127.0.0.1:8765", "cookie": cookie})


@pytest.fixture(scope="module")
def every(guarded) -> list[Route]:
    assert isinstance(guarded.app, Starlette)
    routes = guarded.app.routes
    assert all(isinstance(route, Route) for route in routes), "mounts and websockets are outside of these tests"
    assert len(routes) >= 2 * len(PARTS)
    return routes


def filled(route: Route, value: str) -> str:
    """Return the address of a route with a value in place of its parameters."""
    path = route.path
    for name in route.param_convertors:
        number = "0" if name == "number" else value
        path = path.replace(f"{{{name}:int}}", number).replace(f"{{{name}:path}}", value).replace(f"{{{name}}}", value)
    assert "{" not in path
    return path


FOREIGN = [
    ({"cookie": None}, 401),
    ({"cookie": "patchword-8765=wrong"}, 401),
    ({"host": "evil.example"}, 421),
    ({"host": "127.0.0.1:1"}, 421),
    ({"host": None}, 421),
    ({"origin": "http://evil.example"}, 403),
    ({"origin": "null"}, 403),
    ({"origin": "http://localhost:3000"}, 403),
    ({"sec-fetch-site": "cross-site"}, 403),
    ({"sec-fetch-site": "same-site"}, 403),
]


@pytest.mark.parametrize(("headers", "status"), FOREIGN)
def test_no_route_answers_a_foreign_request(every, send, headers, status):
    for route in every:
        for method in METHODS:
            body = [b"{}"] if method in ("POST", "PUT", "PATCH") else []
            found = send(filled(route, "vit-exercise"), method, {**JSON, **headers}, body)
            assert found.status == status, (route.path, method)
            assert SECURITY_HEADERS.items() <= found.headers.items()


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "multipart/form-data", "text/plain", ""])
def test_no_route_takes_the_post_of_a_form(every, send, kind):
    for route in every:
        for method in ("POST", "PUT", "PATCH"):
            found = send(filled(route, "vit-exercise"), method, {"content-type": kind}, [b'{"verb":"train"}'])
            assert found.status == 415, (route.path, method)


@pytest.mark.parametrize("id", TRAVERSALS)
def test_no_id_is_a_path(every, send, id):
    for route in every:
        if not route.param_convertors:
            continue
        for method in (route.methods or set()) - {"HEAD"}:
            body = [b"{}"] if method == "POST" else []
            found = send(filled(route, id), method, JSON if body else {}, body)
            assert found.status in (404, 405, 422), (route.path, method, found.status)
            assert b"root:" not in found.body
            assert len(found.body) < 5000
            if route.path.startswith("/api/"):
                assert found.json()["error"]["what"]


HOSTILE = [
    b"",
    b"null",
    b"[]",
    b'{"text": "\\ud800"}',
    b'{"text": NaN, "size": Infinity}',
    b'{"text": "a", "layer": 1' + b"0" * 5000 + b"}",
    b'{"text": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"texts": ["a", 1], "fields": {"--x": {}}, "word": -1}',
    b"\xff\xfe",
    b"," * 999_999,
    b"a\rb\rlabel\rtext",
    b'"' * 99_999,
]


@pytest.mark.parametrize("body", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_body_is_an_error_in_words(every, send, body):
    for route in every:
        if "POST" not in (route.methods or set()):
            continue
        for kind in (JSON, BYTES):
            found = send(filled(route, "bert-mini"), "POST", kind, [body])
            assert found.status in (404, 422), (route.path, found.status, found.body[:200])
            assert len(found.body) < 10_000
            assert b"Traceback" not in found.body
            assert str(Path.cwd()).encode() not in found.body
            assert found.headers["content-type"] == "application/json"


def test_fifty_megabytes_are_refused_by_every_route(every, send):
    tracemalloc.start()
    for route in every:
        path = filled(route, "vit-exercise")
        assert send(path, "POST", {**BYTES, "content-length": "50000000"}).status == 413
        if "POST" in (route.methods or set()):
            chunks = repeat(bytes(1_000_000), 50)
            assert send(path, "POST", BYTES, chunks).status == 413
            assert sum(1 for _ in chunks) >= 41, "the rest of the body was read"
    assert tracemalloc.get_traced_memory()[1] < 60_000_000
    tracemalloc.stop()


def test_a_long_error_is_cut(send):
    found = send("/api/texts", "POST", BYTES, [",".join(f"name {n}" for n in range(999)).encode()])
    assert found.status == 422
    assert len(found.json()["error"]["expected"]) == 2000
    assert "too many columns" in send("/api/texts", "POST", BYTES, [b"," * 999_999]).json()["error"]["what"]


def test_an_image_of_digits_is_bounded(send):
    found = send("/api/look/vit-exercise", "POST", BYTES, [b"P3 4000 4000 255 " + b"1 " * 3_900_000])
    assert found.status == 422
    assert found.json()["error"]["what"] == "this image is written as text"


def test_a_folder_of_runs_that_cannot_be_made_is_an_error_in_words(page, models, tmp_path):
    (tmp_path / "runs").write_text("a file")
    access = Access(8765)
    app = build_app(LabSettings(access, read_bundle(page), models, runs=tmp_path / "runs"))
    call = Caller(app, {"host": "127.0.0.1:8765", "cookie": f"{access.cookie}={access.token}"})
    body = json.dumps({"verb": "train", "recipe": "digits-vit", "name": "new"}).encode()
    found = call("/api/jobs", "POST", JSON, [body])
    assert found.status == 422
    assert found.json()["error"]["what"] == "a file or a folder cannot be used"
    assert str(tmp_path) not in found.body.decode()
    assert call("/api/runs").json()["runs"] == []
