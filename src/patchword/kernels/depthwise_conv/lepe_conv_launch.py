"""Launches of depthwise 3 x 3 convolutions inside groups of tokens, or over a whole map as one group.

Import it only where Triton is installed.
"""

from typing import NamedTuple

from patchword.kernels.common.launch import PreparedLaunch, sm_count
from patchword.kernels.depthwise_conv import lepe_conv_triton as lepe_conv_triton
from patchword.kernels.depthwise_conv.lepe_conv_tuning import strips, walkers
from patchword.kernels.window_attention.tiling import Rectangles

_ENTRIES, _SOME = 64, 32


class ChannelLayout(NamedTuple):
    """The layout of the convolved channels in a tensor: the first channel, the strides of images and of tokens."""

    start: int
    image_stride: int
    stride: int


class TapsBackward(NamedTuple):
    """main: called with (source, gradient, parts). total: called with (parts, grad_taps, grad_constant)"""

    main: PreparedLaunch
    parts: tuple[int, ...]  # the shape of the partial sums of all programs
    total: PreparedLaunch


class Filter(NamedTuple):
    """A depthwise convolution inside each of the groups of a cut."""

    cut: Rectangles
    batch: int
    channels: int
    device: int

    def forward(
        self, source: ChannelLayout, output: ChannelLayout, *, has_constant: bool, accumulate: bool
    ) -> PreparedLaunch:
        """Returns a launch that is called with (source, taps, constant, addend, output).

        The images of the output are contiguous; the addend has the layout of the output.
        """
        return self._run(source, output, 1, has_constant, accumulate)

    def backward(self, gradient: ChannelLayout, output: ChannelLayout, *, accumulate: bool) -> PreparedLaunch:
        """Returns the same for the gradient of the source, from that of the output."""
        return self._run(gradient, output, -1, False, accumulate)

    def taps(self, source: ChannelLayout, gradient: ChannelLayout) -> TapsBackward:
        plan = walkers(self._lanes, self.channels, sm_count(self.device))
        numbers = (*source, *gradient, self.batch, *self._sides, self.channels, plan.tile, plan.block)
        main = PreparedLaunch(lepe_conv_triton.taps_backward, plan.grid, numbers, plan.warps, 1)
        entries, parts = 10 * self.channels, plan.grid[0]
        grid, sizes = (-(-entries // _ENTRIES), 1, 1), (parts, self.channels, _SOME, _ENTRIES)
        return TapsBackward(main, (parts, entries), PreparedLaunch(lepe_conv_triton.reduce_taps, grid, sizes, 4, 1))

    def _run(
        self, source: ChannelLayout, output: ChannelLayout, direction: int, has_constant: bool, accumulate: bool
    ) -> PreparedLaunch:
        plan = strips(self._lanes, self.cut.rows.members, self.channels, sm_count(self.device))
        layout = (*source, output.start, output.stride, self.batch, plan.span)
        constants = (*self._sides, self.channels, direction, has_constant, accumulate, plan.tile, plan.block)
        return PreparedLaunch(lepe_conv_triton.conv3x3, plan.grid, (*layout, *constants), plan.warps, 1, plan.registers)

    @property
    def _sides(self) -> tuple[tuple[int, ...], ...]:
        """Compile-time constants: length, members, groups, is_interlaced and shift of both sides of the map."""
        return tuple((*side[:3], int(side.is_interlaced), side.shift) for side in self.cut)

    @property
    def _lanes(self) -> int:
        return self.batch * self.cut.groups * self.cut.columns.members
