"""/v2: tensors in JSON and as bytes, with the answers of /predict and /v1/embeddings."""

import json
import struct

import numpy as np
import pytest
from PIL import Image

from support.material import write_picture
from support.serving.models import LABELS, TEXTS, image_pipeline, text_pipeline
from support.serving.services import HeldModel, of_pipelines, running


@pytest.fixture(scope="module")
def call():
    held = HeldModel()
    held.go_on.set()
    pipelines = {
        "reviews": text_pipeline("classes"),
        "tags": text_pipeline("tags", ("O", "B-person", "I-person")),
        "span": text_pipeline("span", ()),
        "mini": text_pipeline("tokens", ()),
        "photos": image_pipeline(),
    }
    with running({**of_pipelines(**pipelines), "held": held.served()}) as (_, client):
        yield client


def packed(texts) -> bytes:
    return b"".join(struct.pack("<I", len(text)) + text for text in texts)


def text_input(texts=TEXTS, name="text", **more):
    return {"name": name, "datatype": "BYTES", "shape": [len(texts)], "data": list(texts), **more}


def infer(call, model, *inputs, behind=b"", outputs=(), parameters=None, **headers):
    body = {"id": "7", "inputs": list(inputs)}
    body |= {"outputs": list(outputs)} if outputs else {}
    body |= {"parameters": parameters} if parameters else {}
    head = json.dumps(body).encode()
    if behind:
        headers = {"inference_header_content_length": str(len(head)), **headers}
    return call(f"/v2/models/{model}/infer", head + behind, kind="application/octet-stream", **headers)


def values(found):
    """The tensors of a response by name: arrays of numbers, or of bytes."""
    assert found.status == 200, found.body
    size = found.headers.get("inference-header-content-length")
    head, behind = json.loads(found.body[: int(size)] if size else found.body), found.body[int(size or 0) :]
    tensors = {}
    for one in head["outputs"]:
        if "data" in one:
            flat = one["data"]
        else:
            length = one["parameters"]["binary_data_size"]
            raw, behind = behind[:length], behind[length:]
            flat = unpacked(raw) if one["datatype"] == "BYTES" else np.frombuffer(raw, DTYPES[one["datatype"]])
        tensors[one["name"]] = np.array(flat).reshape(one["shape"])
    assert size is None or not behind
    return tensors


DTYPES = {"FP32": "<f4", "BOOL": "?"}


def unpacked(raw):
    found = []
    while raw:
        (length,) = struct.unpack("<I", raw[:4])
        found.append(raw[4 : 4 + length].decode())
        raw = raw[4 + length :]
    return found


def expected_classes(call, model, inputs, top=3):
    answers = call(f"/models/{model}/predict", {"inputs": inputs, "top": top}).json()["answers"]
    rows = [[one, *one["next"]] for one in answers]
    return [[one["label"] for one in row] for row in rows], [[one["probability"] for one in row] for row in rows]


def test_texts_are_classified_as_by_predict(call):
    labels, probabilities = expected_classes(call, "reviews", TEXTS)
    found = infer(call, "reviews", text_input())
    assert {key: found.json()[key] for key in ("model_name", "id")} == {"model_name": "reviews", "id": "7"}
    tensors = values(found)
    assert list(tensors) == ["labels", "probabilities", "truncated"]
    assert tensors["labels"].tolist() == labels
    np.testing.assert_allclose(tensors["probabilities"], probabilities, atol=1e-5)
    assert tensors["truncated"].tolist() == [False] * 3


def test_bytes_behind_the_json_are_the_same(call):
    whole = values(infer(call, "reviews", text_input(), parameters={"top": 2}))
    given = {"name": "text", "datatype": "BYTES", "shape": [3, 1]}
    behind = packed([text.encode() for text in TEXTS])
    given["parameters"] = {"binary_data_size": len(behind)}
    for choice in (
        {"parameters": {"binary_data_output": True, "top": 2}},
        {
            "parameters": {"top": 2},
            "outputs": [
                {"name": "probabilities", "parameters": {"binary_data": True}},
                {"name": "labels", "parameters": {"binary_data": False}},
            ],
        },
    ):
        found = infer(call, "reviews", given, behind=behind, **choice)
        assert found.headers["content-type"] == "application/octet-stream"
        tensors = values(found)
        assert tensors["labels"].tolist() == whole["labels"].tolist()
        assert tensors["labels"].shape == (3, 2)
        np.testing.assert_allclose(tensors["probabilities"], whole["probabilities"], atol=1e-5)


def test_a_body_may_have_no_type(call):
    head = json.dumps({"inputs": [text_input()]}).encode()
    assert call("/v2/models/reviews/infer", head, content_type=None).status == 200
    assert call("/v2/models/reviews/infer", head, kind="text/html").status == 415
    assert call("/models/reviews/predict", head, content_type=None).status == 415


def test_vectors_are_those_of_embeddings(call):
    data = call("/v1/embeddings", {"input": TEXTS, "model": "mini"}).json()["data"]
    tensors = values(infer(call, "mini", text_input()))
    assert sorted(tensors) == ["embedding", "truncated"]
    np.testing.assert_allclose(tensors["embedding"], [one["embedding"] for one in data], atol=1e-5)


def test_one_request_may_ask_for_predictions_and_vectors(call):
    outputs = [{"name": "embedding"}, {"name": "labels"}]
    tensors = values(infer(call, "reviews", text_input(), outputs=outputs))
    assert list(tensors) == ["embedding", "labels"]
    assert len(tensors["embedding"]) == len(tensors["labels"]) == 3
    assert tensors["labels"].tolist() == expected_classes(call, "reviews", TEXTS)[0]


def test_a_text_that_was_cut_is_marked(call):
    tensors = values(infer(call, "reviews", text_input(["A mat.", "the cat " * 100])))
    assert tensors["truncated"].tolist() == [False, True]


def test_answers_without_a_common_size_are_records(call):
    answers = call("/models/tags/predict", {"inputs": TEXTS}).json()["answers"]
    found = [json.loads(one) for one in values(infer(call, "tags", text_input()))["answers"]]
    assert [one["words"][0]["tag"] for one in found] == [one["words"][0]["tag"] for one in answers]
    asked = text_input(["Who?"] * 3, name="question")
    assert all("answers" in json.loads(one) for one in values(infer(call, "span", text_input(), asked))["answers"])


@pytest.mark.parametrize("nested", [True, False])
def test_images_are_files_or_pixels(call, tmp_path, nested):
    path = write_picture(tmp_path / "a.png", size=(40, 30), mode="RGB")
    labels, probabilities = expected_photos(call, path)
    pixels = np.asarray(Image.open(path))[None]
    file = {"name": "image", "datatype": "BYTES", "shape": [1]}
    behind = packed([path.read_bytes()])
    array = {"name": "pixels", "datatype": "UINT8", "shape": list(pixels.shape)}
    for found in (
        infer(call, "photos", {**file, "parameters": {"binary_data_size": len(behind)}}, behind=behind),
        infer(call, "photos", {**array, "parameters": {"binary_data_size": pixels.size}}, behind=pixels.tobytes()),
        infer(call, "photos", {**array, "data": (pixels if nested else pixels.ravel()).tolist()}),
    ):
        tensors = values(found)
        assert tensors["labels"].tolist() == [labels]
        np.testing.assert_allclose(tensors["probabilities"], [probabilities], atol=1e-5)


def expected_photos(call, path):
    (one,) = call("/models/photos/predict", path.read_bytes(), kind="image/png").json()["answers"]
    row = [one, *one["next"]]
    return [each["label"] for each in row], [each["probability"] for each in row]


def test_the_server_and_its_models_describe_themselves(call):
    assert call("/v2").json()["extensions"] == ["binary_tensor_data"]
    assert call("/v2/health/live").json() == {"live": True}
    assert call("/v2/health/ready", host="10.0.0.7").json() == {"ready": True}
    assert call("/v2/models/reviews/ready").json() == {"name": "reviews", "ready": True}
    found = call("/v2/models/reviews").json()
    assert (found["name"], found["versions"], found["platform"]) == ("reviews", [], "patchword")
    assert found["inputs"] == [{"name": "text", "datatype": "BYTES", "shape": [-1]}]
    names = [one["name"] for one in found["outputs"]]
    assert names == ["labels", "probabilities", "truncated", "embedding"]
    assert [one["name"] for one in call("/v2/models/span").json()["inputs"]] == ["text", "question"]
    assert call("/v2/models/photos").json()["inputs"] == [
        {"name": "image", "datatype": "BYTES", "shape": [-1]},
        {"name": "pixels", "datatype": "UINT8", "shape": [-1, -1, -1, 3]},
    ]


TEXT = {"name": "text", "datatype": "BYTES", "shape": [1]}


@pytest.mark.parametrize(
    ("model", "given", "behind", "what"),
    [
        ("reviews", {**TEXT, "data": ["a", "b"]}, b"", "the number of values of the tensor text"),
        ("reviews", {**TEXT, "data": [1]}, b"", "the tensor text has another type"),
        ("reviews", {**TEXT, "data": [["a"], "b"]}, b"", "the values of the tensor text"),
        ("reviews", TEXT, b"", "the values of text"),
        ("reviews", {**TEXT, "name": "words", "data": ["a"]}, b"", "the tensor text is missing"),
        ("reviews", {**TEXT, "datatype": "FP32", "data": [1.0]}, b"", "the datatype of text"),
        ("reviews", {**TEXT, "shape": [0], "data": []}, b"", "the request cannot be read: inputs.0.shape.0"),
        ("reviews", {**TEXT, "shape": [-1], "data": ["a"]}, b"", "the request cannot be read: inputs.0.shape.0"),
        ("reviews", {**TEXT, "shape": [], "data": ["a"]}, b"", "the number of texts"),
        ("reviews", {**TEXT, "shape": [9_999], "data": ["a"] * 9_999}, b"", "the number of texts"),
        ("reviews", {**TEXT, "data": [""]}, b"", "inputs.0: the text is empty"),
        ("reviews", {**TEXT, "parameters": {"binary_data_size": 9}}, packed([b"abcd"]), "the bytes of text are inc"),
        ("reviews", {**TEXT, "parameters": {"binary_data_size": 4}}, packed([b"abcd"]), "the bytes of the tensor text"),
        ("reviews", {**TEXT, "parameters": {"binary_data_size": 5}}, packed([b"\xff"]), "the tensor text is not UTF-8"),
        ("reviews", {**TEXT, "data": ["a"]}, b"rest", "there are bytes that belong to no tensor"),
        (
            "reviews",
            {**TEXT, "parameters": {"shared_memory_region": "x"}},
            b"",
            "the request cannot be read: inputs.0.",
        ),
        ("photos", {**TEXT, "data": ["a"]}, b"", "photos reads no tensor 'text'"),
        ("photos", {"name": "image", "datatype": "BYTES", "shape": [1], "data": ["a"]}, b"", "image 0: this is not an"),
        ("photos", {"name": "pixels", "datatype": "UINT8", "shape": [1], "data": [7]}, b"", "the tensor pixels"),
        ("photos", {"name": "pixels", "datatype": "UINT8", "shape": [1], "data": [256]}, b"", "the tensor pixels has"),
        ("held", {**TEXT, "data": ["a"]}, b"", "held has no tensors"),
    ],
)
def test_mistakes_are_named_in_the_form_of_the_protocol(call, model, given, behind, what):
    found = infer(call, model, given, behind=behind)
    error = found.json()
    assert (found.status, error["details"]["what"].startswith(what)) == (422, True), error
    assert error["error"].startswith(what)
    assert error["details"]["request_id"] == found.headers["x-request-id"]


def test_other_mistakes(call):
    assert call("/v2/models/other").json()["error"].startswith("no model 'other' is served")
    assert call("/v2/models/other/infer", {"inputs": [text_input()]}).status == 404
    found = infer(call, "reviews", text_input(), outputs=[{"name": "scores"}])
    assert (found.status, "labels or probabilities" in found.json()["error"]) == (422, True)
    assert infer(call, "reviews", text_input(), outputs=[{"name": "labels"}] * 2).status == 422
    assert infer(call, "reviews", text_input(), text_input()).status == 422
    for wrong in ("", "0", "-1", "abc", "99999999", "9" * 5_000):
        assert infer(call, "reviews", text_input(), inference_header_content_length=wrong).status == 422
    assert len(LABELS) == 3
