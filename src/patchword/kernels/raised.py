"""gelu(up(x)) in one kernel, without gradients: the first half of feed-forwards that are too wide for feed_forward.

A GELU of its own reads and writes all hidden values once more, which takes as long as a short product. Only where the
product is short: those of wider tokens are so much quicker in torch's own way that a GELU beside them costs less. The
kernel is in raised_triton, the twin is plain_raised.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.kernels.availability import (
    Trial,
    Waves,
    has_groups,
    is_hopper,
    is_usable,
    learns,
    may_have_kernel,
    short_kind,
)
from patchword.kernels.launching import processors
from patchword.kernels.operation import operation

ROWS, COLUMNS, DEPTH, WARPS, STAGES = 128, 128, 64, 8, 3  # the best of benchmarks/feed_forward.py on an H200
LEAST, MOST = 256, 384  # channels of a token
_SLOTS = {256: 4, 384: 3, 512: 2}  # by the channels: places for pieces of the matrix, where groups of warps multiply
_SIDE = 128  # of a piece


def has_raised_kernel(tokens: Tensor, up: Tensor, bias: Tensor) -> bool:
    """On a Hopper GPU with Triton, in 16 bits, for sizes that fit, where no gradient is wanted."""
    if not may_have_kernel(tokens) or learns(tokens, up, bias) or short_kind(tokens, up, bias) is None:
        return False
    hidden, width = up.shape
    if tokens.shape[-1] != width or not is_hopper(tokens.device.index):
        return False
    if _is_grouped(width, hidden) and has_groups(tokens.device.index) and is_usable(tokens, GROUPS):
        return True
    fits = LEAST <= width <= MOST and width % DEPTH == 0 and hidden % COLUMNS == 0
    return fits and is_usable(tokens, TRIAL)


def _is_grouped(width: int, hidden: int) -> bool:
    return width in _SLOTS and hidden % _SIDE == 0


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
    from patchword.kernels.raised_triton import product_raised

    tokens, (hidden, width) = tokens.contiguous(), up.shape
    answer, count = _shape(tokens, up), tokens.numel() // width
    if count and tokens.is_cuda and tokens.element_size() == 2 and _is_grouped(width, hidden) and _has_groups(tokens):
        return by_groups(tokens, up.contiguous(), bias.contiguous(), form)
    programs = -(-count // ROWS) * (hidden // COLUMNS)
    given = (tokens, up.contiguous(), bias.contiguous(), answer, count, width, hidden, ROWS, COLUMNS, DEPTH, form)
    if programs:
        with torch.cuda.device_of(tokens):  # kernels are sent to the GPU that holds the tensors
            product_raised[(programs,)](*given, num_warps=WARPS, num_stages=STAGES)
    return answer


def _has_groups(tokens: Tensor) -> bool:
    index = tokens.get_device()
    return has_groups(index) and GROUPS.passes(index)


def by_groups(tokens: Tensor, up: Tensor, bias: Tensor, form: str) -> Tensor:
    """All are contiguous, tokens of the matrix' kind."""
    from patchword.kernels.group_parts import REGISTERS, ROWS, described
    from patchword.kernels.raised_groups import raised_by_groups

    (hidden, width), answer, side = up.shape, _shape(tokens, up), _SIDE
    count = tokens.numel() // width
    programs = min(-(-count // (2 * ROWS.value)), processors(tokens.get_device()))
    rows, found = described(tokens.view(count, width), 64, side), described(answer.view(count, hidden), 64, side)
    choices = hidden // side, width // side, form, _SLOTS[width]
    with torch.cuda.device_of(tokens):
        raised_by_groups[(programs,)](
            rows, described(up, side, side), bias, found, count, *choices, num_warps=4, maxnreg=REGISTERS[2]
        )
    return answer


def _shape(tokens: Tensor, up: Tensor, *others: object) -> Tensor:
    return tokens.new_empty(*tokens.shape[:-1], up.shape[0])


_run = operation("raised", "Tensor tokens, Tensor up, Tensor bias, str form", _one_step, _shape)


def alike(device: torch.device, kind: torch.dtype = torch.bfloat16) -> bool:
    return is_alike(320, device, kind, raised)


def are_groups_alike(device: torch.device) -> bool:
    return all(is_alike(width, device, torch.bfloat16, by_groups) for width in _SLOTS)


@torch.no_grad()
def is_alike(width: int, device: torch.device, kind: torch.dtype, run: Callable[..., Tensor]) -> bool:
    """Whether the kernel answers as the plain way does in float32."""

    wave = Waves(device, kind)
    tokens, up, bias = wave(2, 77, width), wave(256, width, size=0.1), wave(256)
    with torch.autocast(device.type, enabled=False):
        found = run(tokens, up, bias, "gelu").float()
        expected = plain_raised(tokens.float(), up.float(), bias.float(), "gelu")
    return bool((found - expected).norm() < 1e-2 * expected.norm())


TRIAL = Trial("raised products", alike, on=is_hopper)
GROUPS = Trial("raised products by groups of warps", are_groups_alike, on=has_groups)
