"""POST /predict: JSON, texts, images and forms; the answers of the pipeline."""

import io
from dataclasses import replace

import pytest
from PIL import Image

import patchword
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from support.helpers import tiny, tiny_text
from support.material import write_picture
from support.serving.services import of_pipelines, running

TEXTS = ["The cat sat on the mat.", "Ada lived in London, and the cat ran to the bank in town!", "A mat."]
LABELS = ("bad", "fair", "good")


@pytest.fixture(scope="module")
def pipelines():
    tokenizer = Tokenizer.train_on(TEXTS * 3, vocabulary=200)

    def text_model(head, labels=LABELS, **config):
        fields = {"vocabulary": tokenizer.vocabulary, "max_length": 40, "head": head, **config}
        model = tiny_text("bert-tiny", **fields | ({"classes": len(labels)} if labels else {}))
        model.card = replace(model.card, labels=labels)
        return patchword.pipeline(model, tokenizer=tokenizer, device="cpu")

    images = tiny("vit-tiny-16", image=32, patch=8, classes=3)
    images.card = replace(images.card, labels=LABELS)
    return {
        "reviews": text_model("classes"),
        "tags": text_model("tags", ("O", "B-person", "I-person")),
        "span": text_model("span", ()),
        "photos": patchword.pipeline(images, device="cpu"),
    }


@pytest.fixture(scope="module")
def call(pipelines):
    with running(of_pipelines(**pipelines)) as (_, client):
        yield client


@pytest.fixture(scope="module")
def only(pipelines):
    """A client of a server of one model."""
    with running(of_pipelines(reviews=pipelines["reviews"])) as (_, client):
        yield client


@pytest.fixture
def picture(tmp_path) -> bytes:
    return write_picture(tmp_path / "a.png", size=(40, 30), mode="RGB").read_bytes()


def same(found, expected):
    """The same labels, and probabilities that differ by the order of additions."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            same(found[key], value)
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            same(one, other)
    else:
        assert found == (pytest.approx(expected, abs=1e-5) if isinstance(expected, float) else expected)


def test_texts_are_classified_as_the_pipeline_does(only, pipelines):
    found = only("/predict", {"inputs": TEXTS, "top": 2})
    assert found.status == 200
    expected = [one.output.record() for one in pipelines["reviews"](TEXTS, top=2)]
    same(found.json(), {"model": "reviews", "answers": expected})


def test_one_text_may_be_the_body(only, pipelines):
    expected = pipelines["reviews"](TEXTS[0])[0].output.record()
    for found in (
        only("/predict", TEXTS[0].encode(), kind="text/plain; charset=utf-8"),
        only("/predict", {"inputs": TEXTS[0]}),
    ):
        same(found.json()["answers"], [expected])


def test_a_truncated_text_says_so(only):
    found = only("/predict", {"inputs": ["cat " * 100, "cat"]}).json()["answers"]
    assert [one.get("truncated") for one in found] == [True, None]


@pytest.mark.parametrize("name", ["tags", "span"])
def test_the_other_heads_answer_as_the_pipeline_does(call, pipelines, name):
    if name == "tags":
        inputs, expected = TEXTS, pipelines[name](TEXTS)
    else:
        inputs = [{"text": TEXTS[1], "question": "Who ran?"}]
        expected = pipelines[name](TEXTS[1], question="Who ran?")
    found = call(f"/models/{name}/predict", {"inputs": inputs})
    assert found.status == 200
    same(found.json()["answers"], [one.output.record() for one in expected])


def test_images_come_as_files_or_in_a_form(call, pipelines, picture):
    expected = pipelines["photos"](Image.open(io.BytesIO(picture)))[0].output.record()
    for kind in ("image/png", "application/octet-stream"):
        same(call("/models/photos/predict", picture, kind=kind).json()["answers"], [expected])
    pytest.importorskip("python_multipart")
    form = b"".join(
        b'--x\r\nContent-Disposition: form-data; name="file"; filename="%d.png"\r\n' % number
        + b"Content-Type: image/png\r\n\r\n%s\r\n" % picture
        for number in range(3)
    )
    found = call("/models/photos/predict", form + b"--x--\r\n", kind="multipart/form-data; boundary=x")
    same(found.json()["answers"], [expected] * 3)
    many = call("/models/photos/predict", form * 6 + b"--x--\r\n", kind="multipart/form-data; boundary=x")
    assert (many.status, many.json()["error"]["request_id"]) == (400, many.headers["x-request-id"])


def test_several_models_are_chosen_by_name(call):
    body = {"inputs": TEXTS[0], "model": "reviews"}
    by_field, by_address = call("/predict", body), call("/models/reviews/predict", {"inputs": TEXTS[0]})
    same(by_field.json(), by_address.json())
    unnamed = call("/predict", {"inputs": "a"})
    assert (unnamed.status, "one of reviews, tags, span, photos" in unnamed.json()["error"]["expected"]) == (404, True)
    unknown = call("/models/review/predict", {"inputs": "a"})
    assert (unknown.status, "'reviews'" in unknown.json()["error"]["hint"]) == (404, True)


def test_models_are_described(call):
    found = {one["name"]: one for one in call("/models").json()["models"]}
    assert found["reviews"]["labels"] == list(LABELS)
    assert found["reviews"]["can"] == ["predict", "embed"]
    assert (found["reviews"]["max_tokens"], found["photos"]["input"]) == (40, [3, 32, 32])


@pytest.mark.parametrize(
    ("body", "status", "what"),
    [
        ({"inputs": []}, 422, "the number of texts"),
        ({"inputs": ["a"] * 2_049}, 422, "the number of texts"),
        ({"inputs": ["a", "  "]}, 422, "inputs.1: the text is empty"),
        ({"inputs": ["a"], "top": 0}, 422, "the request cannot be read: top"),
        ({"inputs": ["a"], "tops": 1}, 422, "the request cannot be read: tops"),
        ({"inputs": [1]}, 422, "the request cannot be read: inputs"),
        ({"inputs": ["a" * 100_001]}, 413, "inputs.0 is too long"),
        (b"{", 422, "the request cannot be read: the body"),
        (b"[" * 100_000, 422, "the request cannot be read: the body"),
        (b'{"inputs": "\xff"}', 422, "the request cannot be read"),
    ],
)
def test_mistakes_are_named(only, body, status, what):
    found = only("/predict", body)
    error = found.json()["error"]
    assert (found.status, error["what"].startswith(what)) == (status, True), error
    assert error["expected"] or error["hint"] or "empty" in what
    assert error["message"].startswith(error["what"])


def test_bodies_of_other_types_are_refused(call, picture):
    assert call("/models/photos/predict", {"inputs": "a"}).status == 415
    assert call("/models/reviews/predict", picture, kind="image/png").status == 415
    assert call("/models/reviews/predict", b"a", kind="text/html").status == 415
    assert call("/models/reviews/predict", b"\xff", kind="text/plain").status == 422


@pytest.mark.parametrize("cut", [0, 10, 200])
def test_images_that_cannot_be_read_are_refused(call, picture, cut):
    found = call("/models/photos/predict", picture[:cut], kind="image/png")
    assert (found.status, found.json()["error"]["what"]) == (422, "image 0: this is not an image that can be read")


def test_an_image_with_too_many_pixels_is_refused_by_its_header(call):
    written = io.BytesIO()
    Image.new("1", (5_000, 5_000)).save(written, "PNG")
    found = call("/models/photos/predict", written.getvalue(), kind="image/png")
    assert (found.status, found.json()["error"]["expected"]) == (422, "at most 16,000,000 pixels")
