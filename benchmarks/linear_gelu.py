# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
"""The launch settings of `linear_gelu` that `python benchmarks/fused_mlp.py` times against cuBLAS with a separate GELU.

The kernel is a matmul with bias and GELU in its epilogue, for feed-forwards that are too wide for `fused_mlp`.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from patchword.kernels.mlp.gelu_triton import activation
from patchword.kernels.mlp.linear_gelu_triton import linear_gelu_kernel


class Choice(NamedTuple):
    rows: int
    columns: int
    depth: int
    warps: int
    stages: int


CHOICES = (
    Choice(128, 256, 64, 8, 3),
    Choice(128, 128, 64, 8, 3),
    Choice(128, 256, 64, 8, 4),
    Choice(256, 128, 64, 8, 3),
)


@triton.jit
def _apply(points, answer, count, tile: tl.constexpr):
    place = tl.program_id(0) * tile + tl.arange(0, tile)
    x = tl.load(points + place, mask=place < count, other=0.0)
    tl.store(answer + place, activation(x, "gelu"), mask=place < count)


def gelu_of(points: Tensor) -> Tensor:
    answer = torch.empty_like(points)
    _apply[(triton.cdiv(len(points), 1024),)](points, answer, len(points), 1024)
    return answer


def linear_gelu(tokens: Tensor, up: Tensor, bias: Tensor, choice: Choice) -> Tensor:
    (count, width), hidden = tokens.shape, len(up)
    answer = tokens.new_empty(count, hidden)
    programs = triton.cdiv(count, choice.rows) * (hidden // choice.columns)
    given = (tokens, up, bias, answer, count, width, hidden, *choice[:3], "gelu")
    linear_gelu_kernel[(programs,)](*given, num_warps=choice.warps, num_stages=choice.stages)
    return answer
