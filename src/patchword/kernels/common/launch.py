"""Launches of Triton's kernels, prepared once for each kind of call, so that a call costs little beside them."""

from functools import cache
from typing import Any

import torch
from torch import Tensor

Grid = tuple[int, int, int]
_LOOSE = 15  # Triton builds another kernel for a tensor that does not begin at a multiple of 16 bytes


class PreparedLaunch:
    """A launch of one kernel; only its tensors change from call to call, never their kinds.

    All else that Triton builds a kernel for is known, so the kernel is looked up once, for tensors that begin where
    they should. Others go Triton's own way each time.
    """

    def __init__(
        self, kernel: Any, grid: Grid, numbers: tuple[Any, ...], warps: int, stages: int, registers: int | None = None
    ) -> None:
        self.kernel, self.grid, self.numbers = kernel, grid, numbers
        self.options: dict[str, Any] = {"num_warps": warps, "num_stages": stages}
        if registers and torch.version.hip is None:
            self.options["maxnreg"] = registers
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


def parts(width: int) -> tuple[int, int]:
    """the largest power of two that is less, and what is left"""
    first = 1 << (width - 1).bit_length() - 1
    return first, width - first


@cache
def sm_count(device: int) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device >= 0 else 1


def fills_gpu(count: int, rows: int, device: int) -> bool:
    """Whether so many tokens keep most of a GPU busy, if each processor takes some rows at a time. Twice as many are
    asked for where a launch that takes long is paid for: neither compiled nor recorded."""
    least: int = _enough(rows, device)
    free = torch.compiler.is_compiling() or torch.cuda.is_current_stream_capturing()
    return count >= (least if free else 2 * least)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]  # a compiler cannot ask a GPU how large it is
def _enough(rows: int, device: int) -> int:
    return int(0.7 * rows * sm_count(device))
