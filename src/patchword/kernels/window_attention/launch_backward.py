"""The launches of the gradient, prepared as window_launch prepares those of the answer.

Only to be imported where Triton is installed.
"""

from functools import lru_cache
from typing import NamedTuple

from patchword.kernels.common.launch import PreparedLaunch, sm_count
from patchword.kernels.depthwise_conv.lepe_conv_launch import ForTaps
from patchword.kernels.window_attention import bias_grad_triton as window_table
from patchword.kernels.window_attention import triton_backward as window_triton_backward
from patchword.kernels.window_attention.launch import Call, Share, shares_of
from patchword.kernels.window_attention.tiling import WARPS, walkers


class ForTable(NamedTuple):
    biases: PreparedLaunch | None  # of larger groups; those in one tile have it from the main kernel
    parts: tuple[int, ...]  # the shape of the gradients of the biases, in parts
    fold: PreparedLaunch


class ForFilter(NamedTuple):
    values: PreparedLaunch  # what the filter adds to their gradient
    taps: ForTaps


class Back(NamedTuple):
    """The launches of the gradient of one share."""

    main: PreparedLaunch  # of groups in one tile; else of the queries of larger ones
    keys: PreparedLaunch | None
    table: ForTable | None
    local: ForFilter | None


@lru_cache(1024)
def backward(call: Call) -> tuple[Back, ...]:
    """one for each share"""
    return tuple(_back(share, call.joint) for share in shares_of(call, "backward"))


def _back(share: Share, joint: bool) -> Back:
    lying, kernels = share.lying, window_triton_backward
    stride = (3 if joint else 1) * lying.all_heads * share.head  # of the gradients, from token to token
    numbers = (*lying[:4], stride, *lying[4:], share.scale, *share.known)
    if share.plan.whole:
        main, keys = PreparedLaunch(kernels.whole_back, share.grid, numbers, *share.options), None
    else:
        main = PreparedLaunch(kernels.queries_back, share.grid, (*numbers, share.local), *share.options)
        keys = PreparedLaunch(kernels.keys_back, share.grid, numbers, *share.options)
    table, local = _for_table(share) if share.biased else None, _for_filter(share, joint) if share.local else None
    return Back(main, keys, table, local)


def _for_filter(share: Share, joint: bool) -> ForFilter:
    gradient = share.lie(joint=False)
    values = share.filter.backward(gradient, share.lie(joint), onto=True)
    return ForFilter(values, share.filter.taps(share.values, gradient))


def _for_table(share: Share) -> ForTable:
    heads, plan, biases = share.lying.heads, share.plan, None
    if plan.whole:
        count = share.grid[1] * share.grid[2]
    else:
        tiles = heads * (-(-share.cut.size // plan.met)) ** 2
        count = walkers(share.lying.batch * share.cut.groups, tiles, plan.waves * sm_count(share.device))
        numbers = (*share.lying, share.scale, *share.sides, share.head, share.masked, plan.met, plan.width)
        warps = WARPS["backward", plan.met]
        biases = PreparedLaunch(window_table.biases_back, (tiles, count, 1), numbers, warps, *share.options[1:])
    side = -(-share.cut.size // plan.met) * plan.met
    fold = PreparedLaunch(
        window_table.fold, (share.cut.offsets, heads, 1), (count, heads, *share.sides, side, 16, 64), 4, 2
    )
    return ForTable(biases, (count, heads, side, side), fold)
