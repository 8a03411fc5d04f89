"""The launches of the gradient, prepared as window_launch prepares those of the answer.

Only to be imported where Triton is installed.
"""

from functools import lru_cache
from typing import NamedTuple

from patchword.kernels import window_local, window_table, window_triton_backward
from patchword.kernels.window_launch import Call, Ready, Share, processors, shares_of
from patchword.kernels.window_plan import Launch, walk, walkers

_TAPS_TILE, _TAPS_WAVES, _ENTRIES = 32, 4, 64
_SMALL = Launch(tile=64, width=16, whole=True, warps=4, stages=2, waves=4, registers=None)


class ForTable(NamedTuple):
    biases: Ready | None  # of larger groups; those in one tile have it from the main kernel
    parts: tuple[int, ...]  # the shape of the gradients of the biases, in parts
    fold: Ready


class ForTaps(NamedTuple):
    main: Ready
    parts: tuple[int, ...]
    total: Ready


class Back(NamedTuple):
    """The launches of the gradient of one share."""

    main: Ready  # of groups in one tile; else of the queries of larger ones
    keys: Ready | None
    table: ForTable | None
    taps: ForTaps | None


@lru_cache(1024)
def backward(call: Call) -> tuple[Back, ...]:
    """one for each share"""
    return tuple(_back(share, call.joint) for share in shares_of(call, "backward"))


def _back(share: Share, joint: bool) -> Back:
    lying, kernels = share.lying, window_triton_backward
    stride = (3 if joint else 1) * lying.all_heads * share.head  # of the gradients, from token to token
    numbers = (*lying[:4], stride, *lying[4:], share.scale, *share.known)
    main = kernels.whole_back if share.plan.whole else kernels.queries_back
    keys = None if share.plan.whole else Ready(kernels.keys_back, share.grid, numbers, share.plan)
    table = _for_table(share) if share.biased else None
    return Back(Ready(main, share.grid, numbers, share.plan), keys, table, _for_taps(share) if share.local else None)


def _for_table(share: Share) -> ForTable:
    heads, plan, biases = share.lying.heads, share.plan, None
    if plan.whole:
        count = share.grid[1] * share.grid[2]
    else:
        tiles = heads * share.pieces**2
        count = walkers(share.lying.batch * share.cut.groups, tiles, plan.waves * processors(share.device))
        numbers = (*share.lying, share.scale, *share.sides, share.head, share.masked, plan.tile, plan.width)
        biases = Ready(window_table.biases_back, (tiles, count, 1), numbers, plan)
    side = share.pieces * plan.tile
    fold = Ready(window_table.fold, (share.cut.offsets, heads, 1), (count, heads, *share.sides, side, 16, 64), _SMALL)
    return ForTable(biases, (count, heads, side, side), fold)


def _for_taps(share: Share) -> ForTaps:
    heads, channels = share.lying.heads, share.lying.heads * share.head
    places = share.cut.groups * -(-share.cut.size // _TAPS_TILE)
    walked = walk(places, heads, share.lying.batch, _TAPS_WAVES * processors(share.device))
    numbers = (*share.lying, *share.sides, share.head, _TAPS_TILE, share.plan.width)
    main = Ready(window_local.taps_back, (heads, *walked), numbers, _SMALL)
    parts, entries = walked[0] * walked[1], channels * 10
    total = Ready(window_table.total_of, (-(-entries // _ENTRIES), 1, 1), (parts, entries, 32, _ENTRIES), _SMALL)
    return ForTaps(main, (parts, channels, 10), total)
