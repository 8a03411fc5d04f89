"""Launches of the kernels of windows, prepared once for each kind of call, so that a call costs little beside them.

Only to be imported where Triton is installed.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from patchword.kernels import window_triton
from patchword.kernels.window_plan import SHARED, Launch, Rectangles, from_numbers, launch, walk

Grid = tuple[int, int, int]
_LOOSE = 15  # Triton builds another kernel for a tensor that does not begin at a multiple of 16 bytes


class Call(NamedTuple):
    """All that the launches of a call follow from. A share that has no table or no taps has None for its kind."""

    numbers: tuple[int, ...]
    heads: int
    scale: float
    shape: torch.Size  # of queries, or of queries, keys and values side by side
    strides: tuple[int, ...]
    joint: bool
    kind: torch.dtype
    tables: tuple[torch.dtype | None, ...]
    taps: tuple[torch.dtype | None, ...]
    device: int


class Lying(NamedTuple):
    """The numbers that every kernel has."""

    start: int  # the first channel of a share of the heads
    beside: int  # channels from queries to keys and from keys to values; 0: they are tensors of their own
    image_stride: int
    stride: int  # from token to token
    batch: int
    heads: int
    all_heads: int


class Ready:
    """A launch of one kernel; only its tensors change from call to call.

    All else that Triton builds a kernel for follows from the Call, so the kernel is looked up once, for tensors that
    begin where they should. Others go Triton's own way each time.
    """

    def __init__(self, kernel: Any, grid: Grid, numbers: tuple[Any, ...], plan: Launch) -> None:
        self.kernel, self.grid, self.numbers = kernel, grid, numbers
        self.options: dict[str, Any] = {"num_warps": plan.warps, "num_stages": plan.stages}
        if plan.registers and torch.version.hip is None:
            self.options["maxnreg"] = plan.registers
        self.built: Any = None

    def __call__(self, *tensors: Tensor) -> None:
        loose = 0
        for tensor in tensors:
            loose |= tensor.data_ptr()
        if self.built is not None and not loose & _LOOSE:
            self.built(*tensors, *self.numbers)
            return
        run = self.kernel[self.grid]
        built = run(*tensors, *self.numbers, **self.options)
        if built is not None and not loose & _LOOSE:  # Triton's interpreter builds none
            self.built = built[self.grid]


class Share:
    """What a share of the heads is told: where its tokens lie, its cut of the map, what it has."""

    def __init__(self, call: Call, number: int, cut: Rectangles, work: str) -> None:
        batch, _, held = call.shape
        shares, width = len(call.tables), held // (3 if call.joint else 1)
        channels, beside = width // shares, width if call.joint else 0
        image, token, _ = call.strides
        self.lying = Lying(number * channels, beside, image, token, batch, call.heads, call.heads * shares)
        self.cut, self.scale, self.device, self.head = cut, call.scale, call.device, channels // call.heads
        self.biased, self.local = call.tables[number] is not None, call.taps[number] is not None
        self.plan = launch(work, cut.size, self.head, call.kind, shared_memory(call.device))
        self.pieces = -(-cut.size // self.plan.tile)

    @property
    def sides(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return tuple(self.cut.rows), tuple(self.cut.columns)

    @property
    def masked(self) -> bool:
        """some member may not read some other, or is not there"""
        divided = all(side.members * side.groups == side.length and not side.shift for side in self.cut)
        return not divided or self.cut.size % self.plan.tile > 0

    @property
    def known(self) -> tuple[Any, ...]:
        """what a kernel knows when it is built"""
        return *self.sides, self.head, self.biased, self.local, self.masked, self.plan.tile, self.plan.width

    @property
    def grid(self) -> Grid:
        batch, heads, cut = self.lying.batch, self.lying.heads, self.cut
        if self.plan.whole:
            return heads, *walk(cut.groups, heads, batch, self.plan.waves * processors(self.device))
        return batch * cut.groups * heads * self.pieces, 1, 1


def shares_of(call: Call, work: str) -> list[Share]:
    return [Share(call, number, cut, work) for number, cut in enumerate(from_numbers(list(call.numbers)))]


@lru_cache(1024)
def forward(call: Call) -> tuple[Ready, ...]:
    """one for each share"""
    launches = []
    for share in shares_of(call, "forward"):
        kernel = window_triton.whole if share.plan.whole else window_triton.pieces
        launches.append(Ready(kernel, share.grid, (*share.lying, share.scale, *share.known), share.plan))
    return tuple(launches)


def processors(device: int) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device >= 0 else 1


def shared_memory(device: int) -> int:
    """bytes that a program may have"""
    if device < 0:
        return SHARED
    return int(getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", 1 << 16))
