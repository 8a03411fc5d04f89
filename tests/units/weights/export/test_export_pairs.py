"""Translators: source and known target -> logits of the next tokens, in one file for all lengths."""

import pytest
import torch

import patchword
from patchword.weights.export.export import export
from support.helpers import difference, pairs, tiny_pair, tiny_sizes

pytestmark = pytest.mark.usefixtures("quick_onnx")
OTHERS = ((17, 9, 24, 2), (5, 20, 11, 24)), ((1,), (1,)), ((3, 6), (6, 1))  # than it was traced with
SMALL = {"width": 12, "depth": 1, "heads": 3, "hidden": 17, "dropout": 0.0}


@torch.no_grad()
def check(model, path) -> None:
    """Outputs of the file and of the model for other lengths, one token included."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for lengths in OTHERS:
        pair = pairs(*lengths)
        fed = {"source": pair.source.ids, "mask": pair.source.mask.long(), "target": pair.target.ids}
        found = session.run(["scores"], {name: tensor.numpy() for name, tensor in fed.items()})[0]
        assert difference(torch.from_numpy(found), model(pair)) < 1e-5


@pytest.mark.parametrize(
    "overrides",
    [{"norm": "pre"}, {"norm": "post", "target_vocabulary": 0}, {"position": "shaw"}],
    ids=["two vocabularies", "one vocabulary", "relative positions"],
)
def test_a_transformer_answers_the_same_in_onnx_runtime(overrides, tmp_path):
    model = tiny_pair(**{**SMALL, "vocabulary": 61, **overrides})
    done = export(model, tmp_path / "model.onnx")
    assert done.difference < 1e-5
    assert f"{model.card.config['target_vocabulary'] or 61}): logits" in done.notes["output"]
    check(model, done.path)


@torch.no_grad()
@pytest.mark.parametrize("name", ["transformer-small", "lstm-translation-small"])
def test_a_program_for_torch_answers_the_same(name, tmp_path):
    model = tiny_pair(name, **{field: value for field, value in SMALL.items() if field in tiny_sizes(name)})
    program = torch.export.load(export(model, tmp_path / "model.pt2").path).module()
    for lengths in OTHERS:  # among them a target that is as long as its source
        pair = pairs(*lengths)
        assert difference(program(pair.source.ids, pair.source.mask.long(), pair.target.ids), model(pair)) < 1e-5


@pytest.mark.parametrize(
    "overrides", [{"depth": 2}, {"attention": "none", "target_vocabulary": 0}], ids=["dot", "none"]
)
def test_an_lstm_answers_the_same_in_onnx_runtime(overrides, tmp_path):
    model = tiny_pair("lstm-translation-small", **{"depth": 1, "width": 12, "dropout": 0.0, **overrides})
    done = export(model, tmp_path / "model.onnx")
    assert done.difference < 1e-5
    check(model, done.path)


def test_the_verb_says_what_the_file_reads(command, tmp_path):
    model = patchword.save(tiny_pair(**SMALL), tmp_path / "saved")
    words = "export", model, "--torch", tmp_path / "model.pt2"
    code, printed, _ = command(*words, "--batch-size", 2)
    assert code == 0
    assert "source, mask, target: int64 (2, source_tokens)" in printed
    assert "--tokens" not in printed
    code, _, complaint = command(*words, "--tokens", 5)
    assert (code, "for text models" in complaint) == (2, True)
