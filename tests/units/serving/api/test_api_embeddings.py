"""POST /v1/embeddings: OpenAI's route with the vectors of `patchword embed`, and its client where it is installed."""

import base64

import numpy as np
import pytest

import patchword
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from support.helpers import tiny, tiny_text
from support.serving.live import listening
from support.serving.services import of_pipelines, running

TEXTS = ["The cat sat on the mat.", "A", "Ada lived in London, and the cat ran to the bank in town! " * 4]


@pytest.fixture(scope="module")
def pipelines():
    tokenizer = Tokenizer.train_on(TEXTS * 3, vocabulary=200)
    model = tiny_text("bert-tiny", vocabulary=tokenizer.vocabulary, max_length=40)
    images = patchword.pipeline(tiny("vit-tiny-16", image=32, patch=8, classes=3), device="cpu")
    return {"mini": patchword.pipeline(model, tokenizer=tokenizer, device="cpu"), "photos": images}


@pytest.fixture(scope="module")
def call(pipelines):
    with running(of_pipelines(**pipelines)) as (_, client):
        yield client


@pytest.fixture(scope="module")
def expected(pipelines):
    with pytest.warns(UserWarning, match="1 text is longer"):
        return pipelines["mini"].embed(TEXTS)


def test_the_vectors_are_those_of_embed(call, expected):
    body = {"input": TEXTS, "model": "mini"}
    numbers, packed = call("/v1/embeddings", body), call("/v1/embeddings", {**body, "encoding_format": "base64"})
    found = [one["embedding"] for one in numbers.json()["data"]]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    decoded = [np.frombuffer(base64.b64decode(one["embedding"]), "<f4") for one in packed.json()["data"]]
    np.testing.assert_array_equal(np.float32(found), decoded)
    assert [one["index"] for one in numbers.json()["data"]] == [0, 1, 2]
    assert [one.get("truncated") for one in numbers.json()["data"]] == [None, None, True]


def test_vectors_do_not_depend_on_their_neighbours(call, expected):
    for text, vector in zip(TEXTS, expected, strict=True):
        found = call("/v1/embeddings", {"input": text, "model": "mini"}).json()
        np.testing.assert_allclose(found["data"][0]["embedding"], vector, atol=1e-5)


def test_tokens_are_counted(call, pipelines):
    tokens = [min(40, len(one) + 2) for one in pipelines["mini"].tokenizer.encode(TEXTS)]
    usage = call("/v1/embeddings", {"input": TEXTS, "model": "mini"}).json()["usage"]
    assert usage == {"prompt_tokens": sum(tokens), "total_tokens": sum(tokens)}


@pytest.mark.parametrize(
    ("fields", "status", "expected"),
    [
        ({"dimensions": 4}, 422, "or none"),
        ({"input": [1, 2]}, 422, "a text or a list of texts"),
        ({"input": [[1, 2]]}, 422, "a text or a list of texts"),
        ({"input": []}, 422, "1 to 2,048 per request"),
        ({"encoding_format": "hex"}, 422, "'float' or 'base64'"),
        ({"model": "other"}, 404, None),
        ({"model": "photos"}, 422, "a model of texts"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(call, fields, status, expected):
    found = call("/v1/embeddings", {"input": "a", "model": "mini", **fields})
    error = found.json()["error"]
    assert found.status == status
    assert expected is None or expected in error["expected"]


def test_the_width_of_the_model_may_be_asked_for(call, expected):
    body = {"input": "a", "model": "mini", "dimensions": expected.shape[1], "user": "a reader"}
    assert call("/v1/embeddings", body).status == 200


def test_models_that_embed_are_listed(call):
    assert [one["id"] for one in call("/v1/models").json()["data"]] == ["mini"]


def test_the_client_of_openai_gets_these_vectors(pipelines, expected):
    openai = pytest.importorskip("openai")
    with (
        running(of_pipelines(mini=pipelines["mini"]), token="a-token-of-a-test") as (_, client),
        listening(client.app) as port,
    ):
        options = {"base_url": f"http://127.0.0.1:{port}/v1", "max_retries": 0, "timeout": 60}
        with openai.OpenAI(api_key="a-token-of-a-test", **options) as asked:
            found = asked.embeddings.create(model="mini", input=TEXTS)
            np.testing.assert_allclose([one.embedding for one in found.data], expected, atol=1e-5)
            assert found.usage.total_tokens > 0
            assert [one.id for one in asked.models.list()] == ["mini"]
            with pytest.raises(openai.NotFoundError, match="no model 'other' is served"):
                asked.embeddings.create(model="other", input="a")
        with openai.OpenAI(api_key="a-wrong-token", **options) as asked, pytest.raises(openai.AuthenticationError):
            asked.embeddings.create(model="mini", input="a")
