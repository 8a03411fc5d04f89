"""The warp-specialised kernels on Hopper GPUs.

Every width, both 16-bit dtypes, rows that do not fill a tile, several tiles per program, and tensors that are not
aligned for TMA. test_fused_mlp_warp_specialized simulates them on other machines.
"""

import pytest
import torch

from patchword.kernels.common.availability import has_warp_specialization
from patchword.kernels.mlp.fused_mlp import warp_specialized
from patchword.kernels.mlp.reference import (
    FORMS,
    OutProjection,
    Weights,
    fused_mlp_reference,
    out_proj_mlp_reference,
)
from patchword.kernels.mlp.tuning import GROUPED
from support.kernel_tests import assert_rounded

pytestmark = pytest.mark.skipif(
    not (torch.cuda.is_available() and has_warp_specialization(0)),
    reason="needs a Hopper GPU and a known version of Triton",
)
DTYPES = (torch.bfloat16, torch.float16)


def normal(*shape, dtype, by=1.0):
    return (torch.randn(*shape, device="cuda") * by).to(dtype)


def apart(tensor):
    """Returns the same numbers at an address that is no multiple of 16 bytes."""
    memory = torch.empty(tensor.numel() + 1, dtype=tensor.dtype, device=tensor.device)[1:]
    return memory.copy_(tensor.flatten()).view(tensor.shape)


def check(found, exact):
    assert found.shape == exact.shape
    assert_rounded([found], [exact], roundings=1.25)


def doubled(parts):
    return type(parts)(*(part.double() for part in parts))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rows", [1, 77, 60_001])
@pytest.mark.parametrize("width", GROUPED)
def test_fused_mlp(width, rows, dtype):
    torch.manual_seed(width + rows)
    hidden = 4 * width
    up, down = normal(hidden, width, dtype=dtype, by=width**-0.5), normal(width, hidden, dtype=dtype, by=hidden**-0.5)
    vectors = [normal(size, dtype=dtype, by=0.5) for size in (width, width, hidden, width)]
    weights = Weights(1 + vectors[0], vectors[1], up, vectors[2], down, vectors[3])
    tokens, branch = 1 + normal(rows, width, dtype=dtype), normal(rows, width, dtype=dtype)
    before = OutProjection(branch, normal(width, width, dtype=dtype, by=width**-0.5), vectors[1])
    for form in FORMS:
        exact = fused_mlp_reference(tokens.double(), doubled(weights), 1e-5, form)
        check(warp_specialized(tokens, weights, 1e-5, form), exact)
        exact = out_proj_mlp_reference(tokens.double(), doubled(before), doubled(weights), 1e-5, form)
        check(warp_specialized(tokens, weights, 1e-5, form, before), exact)
    scattered = Weights(*(apart(part) for part in weights))
    moved = warp_specialized(apart(tokens), scattered, 1e-5, form, tuple(apart(part) for part in before))
    check(moved, exact)
