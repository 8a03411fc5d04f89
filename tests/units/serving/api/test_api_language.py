"""/fill, /generate and /translate: the records of the verbs, and server-sent events."""

import asyncio
import json
from itertools import pairwise

import pytest

import patchword
from patchword.recipes.text.inference.generation import GenerationOptions
from patchword.serving.api.service import ServiceLimits
from support.serving.live import listening
from support.serving.models import TEXTS, text_pipeline, tokenizer_of_texts
from support.serving.services import of_pipelines, running

PROMPT = "The cat"


@pytest.fixture(scope="module")
def pipelines():
    tokenizer = tokenizer_of_texts()
    sizes = {"width": 32, "depth": 1, "heads": 4, "hidden": 64}
    translator = patchword.create("transformer-base", vocabulary=tokenizer.vocabulary, max_length=40, **sizes)
    return {
        "bert": text_pipeline("words", ()),
        "gpt": text_pipeline("words", (), family="gpt2-small"),
        "german": patchword.pipeline(translator, tokenizer=(tokenizer, tokenizer), device="cpu"),
        "reviews": text_pipeline("classes"),
    }


@pytest.fixture(scope="module")
def call(pipelines):
    with running(of_pipelines(**pipelines)) as (_, client):
        yield client


def events_of(found) -> list[tuple[str, dict]]:
    assert (found.status, found.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert "content-length" not in found.headers
    blocks = found.body.decode().split("\n\n")
    assert blocks.pop() == ""
    lines = [block.split("\n") for block in blocks]
    assert all([line.partition(": ")[0] for line in block] == ["event", "data"] for block in lines)
    return [(event.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for event, data in lines]


def test_masks_are_filled_as_the_verb_does(call, pipelines):
    texts = ["The [MASK] sat on the [MASK].", "A [MASK]."]
    found = call("/models/bert/fill", {"inputs": texts, "top": 2, "pieces": True}).json()
    assert found["model"] == "bert"
    for text, answer in zip(texts, found["answers"], strict=True):
        expected = pipelines["bert"].fill(text, top=2, pieces=True)
        assert (answer["text"], answer["filled"]) == (text, expected.filled)
        for gap, one in zip(answer["gaps"], expected, strict=True):
            assert (gap["start"], gap["end"]) == (one.start, one.end)
            assert [each["word"] for each in gap["fillings"]] == [each.word for each in one.fillings]
    alone = call("/models/bert/fill", b"A [MASK].", kind="text/plain").json()["answers"]
    assert [one["filled"] for one in alone] == [pipelines["bert"].fill("A [MASK].").filled]


GREEDY = {"temperature": 0, "tokens": 6}


@pytest.mark.parametrize(
    "options", [GREEDY, {"tokens": 7, "seed": 3, "samples": 3, "top_k": 9}, {"tokens": 5, "beams": 2, "samples": 2}]
)
def test_a_prompt_is_continued_as_the_verb_does(call, pipelines, options):
    found = call("/models/gpt/generate", {"prompt": PROMPT, **options}).json()
    expected = pipelines["gpt"].generate(PROMPT, **options)
    assert {key: found[key] for key in ("model", "prompt")} == {"model": "gpt", "prompt": PROMPT}
    assert [one["text"] for one in found["texts"]] == [one.text for one in expected]
    assert [(one["tokens"], one["ended"]) for one in found["texts"]] == [(one.tokens, one.ended) for one in expected]
    assert [one["score"] for one in found["texts"]] == pytest.approx([one.score for one in expected], abs=1e-4)


def test_a_stream_has_an_event_per_token_and_the_whole_in_the_end(call):
    body = {"prompt": PROMPT, "tokens": 8, "samples": 2, "seed": 5}
    *tokens, last = events_of(call("/models/gpt/generate", {**body, "stream": True}))
    assert last == ("done", call("/models/gpt/generate", body).json())
    assert {name for name, _ in tokens} == {"token"}
    for sample, whole in enumerate(last[1]["texts"]):
        pieces = [one["text"] for _, one in tokens if one["sample"] == sample]
        assert "".join(pieces) == whole["text"]
        assert len(pieces) in (whole["tokens"], whole["tokens"] + 1)


@pytest.mark.parametrize("beams", [1, 5])
def test_texts_are_translated_as_the_verb_does(call, pipelines, beams):
    found = call("/models/german/translate", {"inputs": TEXTS, "beams": beams}).json()
    expected = pipelines["german"].translate(TEXTS, beams=beams)
    assert found["answers"] == [{"text": text, "translation": one} for text, one in zip(TEXTS, expected, strict=True)]


def test_a_translation_is_streamed(call, pipelines):
    found = events_of(call("/models/german/translate", {"inputs": TEXTS[2], "beams": 1, "stream": True}))
    *tokens, (name, last) = found
    expected = {"model": "german", "text": TEXTS[2], "translation": pipelines["german"].translate(TEXTS[2], beams=1)[0]}
    assert (name, last) == ("done", expected)
    assert {name for name, _ in tokens} == {"token"}


@pytest.mark.parametrize(
    ("address", "body", "status", "what"),
    [
        ("bert/fill", {"inputs": "no mask"}, 422, "inputs.0: there is no [MASK]"),
        ("bert/fill", {"inputs": ["[MASK]", "a " * 60 + "[MASK]"]}, 422, "inputs.1: the text is longer"),
        ("bert/fill", {"inputs": ["[MASK] " * 20] * 100, "top": 100}, 422, "the answer would be too long"),
        ("bert/fill", {"inputs": []}, 422, "the number of texts"),
        ("bert/generate", {"prompt": "a"}, 422, "bert cannot generate"),
        ("gpt/fill", {"inputs": "[MASK]"}, 422, "gpt cannot fill"),
        ("reviews/fill", {"inputs": "[MASK]"}, 422, "reviews cannot fill"),
        ("german/predict", {"inputs": "a"}, 422, "german cannot predict"),
        ("reviews/translate", {"inputs": "a"}, 422, "reviews cannot translate"),
        ("gpt/generate", {"prompt": "cat " * 60}, 422, "a prompt is too long for the model"),
        ("gpt/generate", {"prompt": "a" * 100_001}, 413, "prompt is too long"),
        ("gpt/generate", {"prompt": "a", "tokens": 2_001}, 422, "the request cannot be read: tokens"),
        ("gpt/generate", {"prompt": "a", "samples": 17}, 422, "the request cannot be read: samples"),
        ("gpt/generate", {"prompt": "a", "temperature": 0, "top_k": 3}, 422, "nothing is sampled"),
        ("gpt/generate", {"prompt": "a", "beams": 2, "stream": True}, 422, "a beam search has no tokens to stream"),
        ("gpt/generate", {"field": "body"}, 422, "the tokenizer has no tokens for news fields"),
        ("gpt/generate", {"prompt": "a", "field": "body"}, 422, "a prompt and fields exclude each other"),
        ("gpt/generate", {"fields": {"body": "a"}}, 422, "no field to generate was named"),
        ("german/translate", {"inputs": "a", "stream": True}, 422, "only one text, with greedy search"),
        ("german/translate", {"inputs": "cat " * 60}, 422, "inputs, line 1: a text is longer"),
    ],
)
def test_mistakes_are_named(call, address, body, status, what):
    found = call(f"/models/{address}", body)
    error = found.json()["error"]
    assert (found.status, error["what"].startswith(what)) == (status, True), error


def test_what_a_model_can_is_listed(call):
    can = {one["name"]: one["can"] for one in call("/models").json()["models"]}
    assert can == {
        "bert": ["fill", "embed"],
        "gpt": ["generate", "embed"],
        "german": ["translate"],
        "reviews": ["predict", "embed"],
    }
    assert len(call("/v1/embeddings", {"input": "a", "model": "gpt"}).json()["data"]) == 1


class Slow:
    """Makes each batch of an engine wait for the test, which counts them."""

    def __init__(self, engine) -> None:
        self.compute, self.batches, self.allowed = engine._compute, 0, asyncio.Semaphore(0)
        self.entered = 0
        self.loop = asyncio.get_running_loop()
        engine._compute = self

    def __call__(self, items):
        self.entered += 1
        asyncio.run_coroutine_threadsafe(self.allowed.acquire(), self.loop).result(60)
        self.batches += 1
        return self.compute(items)

    async def allow(self, batches: int) -> None:
        for _ in range(batches):
            self.allowed.release()
        while self.allowed._value:
            await asyncio.sleep(0.01)


def one_model(pipelines, **limits):
    return running(of_pipelines(gpt=pipelines["gpt"]), ServiceLimits(**limits))


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_hangs_up_frees_its_place_at_the_next_token(pipelines, stream):
    async def leave(service, client):
        engine, gone = service.served["gpt"].engine, asyncio.Event()
        slow = Slow(engine)
        body = {"prompt": PROMPT, "tokens": 30, "temperature": 0, "stream": stream}
        asked = asyncio.create_task(client.ask("/generate", body, gone=gone))
        await slow.allow(3)
        gone.set()
        while not engine.stats.cancelled:
            await asyncio.sleep(0.01)
        slow.allowed.release()  # the token that was being computed
        found = await asked
        while not engine.is_idle:
            await asyncio.sleep(0.01)
        assert 3 <= slow.batches <= 4
        return found

    with one_model(pipelines) as (service, client):
        found = asyncio.run(leave(service, client))
        assert found.status == (200 if stream else 499)
        assert b"event: done" not in found.body
        assert service.is_idle


def test_two_texts_grow_in_turns(pipelines):
    async def both(service, client):
        slow = Slow(service.served["gpt"].engine)
        body = {"prompt": PROMPT, "tokens": 5, "temperature": 0}
        asked = [asyncio.create_task(client.ask("/generate", body))]
        while not slow.entered:
            await asyncio.sleep(0.01)
        asked.append(asyncio.create_task(client.ask("/generate", body)))
        while service.served["gpt"].engine.load[0] < 1:
            await asyncio.sleep(0.01)
        await slow.allow(1)
        for _ in range(20):
            slow.allowed.release()
        return [one.json()["texts"][0]["text"] for one in await asyncio.gather(*asked)], slow.batches

    with one_model(pipelines) as (service, client):
        texts, batches = asyncio.run(both(service, client))
        expected = pipelines["gpt"].generate(PROMPT, tokens=5, temperature=0)[0].text
        assert texts == [expected] * 2
        assert batches < 12  # together, not one after the other


def test_too_much_work_and_deadlines_are_refused_as_everywhere(pipelines):
    with one_model(pipelines, deadline=5) as (service, client):
        engine = service.served["gpt"].engine
        engine._queue.speed.per_second = 1.0
        body = {"prompt": "The", "tokens": 30, "temperature": 0}
        assert client("/generate", body).status == 413
        assert client("/generate", {**body, "stream": True}).status == 413

    async def late(service, client):
        slow = Slow(service.served["gpt"].engine)
        asked = asyncio.create_task(client.ask("/generate", {**body, "stream": True}))
        await slow.allow(2)
        found = await asked
        slow.allowed.release()
        return found

    with one_model(pipelines, deadline=1.0) as (service, client):
        *tokens, (name, last) = events_of(asyncio.run(late(service, client)))
        assert {event for event, _ in tokens} == {"token"}
        assert (name, last["error"]["what"]) == ("error", "the deadline has passed")


def test_a_full_queue_refuses_a_stream_with_a_status(pipelines):
    async def flood(service, client):
        slow = Slow(service.served["gpt"].engine)
        service.served["gpt"].engine._queue.speed.per_second = 10.0
        body = {"prompt": PROMPT, "tokens": 30, "temperature": 0}
        first = asyncio.create_task(client.ask("/generate", body))
        while service.served["gpt"].engine.is_idle:
            await asyncio.sleep(0.01)
        refused = await client.ask("/generate", {**body, "stream": True})
        service.drain()
        stopped = await client.ask("/generate", {**body, "stream": True})
        for _ in range(60):
            slow.allowed.release()
        return refused, stopped, await first

    with one_model(pipelines) as (service, client):
        refused, stopped, first = asyncio.run(flood(service, client))
        assert (refused.status, int(refused.headers["retry-after"]) >= 1) == (429, True)
        assert stopped.status == 503
        assert first.status == 200


def test_a_fault_in_a_stream_is_its_last_event(pipelines, caplog):
    with one_model(pipelines) as (service, client):
        engine, count = service.served["gpt"].engine, iter(range(99))
        compute = engine._compute

        def fail(items):
            if next(count) == 2:
                items[0].value.step = lambda: 1 / 0
            return compute(items)

        engine._compute = fail
        body = {"prompt": PROMPT, "tokens": 9, "temperature": 0, "stream": True}
        *tokens, (name, last) = events_of(client("/generate", body, x_request_id="the-failed-one"))
        assert (len(tokens), name, last["error"]["what"]) == (2, "error", "the server has a fault")
        assert "request the-failed-one failed" in caplog.text
        assert client("/generate", {**body, "stream": False}).status == 200


def test_tokens_arrive_one_by_one_over_a_socket(pipelines):
    import http.client

    with one_model(pipelines) as (_, client), listening(client.app) as port:
        asked = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        body = json.dumps({"prompt": PROMPT, "tokens": 4, "temperature": 0, "stream": True})
        asked.request("POST", "/generate", body, {"content-type": "application/json"})
        found = asked.getresponse()
        assert found.getheader("transfer-encoding") == "chunked"
        events = [line for line in found.read().decode().split("\n") if line.startswith("event")]
        assert events == ["event: token"] * 4 + ["event: done"]
        asked.close()
    assert all(one == "event: token" for one, _ in pairwise(events))


def test_options_have_the_defaults_of_the_verb():
    from patchword.serving.api.language import GenerateFields

    assert GenerateFields().options() == GenerationOptions()
