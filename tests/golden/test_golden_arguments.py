"""The arguments that timm's and the authors' classes were given for the golden files, as a config.json states them."""

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

import patchword
from support.helpers import difference

_VIT = {"img_size": 32, "patch_size": 8, "embed_dim": 32, "depth": 2, "num_heads": 4, "mlp_ratio": 4, "num_classes": 7}
ARGUMENTS = {
    "vit": _VIT | {"act_layer": None, "norm_layer": None, "global_pool": "token", "drop_path_rate": 0.1},
    "deit-distilled": _VIT | {"weight_init": "", "class_token": True, "fc_norm": None},
    "swin": {
        **{"img_size": [32, 64], "patch_size": 2, "embed_dim": 16, "depths": [2, 2, 2], "num_heads": [2, 4, 4]},
        **{"window_size": 4, "mlp_ratio": 2, "num_classes": 7, "qkv_bias": True, "always_partition": False},
    },
    "mixer": {"img_size": 32, "patch_size": 8, "num_blocks": 2, "embed_dim": 32, "mlp_ratio": [0.5, 4]},
    "regnety": {"w0": 16, "wa": 8, "wm": 1.5, "group_size": 8, "depth": 6, "se_ratio": 0.25, "stem_width": 16},
    "resnet": {"layers": [2, 1, 2, 1], "output_stride": 32, "zero_init_last": True},
    "cvt_tiny": {"DIM_EMBED": [16, 48, 96], "NUM_HEADS": [1, 3, 6], "DEPTH": [1, 1, 2], "INIT": "trunc_norm"},
}
AS_RECORDED = ("cswin_tiny", "pvt_tiny")  # their metadata has the arguments of the authors' classes
CHANGED = {  # another value that no shape shows
    "vit": {"num_heads": 2},
    "deit-distilled": {"act_layer": "relu"},
    "mixer": {"act_layer": "gelu_tanh"},
    "cswin_tiny": {"num_heads": [2, 4, 4, 4]},
    "pvt_tiny": {"num_heads": [2, 2, 5, 8]},
    "cvt_tiny": {"NUM_HEADS": [2, 3, 6]},
}


def folder_of(name, folder, **changed):
    """Write the weights and the arguments of a golden file; return its images and outputs."""
    with safe_open(Path(__file__).with_name(f"{name}.safetensors"), framework="pt") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a dict
        recorded = json.loads(file.metadata()["config"])
    weights = {key.removeprefix("weights."): tensor for key, tensor in tensors.items() if key.startswith("weights.")}
    save_file(weights, folder / "model.safetensors")
    stated = {argument: value for argument, value in recorded.items() if argument not in ("family", "source")}
    arguments = stated if name in AS_RECORDED else ARGUMENTS[name]
    (folder / "config.json").write_text(json.dumps({"model_args": {**arguments, **changed}}))
    return tensors["input"], tensors["output"]


@torch.no_grad()
@pytest.mark.parametrize("name", [*ARGUMENTS, *AS_RECORDED])
def test_output_equals_theirs(name, tmp_path):
    images, output = folder_of(name, tmp_path)
    assert difference(patchword.load(tmp_path)(images), output) < 1e-5


@torch.no_grad()
@pytest.mark.parametrize("name", CHANGED)
def test_the_comparison_fails_with_another_argument(name, tmp_path):
    images, output = folder_of(name, tmp_path, **CHANGED[name])
    assert difference(patchword.load(tmp_path)(images), output) > 2e-5  # the tanh form of GELU is 4e-5 away
