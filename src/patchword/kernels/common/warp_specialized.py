# mypy: disable-error-code="import-not-found, import-untyped"
"""What kernels have in common whose warps are groups of which each does another thing (Gluon, a part of Triton).

One warp brings a matrix piece by piece. The others are groups of four, each with rows of its own: while one computes,
another multiplies. Places in shared memory go round: whoever brings waits until all have left one, whoever takes waits
until it is filled. Only to be imported where Triton is.
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

ROWS = gl.constexpr(64)  # of a group: one instruction multiplies as many
REGISTERS = {2: 168, 3: 128}  # of a thread, by the number of groups: a processor's, shared by all that are there

# The same under the names that it has in Triton 3.6 and in later ones
barrier = gl.barrier if hasattr(gl, "barrier") else gl.thread_barrier
fetch = tma.async_load if hasattr(tma, "async_load") else tma.async_copy_global_to_shared
send = tma.async_store if hasattr(tma, "async_store") else tma.async_copy_shared_to_global


def described(matrix: Tensor, rows: int, columns: int) -> Any:
    """how the GPU finds pieces of so many rows and columns by itself; what lies beyond the matrix is 0"""
    matrix = matrix if matrix.data_ptr() % 16 == 0 else matrix.clone()  # where a GPU can fetch from
    return TensorDescriptor.from_tensor(matrix, [rows, columns], _layout(rows, columns, matrix.dtype))


@cache
def _layout(rows: int, columns: int, kind: torch.dtype) -> Any:
    known = {torch.bfloat16: gl.bfloat16, torch.float16: gl.float16}
    return gl.NVMMASharedLayout.get_default_for([rows, columns], known[kind])
