"""Queries, keys and values of separable projections, for inference: each has a depthwise 3 x 3 convolution, a norm
and a matrix.

One kernel (triton.py) runs the three convolutions, each with its norm folded in; then cuBLAS runs the three products on
parallel streams. Products in float32 are left to the reference.
"""

from collections.abc import Sequence
from threading import local

import torch
from torch import Tensor

from patchword.kernels.common.availability import SelfTest, TestInputs, can_fuse, is_hopper, is_usable, short_dtype
from patchword.kernels.common.launch import fills_gpu
from patchword.kernels.common.register_op import register_op
from patchword.kernels.depthwise_conv.reference import SeparableWeights, separable_qkv_reference
from patchword.kernels.depthwise_conv.tuning import is_known, launch

_KEPT = local()


def has_separable_qkv_kernel(tokens: Tensor, parts: Sequence[SeparableWeights]) -> bool:
    """True on a Hopper GPU with Triton, for 16-bit tokens of a supported width, if no gradient is needed."""
    if not can_fuse(tokens, parts[0].matrix, *[tensor for part in parts for tensor in part]):
        return False
    return _fits(tokens.shape[-1], parts) and is_hopper(tokens.device.index) and is_usable(tokens, SELF_TEST)


def _fits(width: int, parts: Sequence[SeparableWeights]) -> bool:
    """All three have the same dtypes, since one kernel reads them."""
    dtypes = {tuple([tensor.dtype for tensor in part]) for part in parts}
    square = all(part.matrix.shape == (width, width) for part in parts)
    return is_known(width) and square and len(dtypes) == 1 and len(parts) == 3


def separable_qkv(
    tokens: Tensor, parts: Sequence[SeparableWeights], eps: float, height: int, map_width: int
) -> list[Tensor]:
    """(batch, height * map_width, width) -> queries, keys and values. parts: the weights of each"""
    dtype = short_dtype(tokens, parts[0].matrix)
    filtered = _run_filters(tokens.to(dtype), *(list(part[:5]) for part in parts), eps, height, map_width)
    return list(_run_products(filtered, *([part.matrix.to(dtype), part.bias.to(dtype)] for part in parts)).unbind(0))


def _filters(
    tokens: Tensor, query: list[Tensor], key: list[Tensor], value: list[Tensor], eps: float, height: int, map_width: int
) -> Tensor:
    from patchword.kernels.depthwise_conv.triton import conv_three_filters

    tokens, width = tokens.contiguous(), tokens.shape[-1]
    output, count = _shape_of_three(tokens), tokens.numel() // width
    plan, programs, warps = launch(len(tokens), height, map_width, width)
    if programs:
        with torch.cuda.device_of(tokens):
            given = tokens, _table(query, key, value, eps, width), output, count, height, map_width, width
            conv_three_filters[(programs,)](*given, *plan, num_warps=warps)
    return output


def _products(filtered: Tensor, query: list[Tensor], key: list[Tensor], value: list[Tensor]) -> Tensor:
    """On parallel streams: each product by itself leaves a part of the GPU idle at its start and at its end."""
    width, device = filtered.shape[-1], filtered.device
    output = torch.empty_like(filtered, memory_format=torch.contiguous_format)
    pairs = list(zip(filtered.reshape(3, -1, width), output.view(3, -1, width), strict=True))
    many = filtered.is_cuda and fills_gpu(len(pairs[0][0]), 128, filtered.get_device())
    sides = _streams(filtered.get_device()) if many else []
    for side in sides:
        side.wait_stream(torch.cuda.current_stream(device))
    for number, (matrix, bias) in enumerate((query, key, value)):
        given, found = pairs[number]
        with torch.cuda.stream(sides[number - 1] if sides and number else None):
            torch.addmm(bias, given, matrix.t(), out=found)
    for side in sides:
        torch.cuda.current_stream(device).wait_stream(side)
    return output


def _streams(device: int) -> list[torch.cuda.Stream]:
    """Returns two streams besides the current one. Each thread has its own, because a CUDA graph may capture them."""
    if device not in _KEPT.__dict__.setdefault("streams", {}):
        _KEPT.streams[device] = [torch.cuda.Stream(device) for _ in range(2)]
    found: list[torch.cuda.Stream] = _KEPT.streams[device]
    return found


def _table(query: list[Tensor], key: list[Tensor], value: list[Tensor], eps: float, width: int) -> Tensor:
    """Returns the taps of the three convolutions, with their norms folded in."""
    from patchword.kernels.depthwise_conv.separable_qkv_triton import fold_norms

    table = query[0].new_empty((3, 10, width), dtype=torch.float32)
    parts = [tensor.contiguous() for part in (query, key, value) for tensor in part[:5]]
    fold_norms[(width // 32, 3)](*parts, table, eps, width, 32, num_warps=1)
    return table


def _shape_of_three(tokens: Tensor, *others: object) -> Tensor:
    return tokens.new_empty(3, *tokens.shape)


_GIVEN = "Tensor tokens, Tensor[] query, Tensor[] key, Tensor[] value, float eps, SymInt height, SymInt map_width"
_run_filters = register_op("separable_filters", _GIVEN, _filters, _shape_of_three)
_PAIRS = "Tensor filtered, Tensor[] query, Tensor[] key, Tensor[] value"
_run_products = register_op(
    "separable_products", _PAIRS, _products, lambda filtered, *others: torch.empty_like(filtered)
)


def matches_reference(device: torch.device, dtype: torch.dtype = torch.bfloat16) -> bool:
    """True if the kernel agrees with the reference: one strip and two, lanes of one column and of two, both blocks."""
    return _matches_reference_at(device, dtype, 96, 5, 7) and _matches_reference_at(device, dtype, 64, 10, 6)


@torch.no_grad()
def _matches_reference_at(device: torch.device, dtype: torch.dtype, width: int, height: int, map_width: int) -> bool:
    """True if each of the three outputs agrees with the reference in float32."""
    wave = TestInputs(device, dtype)

    def part(by: float) -> SeparableWeights:
        rest = 1 + wave(width, size=0.3, by=by), wave(width), wave(width, by=by), 1.5 + wave(width, by=by)
        return SeparableWeights(
            wave(width, 1, 3, 3, by=by), *rest, wave(width, width, size=width**-0.5, by=by), wave(width)
        )

    tokens, parts = wave(3, height * map_width, width), [part(by) for by in (1.0, 1.3, 1.7)]
    with torch.autocast(device.type, enabled=False):
        found = torch.cat(separable_qkv(tokens, parts, 1e-5, height, map_width), -1).float()
        exact = [SeparableWeights(*(tensor.float() for tensor in part)) for part in parts]
        expected = separable_qkv_reference(tokens.float(), exact, 1e-5, height, map_width)
    pairs = zip(found.chunk(3, -1), expected.chunk(3, -1), strict=True)
    return all(bool((one - other).norm() < 1e-2 * other.norm()) for one, other in pairs)


SELF_TEST = SelfTest("separable_qkv", matches_reference, on=is_hopper)
