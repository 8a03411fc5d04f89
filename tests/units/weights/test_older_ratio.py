"""Folders of earlier versions with a fractional mlp_ratio, of which the hidden width was rounded to the nearest."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

import patchword
from patchword.core.errors import UserError
from support.helpers import pixels, randomise

SIZES = {"width": 32, "depths": (1, 2), "classes": 3}


def older_folder(folder, ratio, hidden):
    """Save a Swin whose stages have these hidden widths, and a config with this mlp_ratio, as earlier versions did."""
    model = randomise(
        patchword.create("swin-mini", **SIZES, mlp_ratio=(max(hidden[0], hidden[1] / 2) + 0.5) / 32)
    ).eval()
    patchword.save(model, folder)
    tensors = load_file(folder / "model.safetensors")
    for name, tensor in tensors.items():
        wanted = hidden[int(name.split(".")[1])] if name.startswith("stages.") else 0
        if ".up." in name:
            tensors[name] = tensor[:wanted].clone()
        elif name.endswith(".down.weight"):
            tensors[name] = tensor[:, :wanted].clone()
    save_file(tensors, folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    config["config"]["mlp_ratio"] = ratio
    (folder / "config.json").write_text(json.dumps(config))
    return tensors


@torch.no_grad()
@pytest.mark.parametrize(
    ("ratio", "hidden"), [(2.4, (77, 154)), (2.6, (83, 166)), (2.3125, (74, 148)), (2.3, (73, 147))]
)
def test_its_hidden_widths_are_kept(ratio, hidden, tmp_path):
    """The first two were rounded up; the last two are the same, rounded down."""
    tensors = older_folder(tmp_path, ratio, hidden)
    model = patchword.load(tmp_path)
    assert all(torch.equal(tensor, tensors[name]) for name, tensor in model.state_dict().items())
    again = patchword.load(patchword.save(model, tmp_path / "again"))
    assert torch.equal(again(pixels(1, 1, 28, 28)), model(pixels(1, 1, 28, 28)))


def test_widths_that_no_ratio_gives_are_refused(tmp_path):
    older_folder(tmp_path, 2.3, (74, 147))
    with pytest.raises(UserError, match=r"mlp_ratio 2\.3 to the nearest.* expected hidden widths 73, 147, got 74, 147"):
        patchword.load(tmp_path)


def test_another_difference_is_left_to_the_check_of_the_tensors(tmp_path):
    older_folder(tmp_path, 3.0, (77, 154))
    with pytest.raises(UserError, match="tensors differ"):
        patchword.load(tmp_path)


@torch.no_grad()
@pytest.mark.parametrize("ratio", [15 / 11 + 1e-9, 2.3, 2.45])
def test_a_file_without_config_has_a_ratio_that_gives_every_stage(ratio, tmp_path):
    model = randomise(patchword.create("swin-mini", width=44, heads=(2, 4), mlp_ratio=ratio, image=56)).eval()
    saved = patchword.save(model, tmp_path / "saved", layout="timm")
    (saved / "model.safetensors").rename(tmp_path / "bare.safetensors")
    again = patchword.load(tmp_path / "bare.safetensors", image=56)
    assert torch.equal(again(pixels(1, 1, 56, 56)), model(pixels(1, 1, 56, 56)))
