"""Launches of the window attention kernels, prepared once per call signature, so that a call has little overhead.

Import it only where Triton is installed.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import torch

from patchword.kernels.common.counter_rng import lowest_kept
from patchword.kernels.common.launch import Grid, PreparedLaunch, sm_count
from patchword.kernels.depthwise_conv.lepe_conv_launch import ChannelLayout, Filter
from patchword.kernels.window_attention import triton as window_triton
from patchword.kernels.window_attention.tiling import Rectangles, from_numbers
from patchword.kernels.window_attention.tuning import SHARED_MEMORY, last_key_block, launch, walk


class Call(NamedTuple):
    """The signature of a call: all that its launches depend on. A missing table or convolution has the dtype None."""

    numbers: tuple[int, ...]
    heads: int
    scale: float
    shape: torch.Size  # of the queries, or of the fused queries, keys and values
    strides: tuple[int, ...]
    joint: bool
    dtype: torch.dtype
    tables: tuple[torch.dtype | None, ...]
    taps: tuple[torch.dtype | None, ...]  # two per head group: weight and bias of its convolution
    device: int
    rate: float = 0.0  # of dropout


class Layout(NamedTuple):
    """Integer arguments of every kernel."""

    start: int  # the first channel of a head group
    qkv_step: int  # channels from queries to keys and from keys to values; 0 if they are separate tensors
    image_stride: int
    stride: int  # from token to token
    output_stride: int
    batch: int
    heads: int
    all_heads: int


class HeadGroupLaunch:
    """The arguments of the launches of one head group."""

    def __init__(self, call: Call, number: int, cut: Rectangles, work: str) -> None:
        batch, _, qkv = call.shape
        groups, width = len(call.tables), qkv // (3 if call.joint else 1)
        channels, qkv_step = width // groups, width if call.joint else 0
        image, token, _ = call.strides
        strides = qkv_step, image, token, width
        self.layout = Layout(number * channels, *strides, batch, call.heads, call.heads * groups)
        self.cut, self.scale, self.device, self.head = cut, call.scale, call.device, channels // call.heads
        self.has_bias, self.local = call.tables[number] is not None, call.taps[2 * number] is not None
        self.plan = launch(work, cut.size, self.head, call.dtype, shared_memory(call.device))
        self.tiles, self.rate = -(-cut.size // self.plan.tile), call.rate
        assert self.plan.single_tile or not self.rate, "dropout is only supported for groups in one tile"

    @property
    def pads_tile(self) -> bool:
        """True if some members of a tile are beyond the size of a group; a constant of every kernel but `tiled`."""
        return self.cut.size % self.plan.tile > 0 or self.cut.size % self.plan.key_block > 0

    @property
    def sides(self) -> tuple[tuple[int, ...], ...]:
        """Compile-time constants of both sides of the map.

        In a single tile, positions of members are computed once per group, and a table needs them anyway. If the tile
        has padding, too, the check for the end of the map costs little, and all maps share a kernel.
        """
        return self.cut.constants(check_padding=self.plan.single_tile and self.has_bias and self.pads_tile)

    @property
    def arguments(self) -> tuple[float, ...]:
        """Run-time numbers of every kernel."""
        return *self.layout, *self.cut.sizes, self.scale

    @property
    def constants(self) -> tuple[Any, ...]:
        """Compile-time constants of every kernel but `tiled`."""
        found = *self.sides, self.head, self.has_bias, self.pads_tile, self.plan.tile, self.plan.width
        return (*found, *self._dropout) if self.plan.single_tile else (*found, self.plan.key_block)

    @property
    def tiled_constants(self) -> tuple[Any, ...]:
        """Compile-time constants of `tiled`."""
        plan, blocks = self.plan, (self.plan.key_block, last_key_block(self.cut.size, self.plan.key_block))
        return *self.sides, self.head, self.has_bias, plan.tile, plan.width, *blocks

    @property
    def _dropout(self) -> tuple[int, float]:
        """Returns the lowest random number of a weight that is kept, and its scale; a scale of 0 disables dropout."""
        return (lowest_kept(self.rate), 1 / (1 - self.rate)) if self.rate else (0, 0.0)

    @property
    def filter(self) -> Filter:
        """The convolution of the values (LePE)."""
        return Filter(self.cut, self.layout.batch, self.layout.heads * self.head, self.device)

    def channel_layout(self, joint: bool) -> ChannelLayout:
        """Returns the layout of its channels in the values of a fused qkv tensor (joint), or in the output."""
        width = self.layout.all_heads * self.head
        start, stride = (self.layout.start + 2 * width, 3 * width) if joint else (self.layout.start, width)
        return ChannelLayout(start, self.cut.rows.length * self.cut.columns.length * stride, stride)

    @property
    def values(self) -> ChannelLayout:
        """The layout of its values."""
        return ChannelLayout(self.layout.start + 2 * self.layout.qkv_step, self.layout.image_stride, self.layout.stride)

    @property
    def options(self) -> tuple[int, int, int | None]:
        return self.plan.warps, self.plan.stages, self.plan.registers

    @property
    def grid(self) -> Grid:
        batch, heads, cut = self.layout.batch, self.layout.heads, self.cut
        if self.plan.single_tile:
            return heads, *walk(cut.groups, heads, batch, self.plan.waves * sm_count(self.device))
        return batch * cut.groups * heads * self.tiles, 1, 1


def head_group_launches(call: Call, work: str) -> list[HeadGroupLaunch]:
    return [HeadGroupLaunch(call, number, cut, work) for number, cut in enumerate(from_numbers(list(call.numbers)))]


class ForwardLaunches(NamedTuple):
    """The launches of one head group.

    main: called with (query, key, value, table, output, logsumexp), and with seeds if `single_tile`
    local: the convolution of the values, added to the output
    """

    main: PreparedLaunch
    local: PreparedLaunch | None
    single_tile: bool


@lru_cache(1024)
def forward(call: Call) -> tuple[ForwardLaunches, ...]:
    """Returns the launches of each head group."""
    return tuple(_forward_launches(group) for group in head_group_launches(call, "forward"))


def _forward_launches(group: HeadGroupLaunch) -> ForwardLaunches:
    single_tile = group.plan.single_tile
    kernel, constants = window_triton.tiled, group.tiled_constants
    if single_tile:
        kernel, constants = window_triton.single_tile, group.constants
    main = PreparedLaunch(kernel, group.grid, (*group.arguments, *constants), *group.options)
    local = None
    if group.local:
        local = group.filter.forward(
            group.values, group.channel_layout(joint=False), has_constant=True, accumulate=True
        )
    return ForwardLaunches(main, local, single_tile)


def shared_memory(device: int) -> int:
    """Returns the bytes of shared memory that a program may use."""
    if device < 0:
        return SHARED_MEMORY
    return int(getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", 1 << 16))
