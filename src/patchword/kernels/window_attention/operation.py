"""Attention inside the rectangles of a map: windows, shifted windows, stripes and pales, without copies of tokens.

The Triton kernels compute the token indices of a group while they read its tokens, and write the outputs in place.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from patchword.kernels.common.availability import SelfTest, is_usable
from patchword.kernels.common.counter_rng import seeds_on
from patchword.kernels.common.hooks import is_exactly
from patchword.kernels.window_attention.autograd import attend_windows
from patchword.kernels.window_attention.reference import window_attention_reference
from patchword.kernels.window_attention.tiling import Rectangles, Side
from patchword.kernels.window_attention.torch_op import window_attention_backward
from patchword.kernels.window_attention.tuning import is_faster_than_sdpa

WIDEST = 128  # channels of a head
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


class HeadGroup(NamedTuple):
    """One group of heads: its rectangles and, where position enters, a bias table or a convolution.

    table: (offsets, heads), a bias per offset. taps and constant: (channels, 1, 3, 3) and (channels,), weight and bias
    of a depthwise convolution of the values. An empty tensor means none.
    """

    cut: Rectangles
    table: Tensor
    taps: Tensor
    constant: Tensor


def window_attention(
    qkv: list[Tensor],
    groups: Sequence[Callable[[], HeadGroup]],
    heads: int,
    scale: float,
    dropout: float = 0.0,
    *,
    dense: bool = False,
    convolutions: Sequence[nn.Module] = (),
    reference: Callable[[], Tensor],
) -> Tensor:
    """Attends inside rectangles with the kernel where it can run and is worth it, and by `reference` elsewhere.

    qkv: queries, keys and values, (batch, tokens, width) each, or one tensor (batch, tokens, 3 * width) of all three.
    groups: one function per group of heads, which builds its description. Called only where the kernel runs.
    heads: of each group.
    dense: all tokens attend to all. Only then the kernel has dropout, and only short sequences are faster with it.
    convolutions: the depthwise convolutions of the groups. The kernel reads their weight and bias, so that it cannot
        run if one was replaced by a module that computes something else, has hooks, or has no bias.
    reference: computes the same with operations of torch.
    """
    width = qkv[0].shape[-1] // (3 if len(qkv) == 1 else 1)
    head = width // (heads * len(groups))
    has_dropout = dense and dropout < 1
    worth_it = not dense or is_faster_than_sdpa(qkv[0], head)
    if (dropout and not has_dropout) or not worth_it or not has_window_kernel(qkv[0], head):
        return reference()
    if not all(is_exactly(each, nn.Conv2d) and each.bias is not None for each in convolutions):
        return reference()
    return window_attention_kernel(qkv, [build() for build in groups], heads, scale, dropout)


def window_attention_kernel(
    qkv: list[Tensor], groups: list[HeadGroup], heads: int, scale: float, rate: float = 0.0
) -> Tensor:
    """Runs the kernel: -> (batch, tokens, width), where each group of heads has its part of the channels, in order.

    rate: of dropout, which needs groups that fit into one tile
    """
    tables = [group.table for group in groups]
    taps = [part for group in groups for part in (group.taps, group.constant)]
    numbers = [number for group in groups for number in group.cut.numbers()]
    seeds = seeds_on(qkv[0].device) if rate else None
    output: Tensor = attend_windows(qkv, tables, taps, numbers, heads, scale, seeds, rate)[0]
    return output


def has_window_kernel(query: Tensor, head: int) -> bool:
    """True if the kernel can run for tensors of this dtype and device, and for heads of this width."""
    return query.is_cuda and query.dtype in _DTYPES and head <= WIDEST and is_usable(query, SELF_TEST)


def matches_reference(device: torch.device, short: torch.dtype = torch.bfloat16) -> bool:
    """True if the kernel and its gradient match the reference in shifted windows and, with a convolution, in padded
    stripes; in float32, and in a 16-bit dtype with dropout."""
    seeds = torch.tensor([77, -3], dtype=torch.int32, device=device)
    return _matches_reference_at(device, torch.float32, 1e-4) and _matches_reference_at(device, short, 2e-2, seeds, 0.3)


def _matches_reference_at(
    device: torch.device, dtype: torch.dtype, bound: float, seeds: Tensor | None = None, rate: float = 0.0
) -> bool:
    cuts = [
        Rectangles(Side(6, 4, 2, 1, 4, 2), Side(5, 4, 2, 1, 4, 2)),
        Rectangles(Side(6, 6, 1, 1, 6, 0), Side(5, 2, 3, 3, 1, 0)),
    ]
    joint = torch.linspace(-99, 99, 30 * 96, device=device).sin().view(1, 30, 96).to(dtype)
    tables = [torch.linspace(-1, 1, cut.offsets, device=device).view(-1, 1).to(dtype) for cut in cuts]
    taps, none = torch.linspace(-9, 9, 144, device=device).sin().view(16, 1, 3, 3), torch.empty(0, device=device)
    filters = [taps.to(dtype), torch.ones(16, device=device).to(dtype)]
    exact = [part.double().requires_grad_() for part in (joint, *tables, *filters)]  # float64: no GPU rounds it to TF32
    answer = window_attention_reference(exact[:1], exact[1:3], [none, none, *exact[3:]], cuts, 1, 0.25, seeds, rate)
    expected = [answer, *torch.autograd.grad(answer.sin().sum(), exact)]
    lists, numbers = ([joint], tables, [none, none, *filters]), [number for cut in cuts for number in cut.numbers()]
    output, logsumexp = attend_windows(*lists, numbers, 1, 0.25, seeds, rate)
    back = window_attention_backward(output.cos(), *lists, output, logsumexp, numbers, 1, 0.25, seeds, rate)
    pairs = zip([output, *back[:3], *back[5:]], expected, strict=True)
    return all(bool((one.double() - other).norm() < bound * other.norm()) for one, other in pairs)


SELF_TEST = SelfTest("windows", matches_reference)
