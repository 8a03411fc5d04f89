"""What the lab answers about an image: the numbers of the Python API, within limits, and errors in plain words."""

import io
import json
import struct

import numpy as np
import pytest
from PIL import Image
from safetensors.torch import load

import patchword
from patchword.lab.models import list_models
from patchword.lab.patches import looking
from support.lab.page import caller
from support.lab.vit_reference import exercise_folder

BYTES = {"content-type": "application/octet-stream"}
SAMPLE = exercise_folder() / "sample" / "030.png"


def posted(call, path, content=None, headers=BYTES):
    return call(f"/api/look/{path}", method="POST", headers=headers, chunks=[content or SAMPLE.read_bytes()])


def answered(call, path, content=None):
    """Return the JSON and the arrays of an answer."""
    reply = posted(call, path, content)
    assert reply.status == 200, reply.body
    length = struct.unpack("<Q", reply.body[:8])[0]
    about = json.loads(json.loads(reply.body[8 : 8 + length])["__metadata__"]["about"])
    return about, {name: array.numpy() for name, array in load(reply.body).items()}


def photo(width=300, height=200, kind="PNG") -> bytes:
    noise = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(noise).save(file, kind)
    return file.getvalue()


@pytest.mark.parametrize("name", ["vit-exercise", "swin-mini", "cswin-mini", "pale-mini"])
def test_the_answer_has_the_numbers_of_the_pipeline(call, tmp_path, name):
    (tmp_path / "photo.png").write_bytes(photo())
    model = patchword.pipeline(f"zoo:{name}")
    expected = model.attention(tmp_path / "photo.png")
    about, arrays = answered(call, name, photo())
    assert [layer["number"] for layer in about["layers"]] == list(expected.layers)
    for number, maps in zip(expected.layers, expected.maps, strict=True):
        assert np.abs(arrays[f"maps.{number}"] - maps).max() < 1e-5
        layer = expected.found.layers[number - 1]
        assert np.abs(arrays[f"distance.{number}"] - layer.distance.numpy()).max() < 1e-4
        assert about["layers"][number - 1]["cell"] == list(layer.cell)
    assert np.abs(arrays["rollout"] - expected.rollout).max() < 1e-5
    assert np.abs(arrays["relevance"] - expected.relevance).max() < 1e-5
    assert about["relevance"] == expected.about == about["top"][0][0]
    (prediction,) = model(tmp_path / "photo.png", top=10)
    assert about["top"] == [list(pair) for pair in prediction.classes]
    assert np.array_equal(arrays["pixels"], expected.found.pixels.numpy())


def test_a_small_model_sends_all_queries(call):
    _, arrays = answered(call, "vit-exercise")
    expected = patchword.pipeline("zoo:vit-exercise").attention(SAMPLE, at=(9, 22))
    patch = 1 + (22 // 4) * 7 + 9 // 4
    for number, maps in zip(expected.layers, expected.maps, strict=True):
        found = arrays[f"weights.{number}"][:, patch, 1:].reshape(maps.shape)
        assert np.abs(found - maps).max() < 1e-5
    assert np.abs(arrays["rollouts"][patch] - expected.rollout).max() < 1e-5


def test_a_large_model_is_asked_per_query(call, monkeypatch):
    monkeypatch.setattr(looking, "MOST_WEIGHTS", 1_000)
    _, arrays = answered(call, "swin-mini")
    assert "rollouts" not in arrays
    assert not any(name.startswith("weights") for name in arrays)
    expected = patchword.pipeline("zoo:swin-mini").attention(SAMPLE, at=(9, 22))
    about, arrays = answered(call, "swin-mini?x=9&y=22")
    assert about == {}
    for number, maps in zip(expected.layers, expected.maps, strict=True):
        assert np.abs(arrays[f"maps.{number}"] - maps).max() < 1e-5
    assert np.abs(arrays["rollout"] - expected.rollout).max() < 1e-5


def test_the_relevance_for_a_class(call):
    about, arrays = answered(call, "vit-exercise?class=8")
    expected = patchword.pipeline("zoo:vit-exercise").attention(SAMPLE, relevance="Bag")
    assert about == {"relevance": "Bag"}
    assert np.abs(arrays["relevance"] - expected.relevance).max() < 1e-5


def test_a_model_without_attention_predicts(call):
    about, arrays = answered(call, "resnet-mini")
    assert about["layers"] == []
    assert about["reason"].startswith("resnet-mini has no attention: its convolutions")
    assert about["top"][0][0] == "Sneaker"
    assert set(arrays) == {"pixels"}


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("vit-exercise?x=28&y=0", "outside of the image"),
        ("vit-exercise?x=1", "cannot be read"),
        ("vit-exercise?x=1&y=1&class=1", "cannot be read"),
        ("vit-exercise?x=1&x=2", "given twice"),
        ("vit-exercise?x=-1&y=1", "cannot be read"),
        ("vit-exercise?x=1.5&y=1", "cannot be read"),
        ("vit-exercise?x=12345678&y=1", "cannot be read"),
        ("vit-exercise?class=10", "no such class"),
        ("vit-exercise?class=Bag", "cannot be read"),
        ("vit-exercise?file=a.png", "cannot be read"),
        ("resnet-mini?x=1&y=1", "no attention"),
        ("bert-mini", "does not classify images"),
    ],
)
def test_wrong_questions_are_explained(call, path, message):
    reply = posted(call, path)
    assert reply.status == 422
    assert message in reply.json()["error"]["what"]


def test_an_unknown_model_is_not_found(call):
    assert posted(call, "no-such-model").status == 404
    assert posted(call, "..%2fvit-exercise").status == 404


@pytest.mark.parametrize("content", [b"no image", b"<svg xmlns='http://www.w3.org/2000/svg'/>", photo()[:2_000]])
def test_what_is_no_image_is_explained(call, content):
    reply = posted(call, "vit-exercise", content)
    assert reply.status == 422
    assert reply.json()["error"]["what"] == "this is not an image that can be read"


def test_a_huge_image_is_refused_by_its_header(call):
    content = bytearray(photo(kind="BMP"))
    content[18:26] = struct.pack("<ii", 20_000, 20_000)
    reply = posted(call, "vit-exercise", bytes(content))
    assert reply.status == 422
    assert reply.json()["error"]["expected"] == "at most 16,000,000 pixels"


def test_a_file_has_at_most_8_megabytes(call):
    assert posted(call, "vit-exercise", photo() + b"\0" * 7_000_000).status == 200
    assert posted(call, "vit-exercise", b"\0" * 8_000_001).status == 413


def test_the_body_is_plain_bytes(call):
    for kind in ("application/json", "multipart/form-data", "image/png"):
        assert posted(call, "vit-exercise", headers={"content-type": kind}).status in (415, 422)
    assert call("/api/look/vit-exercise").status == 405


# samples


@pytest.mark.parametrize("name", ["vit-exercise", "digits-vit", "pale-mini"])
def test_each_model_offers_its_samples(call, name):
    found = call(f"/api/look/{name}/samples").json()
    assert found["id"] == name
    assert len(found["labels"]) == 40
    for number in (0, 39):
        reply = call(f"/api/look/{name}/samples/{number}")
        assert (reply.status, reply.headers["content-type"]) == (200, "image/png")
    about, _ = answered(call, name, call(f"/api/look/{name}/samples/39").body)
    assert found["labels"][39] in about["labels"]


def test_a_model_of_the_user_offers_those_of_the_exercise(page, tmp_path):
    (tmp_path / "mine").mkdir()
    names = "<script>alert(1)</script>", *"abcdefghi"
    config = json.loads((exercise_folder() / "config.json").read_text()) | {"labels": names}
    (tmp_path / "mine" / "config.json").write_text(json.dumps(config))
    (tmp_path / "mine" / "model.safetensors").write_bytes((exercise_folder() / "model.safetensors").read_bytes())
    mine = caller(page, list_models([str(tmp_path / "mine")]))
    assert mine("/api/look/mine/samples").json()["id"] == "vit-exercise"
    about, _ = answered(mine, "mine")
    assert about["labels"] == list(names)
    assert posted(mine, "mine").headers["content-type"] == "application/octet-stream"


@pytest.mark.parametrize("number", ["40", "99999999999999999999", "-1", "0x1", "labels.csv", "..%2f..%2fconfig.json"])
def test_samples_are_found_by_number_alone(call, number):
    assert call(f"/api/look/vit-exercise/samples/{number}").status == 404
