"""Swin as a dense backbone against transformers' SwinBackbone, where windows do not divide the maps.

transformers lets tokens attend to the padding, as the authors' dense code does, and has a norm for each map.
"""

from copy import deepcopy
from dataclasses import replace

import pytest
import torch

from patchword import load
from patchword.core.grid import Grid
from patchword.layers.attention.windows import Windows
from patchword.layers.dense.backbones import NormedMaps
from patchword.layers.dense.padded_windows import attend_to_padding

transformers = pytest.importorskip("transformers")
SIZES = {"image_size": 64, "patch_size": 2, "embed_dim": 12, "depths": [2, 2], "num_heads": [2, 3], "window_size": 4}
STAGES = ("stage1", "stage2")


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """A classifier in a folder, and a backbone with its weights, all large enough that attention is not uniform."""
    config = transformers.SwinConfig(**SIZES, drop_path_rate=0.0, out_features=list(STAGES), num_labels=3)
    torch.manual_seed(0)
    classifier, backbone = transformers.SwinForImageClassification(config), transformers.SwinBackbone(config)
    with torch.no_grad():
        for weight in (*classifier.parameters(), *backbone.hidden_states_norms.parameters()):
            weight.normal_(0, 0.3)
    weights = classifier.state_dict() if hasattr(backbone, "swin") else classifier.swin.state_dict()
    missing = backbone.load_state_dict(weights, strict=False).missing_keys
    assert all(name.startswith("hidden_states_norms") for name in missing), missing
    folder = tmp_path_factory.mktemp("swin")
    classifier.save_pretrained(folder)
    return folder, backbone.eval()


def ours(folder, backbone, *, attended=True):
    found = NormedMaps(load(folder).backbone())
    if attended:
        attend_to_padding(found.backbone)
    for norm, stage in zip(found.norms, STAGES, strict=True):
        norm.load_state_dict(backbone.hidden_states_norms[stage].state_dict())
    return found.eval()


def maps_of(backbone, images):
    """The maps of a copy: transformers never shifts again after a map as small as the window."""
    return deepcopy(backbone)(images).feature_maps


def distance(found, expected):
    return max(float((one - other).abs().max() / other.abs().max()) for one, other in zip(found, expected, strict=True))


@torch.no_grad()
@pytest.mark.parametrize("size", [(32, 32), (44, 56), (50, 38)])
def test_maps_equal_those_of_transformers(theirs, size):
    folder, backbone = theirs
    images = torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(1))
    assert distance(ours(folder, backbone)(images), maps_of(backbone, images)) < 1e-5


@torch.no_grad()
def test_masked_padding_is_another_network(theirs):
    folder, backbone = theirs
    images = torch.randn(1, 3, 44, 56, generator=torch.Generator().manual_seed(1))
    assert distance(ours(folder, backbone, attended=False)(images), maps_of(backbone, images)) > 1e-2


def test_a_map_of_one_window_is_shifted_as_well():
    """As in the authors' dense code: its halves become four regions, which do not attend to each other."""
    windows, grid = Windows(4, 4, shift=2, shift_single=True), Grid(4, 4)
    places = windows.split(torch.arange(16).view(1, 16, 1), grid)[0, :, 0]
    region = 2 * (places // 8) + places % 4 // 2
    assert torch.equal(windows.mask(grid, torch.device("cpu"))[0, 0], region[:, None] == region)
    assert replace(windows, shift_single=False).mask(grid, torch.device("cpu")) is None
