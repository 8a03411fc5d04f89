"""What happens under load, at faults, and when a client or the server leaves."""

import asyncio

import pytest

from patchword.serving.api.service import ServiceLimits
from support.serving.services import PATIENT, HeldModel, running


@pytest.fixture
def model():
    found = HeldModel()
    yield found
    found.go_on.set()


async def begun(model):
    """Wait until a batch is computed."""
    assert await asyncio.to_thread(model.begun.wait, PATIENT)


def inputs(*texts):
    return {"inputs": list(texts)}


def test_an_overload_is_refused_at_once_and_the_rest_is_answered(model):
    async def flood(client):
        first = asyncio.create_task(client.ask("/predict", inputs("a", "b", "c")))
        await begun(model)
        refused = await asyncio.gather(*(client.ask("/predict", inputs("x")) for _ in range(20)))
        model.go_on.set()
        return await first, refused

    with running({"held": model.served()}) as (service, client):
        accepted, refused = asyncio.run(flood(client))
        assert (accepted.status, accepted.json()["answers"]) == (200, ["a", "b", "c"])
        assert {(one.status, one.headers["retry-after"]) for one in refused} == {(429, "1")}
        assert refused[0].json()["error"]["type"] == "rate_limit_error"
        assert service.metrics.requests["predict", 429] == 20
        assert client("/predict", inputs("d")).json()["answers"] == ["d"]


def test_an_overload_is_refused_before_its_inputs_are_tokenised(model, monkeypatch):
    async def flood(client):
        first = asyncio.create_task(client.ask("/predict", inputs("a", "b", "c")))
        await begun(model)
        monkeypatch.setattr(model, "items", None)
        refused = await client.ask("/predict", inputs("x"))
        model.go_on.set()
        return await first, refused

    with running({"held": model.served()}) as (_, client):
        accepted, refused = asyncio.run(flood(client))
    assert (accepted.status, refused.status) == (200, 429)


def test_a_request_that_is_too_much_for_its_deadline_is_refused(model):
    with running({"held": model.served()}, ServiceLimits(deadline=5)) as (_, client):
        found = client("/predict", inputs(*"abcdefgh"))
    assert (found.status, found.json()["error"]["expected"]) == (413, "at most 5 s of work, the deadline of a request")


def test_an_answer_that_comes_too_late_is_an_error(model):
    with running({"held": model.served()}, ServiceLimits(deadline=1.01)) as (service, client):
        found = client("/predict", inputs("a"))
        assert (found.status, found.json()["error"]["what"]) == (504, "the deadline has passed")
        model.go_on.set()
        assert service.served["held"].engine.stats.cancelled == 1
        assert service.open_requests == 0


def test_a_request_that_comes_while_the_server_drains_does_not_hold_up_its_end(model):
    async def send_half(client, service):
        gone = asyncio.Event()
        asked = asyncio.create_task(client.ask("/predict", inputs("a"), gone=gone, more=True))
        await asyncio.sleep(0)
        was_idle = service.is_idle
        gone.set()
        await asked
        return was_idle

    with running({"held": model.served()}) as (service, client):
        assert not asyncio.run(send_half(client, service))
        service.drain()
        assert asyncio.run(send_half(client, service))


def test_a_client_that_hangs_up_frees_its_place(model):
    async def leave(client):
        running_one = asyncio.create_task(client.ask("/predict", inputs("running")))
        await begun(model)
        gone = asyncio.Event()
        waiting = asyncio.create_task(client.ask("/predict", inputs("gone"), gone=gone))
        while not engine.load[0]:
            await asyncio.sleep(0.01)
        gone.set()
        assert (await waiting).status == 499
        assert engine.load[0] == 0
        model.go_on.set()
        return await running_one

    with running({"held": model.served()}) as (service, client):
        engine = service.served["held"].engine
        assert asyncio.run(leave(client)).json()["answers"] == ["running"]
        assert model.batches == [["running"]]
        assert service.metrics.requests["predict", 499] == 1
        assert service.is_idle


def test_a_poisoned_text_harms_no_neighbour(model):
    async def ask(client):
        first = asyncio.create_task(client.ask("/predict", inputs("first")))
        await begun(model)
        others = [asyncio.create_task(client.ask("/predict", inputs(text))) for text in ("a", "poison", "b")]
        while service.served["held"].engine.load[0] < 3:
            await asyncio.sleep(0.01)
        model.go_on.set()
        return await asyncio.gather(first, *others)

    with running({"held": model.served(queue=10)}) as (service, client):
        found = asyncio.run(ask(client))
        assert [one.status for one in found] == [200, 200, 500, 200]
        error = found[2].json()["error"]
        assert (error["what"], error["request_id"]) == ("the server has a fault", found[2].headers["x-request-id"])
        assert b"poisoned" not in found[2].body
        assert len(model.batches[1]) == 3  # it was in a batch with its neighbours


def test_an_answer_that_is_not_a_number_is_a_fault(model):
    model.go_on.set()
    with running({"held": model.served()}) as (_, client):
        assert client("/predict", inputs("nan")).status == 500
        assert client("/predict", inputs("a")).status == 200


def test_a_server_that_drains_answers_what_it_accepted_and_refuses_the_rest(model):
    async def drain(client):
        accepted = asyncio.create_task(client.ask("/predict", inputs("a")))
        await begun(model)
        assert (await client.ask("/health/ready")).status == 200
        service.drain()
        refused = await client.ask("/predict", inputs("b"))
        ready, live = await client.ask("/health/ready"), await client.ask("/health/live")
        assert not service.is_idle
        model.go_on.set()
        return (await accepted), refused, ready, live

    with running({"held": model.served()}) as (service, client):
        accepted, refused, ready, live = asyncio.run(drain(client))
        assert [one.status for one in (accepted, refused, ready, live)] == [200, 503, 503, 200]
        assert (refused.headers["connection"], refused.headers["retry-after"]) == ("close", "5")
        assert service.is_idle


def test_bodies_have_a_limit(model):
    with running({"held": model.served()}, ServiceLimits(body_bytes=1_000)) as (_, client):
        assert client("/predict", b"a" * 1_001, kind="text/plain").status == 413
        chunked = client("/predict", b"a" * 1_001, kind="text/plain", content_length="10")
        assert chunked.status == 413


def test_metrics_count_what_happened(model):
    model.go_on.set()
    with running({"held": model.served()}) as (_, client):
        for _ in range(3):
            client("/predict", inputs("a", "b"))
        client("/predict", {"wrong": 1})
        text = client("/metrics").body.decode()
    assert 'patchword_requests_total{route="predict",code="200"} 3' in text
    assert 'patchword_requests_total{route="predict",code="422"} 1' in text
    assert 'patchword_inputs_total{model="held"} 6' in text
    assert 'patchword_queued_seconds_count{model="held"} 6' in text
    assert "patchword_ready 1" in text
    for line in text.splitlines():  # as Prometheus reads them
        name, _, value = line.rpartition(" ")
        assert line.startswith("# ") or (name.startswith(("patchword_", "process_")) and float(value) >= 0)
