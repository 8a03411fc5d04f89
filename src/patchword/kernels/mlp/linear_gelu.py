"""gelu(up(x)) in one kernel, without gradients: the first half of feed-forwards that are too wide for feed_forward.

A GELU of its own reads and writes all hidden values once more, which takes as long as a short product. Where the
product is longer, torch's own is so much quicker that a GELU beside it costs less; but for 512 channels and many
tokens, where groups of warps do both at once. The kernels are in raised_triton and raised_groups, the twin is
plain_raised.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.kernels.common.availability import (
    SelfTest,
    TestInputs,
    has_warp_specialization,
    is_hopper,
    is_on_cuda,
    is_usable,
    needs_grad,
    short_dtype,
)
from patchword.kernels.common.launch import fills_gpu, sm_count
from patchword.kernels.common.register_op import register_op

ROWS, COLUMNS, DEPTH, WARPS, STAGES = 128, 128, 64, 8, 3  # the best of benchmarks/feed_forward.py on an H200
LEAST, MOST = 256, 384  # channels of a token
_GROUPED = 512  # channels for which groups of warps are quicker than both
_SLOTS = 5  # places that are left for pieces of the matrix


def has_linear_gelu_kernel(tokens: Tensor, up: Tensor, bias: Tensor) -> bool:
    """On a Hopper GPU with Triton, in 16 bits, for sizes that fit, where no gradient is wanted."""
    if not is_on_cuda(tokens) or needs_grad(tokens, up, bias) or short_dtype(tokens, up, bias) is None:
        return False
    hidden, width = up.shape
    if tokens.shape[-1] != width or not is_hopper(tokens.device.index):
        return False
    if width == _GROUPED:
        there = hidden % COLUMNS == 0 and has_warp_specialization(tokens.device.index) and is_usable(tokens, GROUPS)
        return there and fills_gpu(
            tokens.numel() // width, ROWS, tokens.device.index
        )  # else torch's own way is quicker
    fits = LEAST <= width <= MOST and width % DEPTH == 0 and hidden % COLUMNS == 0
    return fits and is_usable(tokens, SELF_TEST)


def linear_gelu(tokens: Tensor, up: Tensor, bias: Tensor, form: str) -> Tensor:
    """(..., width), (hidden, width), (hidden,) -> (..., hidden); form: one of feed_forward.FORMS"""
    kind = short_dtype(tokens, up)
    return _run(tokens.to(kind), up.to(kind), bias, form)


def linear_gelu_reference(tokens: Tensor, up: Tensor, bias: Tensor, form: str) -> Tensor:
    return plain_activation(F.linear(tokens, up, bias), form)


def plain_activation(between: Tensor, form: str) -> Tensor:
    if form == "quick-gelu":
        return between * (1.702 * between).sigmoid()
    return F.gelu(between, approximate="tanh" if form == "gelu-tanh" else "none")


def _one_step(tokens: Tensor, up: Tensor, bias: Tensor, form: str) -> Tensor:
    from patchword.kernels.mlp.linear_gelu_triton import linear_gelu_kernel

    tokens, (hidden, width) = tokens.contiguous(), up.shape
    if width == _GROUPED:
        return warp_specialized(tokens, up.contiguous(), bias.contiguous(), form)
    answer, count = _shape(tokens, up), tokens.numel() // width
    programs = -(-count // ROWS) * (hidden // COLUMNS)
    given = (tokens, up.contiguous(), bias.contiguous(), answer, count, width, hidden, ROWS, COLUMNS, DEPTH, form)
    if programs:
        with torch.cuda.device_of(tokens):  # kernels are sent to the GPU that holds the tensors
            linear_gelu_kernel[(programs,)](*given, num_warps=WARPS, num_stages=STAGES)
    return answer


def warp_specialized(tokens: Tensor, up: Tensor, bias: Tensor, form: str) -> Tensor:
    """All are contiguous, tokens of the matrix' kind; there are some."""
    from patchword.kernels.common.warp_specialized import REGISTERS, described
    from patchword.kernels.common.warp_specialized import ROWS as EACH
    from patchword.kernels.mlp.linear_gelu_warp_specialized import DEEP, HALF, SIDE, warp_specialized_kernel

    (hidden, width), answer = up.shape, _shape(tokens, up)
    count, rows, deep, side = tokens.numel() // width, EACH.value, DEEP.value, SIDE.value
    programs = min(-(-count // (2 * rows)), sm_count(tokens.get_device()))
    taken = described(tokens.view(count, width), rows, deep), described(up, side, deep)
    found = described(answer.view(count, hidden), rows, HALF.value)
    choices = hidden // side, width // deep, form, _SLOTS
    with torch.cuda.device_of(tokens):
        warp_specialized_kernel[(programs,)](*taken, bias, found, count, *choices, num_warps=4, maxnreg=REGISTERS[2])
    return answer


def _shape(tokens: Tensor, up: Tensor, *others: object) -> Tensor:
    return tokens.new_empty(*tokens.shape[:-1], up.shape[0])


_run = register_op("linear_gelu", "Tensor tokens, Tensor up, Tensor bias, str form", _one_step, _shape)


def matches_reference(device: torch.device, kind: torch.dtype = torch.bfloat16) -> bool:
    return matches_reference_at(320, 154, device, kind, linear_gelu)


def warp_specialized_matches_reference(device: torch.device) -> bool:
    """with several tiles for each program"""
    return matches_reference_at(_GROUPED, 40000, device, torch.bfloat16, warp_specialized)


@torch.no_grad()
def matches_reference_at(
    width: int, rows: int, device: torch.device, kind: torch.dtype, run: Callable[..., Tensor]
) -> bool:
    """Whether the kernel answers as the plain way does in float32."""

    wave = TestInputs(device, kind)
    tokens, up, bias = wave(rows, width), wave(256, width, size=0.1), wave(256)
    with torch.autocast(device.type, enabled=False):
        found = run(tokens, up, bias, "gelu").float()
        expected = linear_gelu_reference(tokens.float(), up.float(), bias.float(), "gelu")
    return bool((found - expected).norm() < 1e-2 * expected.norm())


SELF_TEST = SelfTest("raised products", matches_reference, on=is_hopper)
GROUPS = SelfTest("raised products by groups of warps", warp_specialized_matches_reference, on=has_warp_specialization)
