"""Launches of Triton kernels, prepared once per call signature, so that a call has little overhead."""

from functools import cache
from typing import Any

import torch
from torch import Tensor

from patchword.core.tracing import trace_constant

Grid = tuple[int, int, int]
_UNALIGNED = 15  # Triton compiles another kernel for tensors whose address is not a multiple of 16 bytes


class PreparedLaunch:
    """A launch of one kernel; only its tensors change from call to call, never their dtypes.

    All other arguments are fixed, so the compiled kernel for aligned tensors is looked up once. Calls with unaligned
    tensors use Triton's own lookup each time.
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
        addresses = 0
        for tensor in tensors:
            addresses |= tensor.data_ptr()
        if self.built is not None and not addresses & _UNALIGNED:
            self.built(*tensors, *self.numbers)
            return
        run = self.kernel[self.grid]
        built = run(*tensors, *self.numbers, **self.options)
        if built is not None and not addresses & _UNALIGNED:  # the interpreter returns None
            self.built = built[self.grid]


def parts(width: int) -> tuple[int, int]:
    """Splits a width into the largest power of two below it, and the rest."""
    first = 1 << (width - 1).bit_length() - 1
    return first, width - first


@cache
def sm_count(device: int) -> int:
    """Returns the number of multiprocessors of a GPU; 1 for a CPU."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device >= 0 else 1


def fills_gpu(count: int, rows: int, device: int) -> bool:
    """True if `count` tokens keep most of a GPU busy, with `rows` tokens per multiprocessor at a time.

    Outside compiled code and CUDA graphs twice as many are needed, because launches are slower there.
    """
    least: int = _enough(rows, device)
    cheap_launch = torch.compiler.is_compiling() or torch.cuda.is_current_stream_capturing()
    return count >= (least if cheap_launch else 2 * least)


@trace_constant  # the compiler cannot query a GPU
def _enough(rows: int, device: int) -> int:
    return int(0.7 * rows * sm_count(device))
