"""The launches of filters of 3 x 3 over groups or over a whole map, prepared once for each kind of call.

Only to be imported where Triton is installed.
"""

from typing import NamedTuple

from patchword.kernels.common.launch import PreparedLaunch, sm_count
from patchword.kernels.depthwise_conv import lepe_conv_triton as window_local
from patchword.kernels.depthwise_conv.lepe_conv_tuning import strips, walkers
from patchword.kernels.window_attention.tiling import Rectangles

_ENTRIES, _SOME = 64, 32


class Lie(NamedTuple):
    """Where the channels of a filter lie in a tensor: the first of them, and the ways from image to image and from
    token to token."""

    start: int
    image_stride: int
    stride: int


class ForTaps(NamedTuple):
    """main(source, gradient, parts), total(parts, to_taps, to_constant)"""

    main: PreparedLaunch
    parts: tuple[int, ...]  # the shape of the sums of all programs
    total: PreparedLaunch


class Filter(NamedTuple):
    """A filter in each of the groups of a cut."""

    cut: Rectangles
    batch: int
    channels: int
    device: int

    def forward(self, source: Lie, answer: Lie, *, lifted: bool, onto: bool) -> PreparedLaunch:
        """run(source, taps, constant, plus, answer). The answer lies image by image; `plus` lies as the answer."""
        return self._run(source, answer, 1, lifted, onto)

    def backward(self, gradient: Lie, answer: Lie, *, onto: bool) -> PreparedLaunch:
        """the same from the gradient of the answer to that of the source"""
        return self._run(gradient, answer, -1, False, onto)

    def taps(self, source: Lie, gradient: Lie) -> ForTaps:
        plan = walkers(self._lanes, self.channels, sm_count(self.device))
        numbers = (*source, *gradient, self.batch, *self._sides, self.channels, plan.tile, plan.block)
        main = PreparedLaunch(window_local.taps_back, plan.grid, numbers, plan.warps, 1)
        entries, parts = 10 * self.channels, plan.grid[0]
        grid, folded = (-(-entries // _ENTRIES), 1, 1), (parts, self.channels, _SOME, _ENTRIES)
        return ForTaps(main, (parts, entries), PreparedLaunch(window_local.total_of, grid, folded, 4, 1))

    def _run(self, source: Lie, answer: Lie, way: int, lifted: bool, onto: bool) -> PreparedLaunch:
        plan = strips(self._lanes, self.cut.rows.members, self.channels, sm_count(self.device))
        lying = (*source, answer.start, answer.stride, self.batch, plan.span)
        known = (*self._sides, self.channels, way, lifted, onto, plan.tile, plan.block)
        return PreparedLaunch(window_local.filtered, plan.grid, (*lying, *known), plan.warps, 1, plan.registers)

    @property
    def _lanes(self) -> int:
        return self.batch * self.cut.groups * self.cut.columns.members

    @property
    def _sides(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return tuple(self.cut.rows), tuple(self.cut.columns)
