"""Text models whose graph depends on the number of tokens: exported for one length, or refused by name."""

import pytest
import torch

import patchword
from patchword.core.errors import UserError
from patchword.weights.export.export import export
from support.helpers import difference, randomise, texts, tiny_text

pytestmark = pytest.mark.usefixtures("quick_onnx")
SIZES = {"vocabulary": 61, "width": 12, "depth": 2, "heads": 3, "hidden": 17, "head": "words"}
SPARSE = {**SIZES, "max_length": 40, "block": 2, "random_blocks": 1}
BATCH = texts(23, 18)


def big_bird(**overrides: object):
    return randomise(patchword.create("bigbird-base", **{**SPARSE, **overrides})).eval()


@pytest.mark.parametrize("suffix", [".onnx", ".pt2"])
@torch.no_grad()
def test_sparse_attention_of_one_length(suffix, tmp_path):
    import onnxruntime

    model, path = big_bird(), tmp_path / f"model{suffix}"
    done = export(model, path, tokens=23)
    assert done.difference < 1e-5
    assert "(batch, 23)" in done.notes["input"]
    fed = {"ids": BATCH.ids, "segments": BATCH.segments, "mask": BATCH.mask.long()}
    if suffix == ".onnx":
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        found = torch.from_numpy(session.run(None, {name: tensor.numpy() for name, tensor in fed.items()})[0])
    else:
        found = torch.export.load(path).module()(*fed.values())
    assert difference(found, model(BATCH)) < 1e-5


@pytest.mark.parametrize("suffix", [".onnx", ".pt2"])
def test_sparse_attention_of_any_length_is_refused(suffix, tmp_path):
    with pytest.raises(UserError, match=r"cannot be exported for all lengths at once.*\n?.*--tokens N"):
        export(big_bird(), tmp_path / f"model{suffix}")
    assert not list(tmp_path.iterdir())


def test_short_texts_have_full_attention_and_any_length(tmp_path):
    assert export(big_bird(max_length=14), tmp_path / "model.pt2").difference < 1e-5


def test_the_verb_takes_the_length(command, tmp_path):
    model = patchword.save(big_bird(), tmp_path / "saved")
    words = "export", model, "--torch", tmp_path / "model.pt2"
    code, _, complaint = command(*words)
    assert (code, "--tokens N" in complaint, "Traceback" in complaint) == (2, True, False)
    code, printed, _ = command(*words, "--tokens", 23)
    assert code == 0
    assert "int64 (batch, 23)" in printed


def test_a_length_is_for_texts(command, tmp_path):
    code, _, complaint = command("export", "vit-exercise", "--torch", tmp_path / "model.pt2", "--tokens", 5)
    assert code == 2
    assert "--tokens is for text models" in complaint


@pytest.mark.parametrize("head", ["classes", "vector"])
def test_a_text_model_that_reads_its_last_token_takes_any_batch(head, tmp_path):
    """Its file was refused with an error of torch: the batch of the example had become a constant."""
    model = tiny_text("gpt", head=head, classes=3, depth=1)
    assert export(model, tmp_path / "model.pt2").difference < 1e-5
