"""Opened models: each answers one request at a time, the last ones stay open, too much at a time is refused."""

import asyncio
import threading

import pytest
import torch
from starlette.exceptions import HTTPException
from starlette.requests import Request

from patchword.core.errors import UserError
from patchword.lab import opened as module
from patchword.lab.models import list_models
from patchword.lab.opened import OpenModels
from patchword.lab.replies import arrays_reply
from patchword.lab.requests import Fields, read_json


@pytest.fixture
def opened(monkeypatch):
    opening: list[str] = []
    monkeypatch.setattr(module, "pipeline", lambda source: opening.append(source) or source)
    found = OpenModels(list_models([]))
    yield found, opening
    found.close()


def test_a_model_is_opened_once_and_the_least_recently_used_is_closed(opened, monkeypatch):
    models, opening = opened
    monkeypatch.setattr(module, "MOST_OPEN", 2)
    for id in ("vit-exercise", "bert-mini", "vit-exercise", "gpt-mini", "vit-exercise", "bert-mini"):
        assert asyncio.run(models.ask(id, lambda pipeline: pipeline)) == f"zoo:{id}"
    assert opening == ["zoo:vit-exercise", "zoo:bert-mini", "zoo:gpt-mini", "zoo:bert-mini"]


def test_an_unknown_model_is_refused(opened):
    with pytest.raises(UserError, match="no model 'vit'"):
        asyncio.run(opened[0].ask("vit", lambda pipeline: pipeline))


def test_a_model_answers_one_request_at_a_time(opened):
    inside, most = 0, 0
    pause = threading.Event()

    def question(pipeline: object) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        pause.wait(0.02)
        inside -= 1

    async def all_at_once() -> None:
        await asyncio.gather(*(opened[0].ask("bert-mini", question) for _ in range(5)))

    asyncio.run(all_at_once())
    assert most == 1


def test_too_many_requests_are_refused(opened, monkeypatch):
    monkeypatch.setattr(module, "MOST_WAITING", 2)
    ended = threading.Event()

    async def three() -> list[object]:
        asks = [asyncio.ensure_future(opened[0].run(lambda: ended.wait(5))) for _ in range(3)]
        await asyncio.sleep(0)
        ended.set()
        return list(await asyncio.gather(*asks, return_exceptions=True))

    *answers, refused = asyncio.run(three())
    assert answers == [True, True]
    assert isinstance(refused, HTTPException)
    assert refused.status_code == 429


class Question(Fields):
    text: str
    layers: tuple[int, ...] = ()


def asked(body: bytes) -> Question:
    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    return asyncio.run(read_json(Request({"type": "http", "headers": []}, receive), Question))


def test_fields_are_checked():
    assert asked(b'{"text": "a", "layers": [1, 2]}').layers == (1, 2)
    for body in (b"", b"[]", b'{"text": 1}', b'{"text": "a", "other": 1}', b'{"text": "a", "layers": ["1"]}', b"\xff"):
        with pytest.raises(UserError, match="the request cannot be read"):
            asked(body)
    with pytest.raises(UserError, match="too long"):
        asked(b'{"text": "%s"}' % (b"a" * 1_000_000))


def test_arrays_carry_json():
    from safetensors.torch import load

    reply = arrays_reply({"tokens": ["a"]}, {"weights": torch.eye(2).bfloat16()})
    assert torch.equal(load(bytes(reply.body))["weights"], torch.eye(2))
    assert b'{\\"tokens\\":[\\"a\\"]}' in bytes(reply.body)[:200]
