"""Launches of the kernels of windows, prepared once for each kind of call, so that a call costs little beside them.

Only to be imported where Triton is installed.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import torch

from patchword.kernels.common.counter_rng import lowest_kept
from patchword.kernels.common.launch import Grid, PreparedLaunch, sm_count
from patchword.kernels.depthwise_conv.lepe_conv_launch import Filter, Lie
from patchword.kernels.window_attention import triton as window_triton
from patchword.kernels.window_attention.tiling import SHARED, Rectangles, from_numbers, launch, rest_of, walk


class Call(NamedTuple):
    """All that the launches of a call follow from. A share that has no table or no filter has None for their kinds."""

    numbers: tuple[int, ...]
    heads: int
    scale: float
    shape: torch.Size  # of queries, or of queries, keys and values side by side
    strides: tuple[int, ...]
    joint: bool
    kind: torch.dtype
    tables: tuple[torch.dtype | None, ...]
    taps: tuple[torch.dtype | None, ...]  # of each share two: the taps and the constant of its filter
    device: int
    rate: float = 0.0  # of weights that are dropped


class Lying(NamedTuple):
    """The numbers that every kernel has."""

    start: int  # the first channel of a share of the heads
    beside: int  # channels from queries to keys and from keys to values; 0: they are tensors of their own
    image_stride: int
    stride: int  # from token to token
    batch: int
    heads: int
    all_heads: int


class Share:
    """What a share of the heads is told: where its tokens lie, its cut of the map, what it has."""

    def __init__(self, call: Call, number: int, cut: Rectangles, work: str) -> None:
        batch, _, held = call.shape
        shares, width = len(call.tables), held // (3 if call.joint else 1)
        channels, beside = width // shares, width if call.joint else 0
        image, token, _ = call.strides
        self.lying = Lying(number * channels, beside, image, token, batch, call.heads, call.heads * shares)
        self.cut, self.scale, self.device, self.head = cut, call.scale, call.device, channels // call.heads
        self.biased, self.local = call.tables[number] is not None, call.taps[2 * number] is not None
        self.plan = launch(work, cut.size, self.head, call.kind, shared_memory(call.device))
        self.pieces, self.rate = -(-cut.size // self.plan.tile), call.rate
        assert self.plan.whole or not self.rate, "weights are dropped of groups in one tile alone"

    @property
    def sides(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return tuple(self.cut.rows), tuple(self.cut.columns)

    @property
    def masked(self) -> bool:
        """some member may not read some other, or is not there"""
        return self.uneven or self.cut.size % self.plan.tile > 0 or self.cut.size % self.plan.met > 0

    @property
    def uneven(self) -> bool:
        """the same of a group that is not filled up to a tile"""
        return any(side.members * side.groups != side.length or side.shift for side in self.cut)

    @property
    def known(self) -> tuple[Any, ...]:
        """what a kernel knows when it is built"""
        found = *self.sides, self.head, self.biased, self.masked, self.plan.tile, self.plan.width
        return (*found, *self._drop) if self.plan.whole else (*found, self.plan.met)

    @property
    def known_by_pieces(self) -> tuple[Any, ...]:
        found = *self.sides, self.head, self.biased, self.uneven, self.plan.tile, self.plan.width, self.plan.met
        return *found, rest_of(self.cut.size, self.plan.met)

    @property
    def _drop(self) -> tuple[int, float]:
        """the lowest number of a weight that is kept, and what it is multiplied with; 0: none is dropped"""
        return (lowest_kept(self.rate), 1 / (1 - self.rate)) if self.rate else (0, 0.0)

    @property
    def filter(self) -> Filter:
        return Filter(self.cut, self.lying.batch, self.lying.heads * self.head, self.device)

    def lie(self, joint: bool) -> Lie:
        """where its channels lie in a tensor of all tokens: in the values beside queries and keys, or in the answer"""
        width = self.lying.all_heads * self.head
        start, stride = (self.lying.start + 2 * width, 3 * width) if joint else (self.lying.start, width)
        return Lie(start, self.cut.rows.length * self.cut.columns.length * stride, stride)

    @property
    def values(self) -> Lie:
        """where its values lie"""
        return Lie(self.lying.start + 2 * self.lying.beside, self.lying.image_stride, self.lying.stride)

    @property
    def options(self) -> tuple[int, int, int | None]:
        return self.plan.warps, self.plan.stages, self.plan.registers

    @property
    def grid(self) -> Grid:
        batch, heads, cut = self.lying.batch, self.lying.heads, self.cut
        if self.plan.whole:
            return heads, *walk(cut.groups, heads, batch, self.plan.waves * sm_count(self.device))
        return batch * cut.groups * heads * self.pieces, 1, 1


def shares_of(call: Call, work: str) -> list[Share]:
    return [Share(call, number, cut, work) for number, cut in enumerate(from_numbers(list(call.numbers)))]


class Forth(NamedTuple):
    """The launches of one share: main(query, key, value, table, merged, sums), then the filter over the values.

    whole: of groups in one tile, which have seeds behind them
    """

    main: PreparedLaunch
    local: PreparedLaunch | None
    whole: bool


@lru_cache(1024)
def forward(call: Call) -> tuple[Forth, ...]:
    """one for each share"""
    return tuple(_forth(share) for share in shares_of(call, "forward"))


def _forth(share: Share) -> Forth:
    whole = share.plan.whole
    kernel, known = (window_triton.whole, share.known) if whole else (window_triton.pieces, share.known_by_pieces)
    main = PreparedLaunch(kernel, share.grid, (*share.lying, share.scale, *known), *share.options)
    local = None
    if share.local:
        local = share.filter.forward(share.values, share.lie(joint=False), lifted=True, onto=True)
    return Forth(main, local, whole)


def shared_memory(device: int) -> int:
    """bytes that a program may have"""
    if device < 0:
        return SHARED
    return int(getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", 1 << 16))
