# mypy: disable-error-code="import-not-found, import-untyped"
"""Shared by warp-specialised kernels (in Gluon, a part of Triton).

One producer warp loads tiles of a matrix. The consumers are groups of four warps, each with its own rows: while one
group computes, another multiplies. Tiles are in a ring buffer in shared memory: the producer waits until all consumers
have released a slot, a consumer waits until it is filled. Import it only where Triton is installed.
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

ROWS = gl.constexpr(64)  # per group of warps: the rows of one matrix instruction
REGISTERS = {2: 168, 3: 128}  # per thread, by the number of groups that share the registers of a multiprocessor

# The names in Triton 3.6 and in later versions
barrier = gl.barrier if hasattr(gl, "barrier") else gl.thread_barrier
fetch = tma.async_load if hasattr(tma, "async_load") else tma.async_copy_global_to_shared
send = tma.async_store if hasattr(tma, "async_store") else tma.async_copy_shared_to_global


def described(matrix: Tensor, rows: int, columns: int) -> Any:
    """Returns a TMA descriptor for tiles of `rows` x `columns`; elements outside the matrix are 0."""
    matrix = matrix if matrix.data_ptr() % 16 == 0 else matrix.clone()  # TMA needs aligned addresses
    return TensorDescriptor.from_tensor(matrix, [rows, columns], _layout(rows, columns, matrix.dtype))


@cache
def _layout(rows: int, columns: int, dtype: torch.dtype) -> Any:
    known = {torch.bfloat16: gl.bfloat16, torch.float16: gl.float16}
    return gl.NVMMASharedLayout.get_default_for([rows, columns], known[dtype])
