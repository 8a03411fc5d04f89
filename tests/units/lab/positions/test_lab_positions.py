"""The routes of the page Positions: the tables of the models, and the convolution of the library."""

import json

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load

import patchword


def arrays(found):
    return json.loads(
        json.loads(found.body[8 : 8 + int.from_bytes(found.body[:8], "little")])["__metadata__"]["about"]
    ), load(found.body)


def test_the_models_with_tables_are_listed(call):
    found = {one["id"]: one["position"] for one in call("/api/positions").json()["models"]}
    assert {"vit-exercise": "learned", "bert-mini": "learned", "swin-mini": "relative"}.items() <= found.items()
    assert not {"elmo-mini", "resnet-mini", "cswin-mini", "translator-en-de"} & set(found)


def test_the_tables_are_those_of_the_models(call):
    about, tables = arrays(call("/api/positions/vit-exercise"))
    assert about["tables"][0]["kind"] == "patches"
    assert about["tables"][0]["grid"] == [7, 7, 1]
    state = patchword.load("zoo:vit-exercise").state_dict()
    [name] = [name for name in state if name.startswith(about["tables"][0]["name"])]
    assert torch.equal(tables["0"], state[name][0])
    about, tables = arrays(call("/api/positions/swin-mini"))
    assert [one["shape"] for one in about["tables"]] == [[13, 13, 2], [13, 13, 2], [13, 13, 4], [13, 13, 4]]
    assert list(arrays(call("/api/positions/bert-mini"))[1]["0"].shape) == [512, 256]


@pytest.mark.parametrize(("id", "status"), [("nothing", 404), ("cswin-mini", 422), ("resnet-mini", 422)])
def test_a_model_without_a_table_is_refused(call, id, status):
    assert call(f"/api/positions/{id}").status == status


def convolve(call, **fields):
    image = torch.rand(8, 8, generator=torch.Generator().manual_seed(0)).tolist()
    body = {"kernel": [[0, 1, 0], [1, -4, 1], [0.5, 1, 2]], "image": image, **fields}
    headers = {"content-type": "application/json"}
    return body, call("/api/positions/convolution", "POST", headers, [json.dumps(body).encode()])


def test_attention_computes_the_convolution(call):
    body, found = convolve(call)
    expected = F.conv2d(torch.tensor([[body["image"]]]), torch.tensor([[body["kernel"]]]), padding=1)[0, 0]
    answer = found.json()
    assert answer["heads"] == 9
    assert (torch.tensor(answer["attention"]) - expected).abs().max() < 1e-6
    assert answer["difference"] < 1e-6
    assert convolve(call, strength=1.0)[1].json()["difference"] > 0.1


@pytest.mark.parametrize(
    "fields",
    [
        {"kernel": [[1, 2], [3, 4]]},
        {"kernel": [[1, 2, 3]] * 4},
        {"kernel": [[1, 2, 101]] * 3},
        {"image": [[0.5] * 21] * 21},
        {"image": [[0.5] * 8] * 7},
        {"image": [[0.5, 2, 0]] * 3},
        {"strength": 201},
        {"path": "x"},
    ],
)
def test_a_kernel_or_image_of_another_size_is_refused(call, fields):
    assert convolve(call, **fields)[1].status == 422
