"""Text models as ONNX files, and in 8-bit integers: the file answers as the model does, or is not kept."""

import copy
import json
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

import patchword
from patchword.core.errors import UserError
from patchword.core.text import Text
from patchword.layers import TextModel
from patchword.layers.quantize import quantise
from patchword.weights.export import int8
from patchword.weights.export.export import export
from patchword.weights.export.int8 import Int8Linear, in_int8
from patchword.weights.export.int8_operations import int8_product, int8_rows, int8_tied
from support.helpers import TINY_TEXT, difference, randomise, texts, tiny_text

pytestmark = pytest.mark.usefixtures("quick_onnx")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def learned(model: TextModel) -> TextModel:
    """The same, with what quantised training would have learned of ranges."""
    quantise(model, decay=0.5).train()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    for seed in range(3):
        model(texts(9, 12, 7, seed=seed))
    return model.eval()


def gentle(**overrides: object) -> TextModel:
    """Weights small enough that rounding does not turn the whole answer round."""
    model = tiny_text(depth=1, attention_dropout=0, **overrides)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1 and name.startswith("encoder."):
                parameter.mul_(0.3)
    return model


def answered(path: str | Path, text: Text) -> Tensor:
    """What ONNX Runtime makes of a file, without any code of ours."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    fed = {"ids": text.ids, "segments": text.segments, "mask": text.mask.long()}
    return torch.from_numpy(session.run(None, {name: tensor.numpy() for name, tensor in fed.items()})[0])


def test_a_product_of_integers_is_exact_and_its_scales_are_applied():
    tokens = torch.tensor([[1.0, -0.26, 9.0]])
    weight = torch.tensor([[100, -5], [7, 127], [-127, 3]], dtype=torch.int8)
    scales, step = torch.tensor([0.5, 0.25]), torch.tensor(0.05)
    whole = [20, -5, 127]  # 9 / 0.05 is cut off
    by_hand = [sum(a * int(b) for a, b in zip(whole, column, strict=True)) for column in weight.T]
    assert torch.allclose(int8_product(tokens, weight, scales, step)[0], torch.tensor(by_hand) * 0.05 * scales)
    assert torch.equal(int8_tied(tokens, weight.T, scales, step), int8_product(tokens, weight, scales, step))
    whole, worth = [28, -7, 248], 9.26 / 255  # the range of the call in 255 steps
    by_hand = [sum(a * int(b) for a, b in zip(whole, column, strict=True)) for column in weight.T]
    assert torch.allclose(int8_product(tokens, weight, scales, None)[0], torch.tensor(by_hand) * worth * scales)
    rows = int8_rows(torch.tensor([[2, 0]]), weight, torch.tensor([1.0, 2.0, 0.5]))
    assert rows.tolist() == [[[-63.5, 1.5], [100.0, -5.0]]]


@pytest.mark.parametrize("head", ["classes", "words"])
def test_a_text_model_answers_the_same_in_onnx_runtime_whatever_the_length(head):
    model = tiny_text(depth=1, head=head, classes=3)
    done = export(model, "model.onnx")
    assert done.difference < 1e-5
    for text in (texts(3), texts(9, 5, 24), texts(11, 11)):
        assert difference(answered("model.onnx", text), model(text).detach()) < 1e-5


@pytest.mark.parametrize("head", ["classes", "words"])
def test_trained_thresholds_give_the_answers_of_the_fake_quantised_model(head):
    model = learned(gentle(head=head, classes=3))
    done = export(model, "small.onnx", int8=True)
    assert done.difference < 0.02
    text = texts(9, 5, 12, seed=7)
    expected = model(text).detach()
    found = answered("small.onnx", text)
    assert difference(found, expected) < 0.02
    assert float((found - expected).abs().median()) < 1e-4 * float(expected.abs().max())  # a last bit here and there
    assert difference(in_int8(model)(text), expected) < 0.02
    kinds = [node.op_type for node in onnx.load("small.onnx").graph.node]
    assert "DynamicQuantizeLinear" not in kinds
    assert kinds.count("MatMulInteger") == 6  # four of the block, two of the head


def test_any_other_model_is_rounded_by_the_range_of_each_call():
    model = gentle(head="words", vocabulary=4000)
    done = export(model, "small.onnx", int8=True)
    assert 1e-4 < done.difference < 0.1
    text = texts(9, 5, 12, seed=7)
    assert difference(answered("small.onnx", text), model(text).detach()) < 0.1
    assert difference(answered("small.onnx", text), in_int8(model)(text)) < 0.02
    graph = onnx.load("small.onnx").graph
    assert "DynamicQuantizeLinear" in [node.op_type for node in graph.node]
    # all matrices and tables are kept as bytes, the table of words once
    large = [tensor for tensor in graph.initializer if np.prod(tensor.dims) > 4000]
    assert {tensor.data_type for tensor in large} == {onnx.TensorProto.INT8}
    assert [tuple(tensor.dims) for tensor in large] == [(4000, 32)]


def test_a_wrong_scale_is_found_and_the_file_is_not_kept(monkeypatch):
    """Scales 5% too large in the file, right in its twin."""
    exporting = sys.modules["patchword.weights.export.export"]  # the package gives its function the same name
    traced = exporting.trace

    def spoiled(module, inputs):
        wrong = copy.deepcopy(module)
        for name, scales in wrong.named_buffers():
            if name.endswith("scales"):
                scales.mul_(1.05)
        return traced(wrong, inputs)

    monkeypatch.setattr(exporting, "trace", spoiled)
    with pytest.raises(UserError, match="differ from the model's"):
        export(gentle(head="classes", classes=3), "small.onnx", int8=True)
    assert not list(Path.cwd().iterdir())


@torch.no_grad()
def test_a_wrong_scale_of_file_and_twin_alike_is_seen_beside_the_weights(monkeypatch):
    weight = torch.randn(6, 8, generator=torch.Generator().manual_seed(0))
    whole, scales = int8._integers(weight)
    assert (whole.float() * scales[:, None] - weight).abs().max() <= scales.max() / 2 * 1.001
    assert (whole.float() * scales[:, None] * 1.05 - weight).abs().max() > scales.max() / 2 * 1.001


def test_a_limit_to_the_loss_is_kept():
    with pytest.raises(UserError, match="differ from the model's"):
        export(gentle(head="classes", classes=3), "small.onnx", int8=True, tolerance=1e-6)


def test_channels_have_scales_of_their_own_and_inputs_the_range_that_was_learned():
    linear = nn.Linear(4, 3)
    assert len(Int8Linear(linear).scales.unique()) == 3
    assert Int8Linear(linear).inward is None
    model = learned(gentle(head="classes", classes=3))
    small = Int8Linear(model.head.linear)
    assert len(small.scales.unique()) == 3
    assert torch.equal(small.inward, model.head.linear.quantised.input / 127)


def test_the_verb_writes_the_file_and_says_what_to_feed(command):
    patchword.save(gentle(head="classes", classes=3), "saved")
    code, output, complaint = command("export", "saved", "--onnx", "small.onnx", "--int8")
    assert (code, complaint) == (0, "")
    assert "checked  ONNX Runtime" in output
    assert "ids, segments, mask: int64 (batch, tokens), at most 24 tokens" in " ".join(output.split())
    notes = {entry.key: entry.value for entry in onnx.load("small.onnx").metadata_props}
    assert json.loads(notes["patchword"])["model"] == "bert-tiny"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("saved --onnx model.onnx --size 32x32", "--size is for image models"),
        ("saved --torch model.pt2 --int8", "--int8 is for text models"),
        ("vit-exercise --onnx model.onnx --int8", "--int8 is for text models"),
        ("pretrained --onnx model.onnx", "has two outputs"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_written(command, words, reason):
    patchword.save(tiny_text(depth=1, head="classes", classes=3), "saved")
    patchword.save(randomise(patchword.create("bert-tiny", **TINY_TEXT, head="pretraining")), "pretrained")
    code, _, complaint = command("export", *words.split())
    assert code == 2
    assert reason in " ".join(complaint.split())
    assert not list(Path.cwd().glob("model.*"))
