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
    Trial,
    Waves,
    has_groups,
    is_hopper,
    is_usable,
    learns,
    may_have_kernel,
    short_kind,
)
from patchword.kernels.common.launch import is_many, processors
from patchword.kernels.common.register_op import operation

ROWS, COLUMNS, DEPTH, WARPS, STAGES = 128, 128, 64, 8, 3  # the best of benchmarks/feed_forward.py on an H200
LEAST, MOST = 256, 384  # channels of a token
_GROUPED = 512  # channels for which groups of warps are quicker than both
_SLOTS = 5  # places that are left for pieces of the matrix


def has_raised_kernel(tokens: Tensor, up: Tensor, bias: Tensor) -> bool:
    """On a Hopper GPU with Triton, in 16 bits, for sizes that fit, where no gradient is wanted."""
    if not may_have_kernel(tokens) or learns(tokens, up, bias) or short_kind(tokens, up, bias) is None:
        return False
    hidden, width = up.shape
    if tokens.shape[-1] != width or not is_hopper(tokens.device.index):
        return False
    if width == _GROUPED:
        there = hidden % COLUMNS == 0 and has_groups(tokens.device.index) and is_usable(tokens, GROUPS)
        return there and is_many(tokens.numel() // width, ROWS, tokens.device.index)  # else torch's own way is quicker
    fits = LEAST <= width <= MOST and width % DEPTH == 0 and hidden % COLUMNS == 0
    return fits and is_usable(tokens, TRIAL)


def raised(tokens: Tensor, up: Tensor, bias: Tensor, form: str) -> Tensor:
    """(..., width), (hidden, width), (hidden,) -> (..., hidden); form: one of feed_forward.FORMS"""
    kind = short_kind(tokens, up)
    return _run(tokens.to(kind), up.to(kind), bias, form)


def plain_raised(tokens: Tensor, up: Tensor, bias: Tensor, form: str) -> Tensor:
    return plain_activation(F.linear(tokens, up, bias), form)


def plain_activation(between: Tensor, form: str) -> Tensor:
    if form == "quick-gelu":
        return between * (1.702 * between).sigmoid()
    return F.gelu(between, approximate="tanh" if form == "gelu-tanh" else "none")


def _one_step(tokens: Tensor, up: Tensor, bias: Tensor, form: str) -> Tensor:
    from patchword.kernels.mlp.linear_gelu_triton import product_raised

    tokens, (hidden, width) = tokens.contiguous(), up.shape
    if width == _GROUPED:
        return by_groups(tokens, up.contiguous(), bias.contiguous(), form)
    answer, count = _shape(tokens, up), tokens.numel() // width
    programs = -(-count // ROWS) * (hidden // COLUMNS)
    given = (tokens, up.contiguous(), bias.contiguous(), answer, count, width, hidden, ROWS, COLUMNS, DEPTH, form)
    if programs:
        with torch.cuda.device_of(tokens):  # kernels are sent to the GPU that holds the tensors
            product_raised[(programs,)](*given, num_warps=WARPS, num_stages=STAGES)
    return answer


def by_groups(tokens: Tensor, up: Tensor, bias: Tensor, form: str) -> Tensor:
    """All are contiguous, tokens of the matrix' kind; there are some."""
    from patchword.kernels.common.warp_specialized import REGISTERS, described
    from patchword.kernels.common.warp_specialized import ROWS as EACH
    from patchword.kernels.mlp.linear_gelu_warp_specialized import DEEP, HALF, SIDE, raised_by_groups

    (hidden, width), answer = up.shape, _shape(tokens, up)
    count, rows, deep, side = tokens.numel() // width, EACH.value, DEEP.value, SIDE.value
    programs = min(-(-count // (2 * rows)), processors(tokens.get_device()))
    taken = described(tokens.view(count, width), rows, deep), described(up, side, deep)
    found = described(answer.view(count, hidden), rows, HALF.value)
    choices = hidden // side, width // deep, form, _SLOTS
    with torch.cuda.device_of(tokens):
        raised_by_groups[(programs,)](*taken, bias, found, count, *choices, num_warps=4, maxnreg=REGISTERS[2])
    return answer


def _shape(tokens: Tensor, up: Tensor, *others: object) -> Tensor:
    return tokens.new_empty(*tokens.shape[:-1], up.shape[0])


_run = operation("raised", "Tensor tokens, Tensor up, Tensor bias, str form", _one_step, _shape)


def alike(device: torch.device, kind: torch.dtype = torch.bfloat16) -> bool:
    return is_alike(320, 154, device, kind, raised)


def are_groups_alike(device: torch.device) -> bool:
    """with several tiles for each program"""
    return is_alike(_GROUPED, 40000, device, torch.bfloat16, by_groups)


@torch.no_grad()
def is_alike(width: int, rows: int, device: torch.device, kind: torch.dtype, run: Callable[..., Tensor]) -> bool:
    """Whether the kernel answers as the plain way does in float32."""

    wave = Waves(device, kind)
    tokens, up, bias = wave(rows, width), wave(256, width, size=0.1), wave(256)
    with torch.autocast(device.type, enabled=False):
        found = run(tokens, up, bias, "gelu").float()
        expected = plain_raised(tokens.float(), up.float(), bias.float(), "gelu")
    return bool((found - expected).norm() < 1e-2 * expected.norm())


TRIAL = Trial("raised products", alike, on=is_hopper)
GROUPS = Trial("raised products by groups of warps", are_groups_alike, on=has_groups)
