"""A few of the nearly right requests of `make fuzz-requests`: each is answered, or refused with a reason."""

import asyncio

import pytest

from support.serving.client import Client
from support.serving.fuzzed import fault, models, sound_requests
from support.serving.odd_requests import OddRequest, odd_request
from support.serving.services import HeldModel, running


@pytest.fixture(scope="module")
def call():
    with running(models()) as (_, client):
        yield client


def asked(client: Client, request: OddRequest) -> str:
    """Return what is wrong with the answer."""
    headers = {"host": client.headers["host"], **request.headers}
    kind = request.kind if request.kind is not None else "application/json"
    options = {name: value.encode("utf-8", "replace").decode("latin-1") for name, value in headers.items()}
    method = request.method or ("GET" if request.body is None else "POST")
    found = asyncio.run(client.ask(request.address, request.body, kind, method, **options))
    return fault(found.status, found.headers, found.body, method)


def test_sound_requests_are_answered(call):
    for request in sound_requests():
        method = "GET" if request.body is None else "POST"
        found = asyncio.run(call.ask(request.address, request.body, request.kind or "", method))
        assert found.status == 200, request.address


@pytest.mark.parametrize("seed", range(0, 400, 100))
def test_odd_requests_are_answered_or_refused(call, seed):
    sound = sound_requests()
    for number in range(seed, seed + 100):
        assert not asked(call, odd_request(number, sound)), f"make fuzz-requests SEED={number} COUNT=1"


def test_a_number_is_one_request():
    sound = sound_requests()
    assert odd_request(7, sound) == odd_request(7, sound)
    assert len({odd_request(number, sound).address for number in range(300)}) > 20


def test_a_fault_is_found():
    model = HeldModel()
    model.go_on.set()
    with running({"held": model.served(queue=1e9)}) as (_, client):
        assert asked(client, OddRequest("/predict", b'{"inputs": ["poison"]}', "application/json")) == "status 500"
