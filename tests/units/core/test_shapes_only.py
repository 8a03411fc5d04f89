"""Models without values: the same shapes, loaded weights as in the file, and no compiler."""

import subprocess
import sys

import torch
from safetensors.torch import load_file
from torch import nn

import patchword
from patchword.core.device import shapes_only

COMPILER = ("torch._dynamo", "sympy", "triton")
SCRIPT = f"""
import sys
from safetensors.torch import save_file
import patchword
save_file(patchword.load("model").state_dict(), "loaded.safetensors")
assert not [name for name in {COMPILER} if name in sys.modules], "the compiler was imported"
"""


def described(model: nn.Module) -> dict[str, tuple[torch.Size, torch.dtype, torch.device]]:
    return {name: (one.shape, one.dtype, one.device) for name, one in model.state_dict().items()}


def test_models_are_those_of_the_meta_device() -> None:
    with torch.device("meta"):
        expected = described(patchword.create("bert-tiny"))
    with shapes_only():
        assert described(patchword.create("bert-tiny")) == expected
    assert all(device.type == "meta" for _, _, device in expected.values())


def test_tensors_with_values_are_still_drawn() -> None:
    torch.manual_seed(0)
    expected = [torch.empty(3).normal_(1, 2), nn.init.normal_(torch.empty(3), std=0.1)]
    torch.manual_seed(0)
    with shapes_only():
        found = [torch.empty(3, device="cpu").normal_(1, 2), nn.init.normal_(torch.empty(3, device="cpu"), std=0.1)]
    assert all(map(torch.equal, found, expected))


def test_a_text_model_is_loaded_exactly_and_without_the_compiler(tmp_path) -> None:
    model = patchword.create("bert-tiny")
    patchword.save(model, tmp_path / "model")
    subprocess.run([sys.executable, "-c", SCRIPT], cwd=tmp_path, check=True)
    loaded = load_file(tmp_path / "loaded.safetensors")
    saved = model.state_dict()
    assert loaded.keys() == saved.keys()
    assert all(torch.equal(loaded[name], saved[name]) for name in saved)
