"""Model repositories of Triton: what config.pbtxt says is what the ONNX file takes, and versions follow each other."""

import json
import re
from dataclasses import replace
from pathlib import Path

import onnx
import onnxruntime
import pytest
import torch

import patchword
from support.helpers import randomise, tiny, tiny_text

pytestmark = pytest.mark.usefixtures("quick_onnx")
LABELS = ('Größe "XL"', "b c", "d")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def saved(name: str, model: torch.nn.Module) -> Path:
    model.card = replace(model.card, labels=LABELS)
    return patchword.save(randomise(model), name)


@pytest.fixture
def photos() -> Path:
    return saved("photos", tiny(depth=1, image=16, patch=8, classes=3))


def parsed(config: str) -> dict[str, object]:
    """Return what the lines of config.pbtxt say, by their first words."""
    found: dict[str, object] = {}
    for line in config.splitlines():
        if named := re.fullmatch(r'(input|output) { name: ("\w+") data_type: (\w+) dims: \[ ([-\d, ]+) \](.*) }', line):
            kind, name, data_type, dims, label = named.groups()
            found[f"{kind} {json.loads(name)}"] = data_type, [int(size) for size in dims.split(",")], label.strip()
        else:
            key, _, value = re.split(r"(:? )", line, maxsplit=1)
            found.setdefault(key, []).append(value)
    return found


def test_images(command, photos):
    code, printed, complaint = command("export", photos, "--triton", "models")
    assert (code, complaint) == (0, "")
    assert "tritonserver --model-repository models" in printed
    found = parsed(Path("models/photos/config.pbtxt").read_text())
    assert (found["name"], found["platform"], found["max_batch_size"]) == (['"photos"'], ['"onnxruntime_onnx"'], ["64"])
    assert found["input images"] == ("TYPE_FP32", [3, 16, 16], "")
    assert found["output scores"] == ("TYPE_FP32", [3], 'label_filename: "labels.txt"')
    assert "dynamic_batching" in found
    assert any('"mean"' in one for one in found["parameters"])
    assert Path("models/photos/labels.txt").read_text().splitlines() == list(LABELS)
    images = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    session = onnxruntime.InferenceSession("models/photos/1/model.onnx", providers=["CPUExecutionProvider"])
    expected = patchword.load(photos)(images).detach()
    assert (torch.from_numpy(session.run(["scores"], {"images": images.numpy()})[0]) - expected).abs().max() < 1e-4


def test_texts_have_any_length_and_a_fixed_batch_is_a_dimension(command):
    texts = saved("texts", tiny_text("bert-tiny", head="classes", classes=3))
    assert command("export", texts, "--triton", "models")[0] == 0
    found = parsed(Path("models/texts/config.pbtxt").read_text())
    assert [found[f"input {name}"] for name in ("ids", "segments", "mask")] == [("TYPE_INT64", [-1], "")] * 3
    assert command("export", texts, "--triton", "fixed", "--batch-size", "2", "--tokens", "8")[0] == 0
    found = parsed(Path("fixed/texts/config.pbtxt").read_text())
    assert (found["max_batch_size"], found["input ids"]) == (["0"], ("TYPE_INT64", [2, 8], ""))
    assert "dynamic_batching" not in found


def test_the_same_model_again_is_the_next_version(command, photos):
    for version in (1, 2):
        assert command("export", photos, "--triton", "models")[0] == 0
        assert Path(f"models/photos/{version}/model.onnx").is_file()


def test_another_model_under_the_name_is_refused_and_leaves_nothing(command, photos):
    assert command("export", photos, "--triton", "models")[0] == 0
    before = sorted(Path("models").rglob("*"))
    other = patchword.save(randomise(tiny(depth=1, image=32, patch=8, classes=3)), "other/photos")
    code, _, complaint = command("export", other, "--triton", "models")
    assert (code, complaint.splitlines()[0].split(":")[0]) == (2, "error")
    assert "models/photos holds another model" in complaint
    assert sorted(Path("models").rglob("*")) == before


def test_a_failure_leaves_nothing(command, photos):
    code, _, complaint = command("export", photos, "--triton", "models", "--tolerance", "1e-30")
    assert code == 2
    assert complaint
    assert not Path("models").exists()


def test_one_place_for_the_file(command, photos):
    code, _, complaint = command("export", photos, "--triton", "models", "--onnx", "a.onnx")
    assert (code, complaint) == (2, "error: two places for an ONNX file: expected one of --onnx and --triton\n")


def test_every_type_of_a_tensor_is_known():
    from patchword.weights.export.triton import _TYPES

    assert set(_TYPES) <= set(onnx.TensorProto.DataType.keys())
