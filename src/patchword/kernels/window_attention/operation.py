"""Attention inside the rectangles of a map: windows, shifted windows, stripes and pales, without a copy of a token.

A kernel for GPUs (window_triton) computes where the members of a group lie while it reads them, and writes what they
get where they lie. The twin is window_plain.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from patchword.kernels.common.availability import SelfTest, is_usable
from patchword.kernels.common.counter_rng import seeds_on
from patchword.kernels.window_attention.autograd import attend_windows
from patchword.kernels.window_attention.reference import window_attention_reference
from patchword.kernels.window_attention.tiling import Rectangles, Side
from patchword.kernels.window_attention.torch_op import attend_back

WIDEST = 128  # channels of a head
_KINDS = (torch.float32, torch.bfloat16, torch.float16)


class Share(NamedTuple):
    """What one group of heads does: its cut of the map and, where position enters, a table or a filter.

    table: (offsets, heads), a bias for each offset. taps and constant: (channels, 1, 3, 3) and (channels,), a
    filter over the values and its bias. An empty tensor is none.
    """

    cut: Rectangles
    table: Tensor
    taps: Tensor
    constant: Tensor


def windows(held: list[Tensor], shares: list[Share], heads: int, scale: float, rate: float = 0.0) -> Tensor:
    """Attends and merges: (batch, tokens, width), of which each share has its part of the channels, in their order.

    held: queries, keys and values, (batch, tokens, width) each, or one tensor (batch, tokens, 3 * width) of all three.
    heads: of each share. rate: of weights that are dropped, where groups fit into one tile.
    """
    tables = [share.table for share in shares]
    taps = [part for share in shares for part in (share.taps, share.constant)]
    numbers = [number for share in shares for number in share.cut.numbers()]
    seeds = seeds_on(held[0].device) if rate else None
    merged: Tensor = attend_windows(held, tables, taps, numbers, heads, scale, seeds, rate)[0]
    return merged


def has_window_kernel(query: Tensor, head: int) -> bool:
    return query.is_cuda and query.dtype in _KINDS and head <= WIDEST and is_usable(query, SELF_TEST)


def matches_reference(device: torch.device, short: torch.dtype = torch.bfloat16) -> bool:
    """Whether attention in shifted windows and, with a filter, in padded stripes is that of the plain way, and its
    gradient; once more with dropout and numbers of 16 bits."""
    seeds = torch.tensor([77, -3], dtype=torch.int32, device=device)
    return _matches_reference_at(device, torch.float32, 1e-4) and _matches_reference_at(device, short, 2e-2, seeds, 0.3)


def _matches_reference_at(
    device: torch.device, kind: torch.dtype, bound: float, seeds: Tensor | None = None, rate: float = 0.0
) -> bool:
    cuts = [
        Rectangles(Side(6, 4, 2, 1, 4, 2), Side(5, 4, 2, 1, 4, 2)),
        Rectangles(Side(6, 6, 1, 1, 6, 0), Side(5, 2, 3, 3, 1, 0)),
    ]
    joint = torch.linspace(-99, 99, 30 * 96, device=device).sin().view(1, 30, 96).to(kind)
    tables = [torch.linspace(-1, 1, cut.offsets, device=device).view(-1, 1).to(kind) for cut in cuts]
    taps, none = torch.linspace(-9, 9, 144, device=device).sin().view(16, 1, 3, 3), torch.empty(0, device=device)
    filters = [taps.to(kind), torch.ones(16, device=device).to(kind)]
    exact = [part.double().requires_grad_() for part in (joint, *tables, *filters)]  # no GPU shortens these
    answer = window_attention_reference(exact[:1], exact[1:3], [none, none, *exact[3:]], cuts, 1, 0.25, seeds, rate)
    expected = [answer, *torch.autograd.grad(answer.sin().sum(), exact)]
    lists, numbers = ([joint], tables, [none, none, *filters]), [number for cut in cuts for number in cut.numbers()]
    merged, sums = attend_windows(*lists, numbers, 1, 0.25, seeds, rate)
    back = attend_back(merged.cos(), *lists, merged, sums, numbers, 1, 0.25, seeds, rate)
    pairs = zip([merged, *back[:3], *back[5:]], expected, strict=True)
    return all(bool((one.double() - other).norm() < bound * other.norm()) for one, other in pairs)


SELF_TEST = SelfTest("windows", matches_reference)
