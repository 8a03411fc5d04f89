"""Kernels by groups of warps on the GPUs that they are for: every width, both kinds, rows that fill no tile, several
tiles for each program, tensors that do not begin where a GPU can fetch. Elsewhere they are acted out
(test_feed_forward_groups, test_raised_groups)."""

import pytest
import torch

from patchword.kernels.common.availability import has_warp_specialization
from patchword.kernels.mlp.fused_mlp import warp_specialized
from patchword.kernels.mlp.linear_gelu import warp_specialized as warp_specialized_kernel
from patchword.kernels.mlp.reference import (
    FORMS,
    OutProjection,
    Weights,
    fused_mlp_reference,
    linear_gelu_reference,
    out_proj_mlp_reference,
)
from patchword.kernels.mlp.tuning import GROUPED

pytestmark = pytest.mark.skipif(
    not (torch.cuda.is_available() and has_warp_specialization(0)),
    reason="needs a Hopper GPU and a known version of Triton",
)
KINDS = (torch.bfloat16, torch.float16)


def normal(*shape, kind, by=1.0):
    return (torch.randn(*shape, device="cuda") * by).to(kind)


def apart(tensor):
    """the same numbers, from a place that is no multiple of 16 bytes"""
    room = torch.empty(tensor.numel() + 1, dtype=tensor.dtype, device=tensor.device)[1:]
    return room.copy_(tensor.flatten()).view(tensor.shape)


def error(found, expected):
    assert found.shape == expected.shape
    return float((found.double() - expected).norm() / expected.norm())


def doubled(parts):
    return type(parts)(*(part.double() for part in parts))


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("rows", [1, 77, 60_001])
@pytest.mark.parametrize("width", GROUPED)
def test_feed_forwards(width, rows, kind):
    torch.manual_seed(width + rows)
    hidden = 4 * width
    up, down = normal(hidden, width, kind=kind, by=width**-0.5), normal(width, hidden, kind=kind, by=hidden**-0.5)
    vectors = [normal(size, kind=kind, by=0.5) for size in (width, width, hidden, width)]
    weights = Weights(1 + vectors[0], vectors[1], up, vectors[2], down, vectors[3])
    tokens = 1 + normal(rows, width, kind=kind)
    before = OutProjection(normal(rows, width, kind=kind), normal(width, width, kind=kind, by=width**-0.5), vectors[1])
    for form in FORMS:
        expected = fused_mlp_reference(tokens.double(), doubled(weights), 1e-5, form)
        assert error(warp_specialized(tokens, weights, 1e-5, form), expected) < 5e-3
        expected = out_proj_mlp_reference(tokens.double(), doubled(before), doubled(weights), 1e-5, form)
        assert error(warp_specialized(tokens, weights, 1e-5, form, before), expected) < 5e-3
    scattered = Weights(*(apart(part) for part in weights))
    moved = warp_specialized(apart(tokens), scattered, 1e-5, form, tuple(apart(part) for part in before))
    assert error(moved, expected) < 5e-3


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("rows", [1, 77, 40_001])
def test_products_that_end_in_an_activation(rows, kind):
    torch.manual_seed(rows)
    tokens, bias = normal(rows, 512, kind=kind), normal(640, kind=kind)
    up = normal(640, 512, kind=kind, by=512**-0.5)
    for form in FORMS:
        expected = linear_gelu_reference(tokens.double(), up.double(), bias.double(), form)
        assert error(warp_specialized_kernel(tokens, up, bias, form), expected) < 5e-3
        assert error(warp_specialized_kernel(apart(tokens), apart(up), apart(bias), form), expected) < 5e-3
