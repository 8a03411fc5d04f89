"""The feature pyramid network against mmdet, with its three ways of extra levels."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from patchword.layers.dense.fpn import Fpn
from support.dense.operators import assert_compiles

NECKS = load_file(Path(__file__).parents[3] / "golden" / "dense_necks.safetensors")
EXTRA = {"mask_rcnn": (1, "pool"), "atss": (2, "output"), "retinanet": (2, "input")}


def neck(system: str, extra_relu: bool = False) -> tuple[Fpn, list[Tensor]]:
    """The golden network with its weights, and its input."""
    maps = [NECKS[key] for key in sorted(NECKS) if key.startswith(f"{system}/in.map")]
    extra, extra_from = EXTRA[system]
    fpn = Fpn([each.shape[1] for each in maps], 16, extra=extra, extra_from=extra_from, extra_relu=extra_relu)
    prefix = f"{system}/weight.neck."
    theirs = {key.removeprefix(prefix): value for key, value in NECKS.items() if key.startswith(prefix)}
    ours = {}
    for key, value in theirs.items():
        part, level, _, name = key.split(".")
        place = int(level)
        if part == "lateral_convs":
            ours[f"lateral.{place}.{name}"] = value
        elif place < len(maps):
            ours[f"output.{place}.{name}"] = value
        else:
            ours[f"downsample.{place - len(maps)}.{name}"] = value
    fpn.load_state_dict(ours)
    return fpn, maps


def expected(system: str) -> list[Tensor]:
    return [NECKS[key] for key in sorted(NECKS) if key.startswith(f"{system}/out.neck.")]


@pytest.mark.parametrize("system", EXTRA)
def test_the_pyramid_equals_mmdet(system):
    fpn, maps = neck(system)
    found, wanted = fpn(maps), expected(system)
    assert len(found) == len(wanted) == 5
    for ours, theirs in zip(found, wanted, strict=True):
        assert torch.allclose(ours, theirs, rtol=0, atol=1e-5 * theirs.abs().max().item())


def test_relu_changes_the_second_extra_level_alone():
    fpn, maps = neck("retinanet", extra_relu=True)
    found, plain = fpn(maps), expected("retinanet")
    assert torch.allclose(found[3], plain[3], rtol=0, atol=1e-5 * plain[3].abs().max().item())
    assert torch.allclose(found[4], fpn.downsample[1](plain[3].relu()), rtol=1e-4, atol=1e-4)
    assert not torch.allclose(found[4], plain[4], rtol=1e-2, atol=1e-2)


def test_odd_sizes_are_enlarged_to_the_map_below():
    found = Fpn([2, 3], 4, extra=1, extra_from="pool")([torch.randn(1, 2, 7, 5), torch.randn(1, 3, 4, 3)])
    assert [tuple(each.shape[-2:]) for each in found] == [(7, 5), (4, 3), (2, 2)]


def test_the_pyramid_compiles():
    fpn, maps = neck("atss")
    with torch.no_grad():
        assert_compiles(fpn, maps)
