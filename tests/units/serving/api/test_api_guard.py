"""Who may ask, and what every response of the API has."""

import re

import pytest

from patchword.serving.secured_response import SECURITY_HEADERS
from support.serving.client import HOST
from support.serving.services import HeldModel, running

TOKEN = "a-token-of-this-test"
BODY = {"inputs": ["a"]}


@pytest.fixture(scope="module")
def model():
    found = HeldModel()
    found.go_on.set()
    return found


@pytest.fixture(scope="module")
def call(model):
    with running({"held": model.served(queue=1e9)}, token=TOKEN) as (_, client):
        client.headers["authorization"] = f"Bearer {TOKEN}"
        yield client


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"authorization": f"bearer {TOKEN}"}, 200),
        ({"authorization": None}, 401),
        ({"authorization": "Bearer "}, 401),
        ({"authorization": f"Bearer {TOKEN[:-1]}"}, 401),
        ({"authorization": f"Bearer {TOKEN}x"}, 401),
        ({"authorization": f"Basic {TOKEN}"}, 401),
        ({"authorization": "Bearer \xfc"}, 401),
        ({"host": "evil.example"}, 421),
        ({"host": None}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": f"http://{HOST}"}, 200),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"content_encoding": "gzip"}, 415),
    ],
)
def test_who_may_ask(call, headers, status):
    found = call("/predict", BODY, **headers)
    assert found.status == status
    assert SECURITY_HEADERS.items() <= found.headers.items()
    if status != 200:
        assert {"what", "expected", "got", "hint", "message", "request_id"} <= found.json()["error"].keys()


def test_health_is_open_and_nothing_else(call):
    for address in ("/health/live", "/health/ready", "/v2/health/live", "/v2/health/ready"):
        assert call(address, authorization=None, host="10.0.0.7:8000").status == 200
    for address in ("/metrics", "/models", "/v1/models", "/v2", "/v2/models/held", "/", "/health", "/nothing"):
        assert call(address, authorization=None).status == 401
        assert call(address, host="evil.example").status == 421
    assert call("/nothing").status == 404
    assert call("/predict").status == 405


def test_every_response_has_the_id_of_its_request(call):
    assert call("/predict", BODY, x_request_id="abc-1.2_3").headers["x-request-id"] == "abc-1.2_3"
    for wrong in ("", "a b", "a\tb", "<script>", "x" * 65):
        found = call("/predict", {"inputs": 1}, x_request_id=wrong)
        assert re.fullmatch("[0-9a-f]{16}", found.headers["x-request-id"])
        assert found.json()["error"]["request_id"] == found.headers["x-request-id"]


def test_a_fault_shows_no_details(call, model, monkeypatch, caplog):
    def fail(inputs, top):
        raise RuntimeError("a secret detail")

    monkeypatch.setattr(model, "items", fail)
    found = call("/predict", BODY, x_request_id="the-failed-one")
    assert found.status == 500
    assert b"secret" not in found.body
    assert b"Traceback" not in found.body
    assert "request the-failed-one failed" in caplog.text
    assert TOKEN not in caplog.text
