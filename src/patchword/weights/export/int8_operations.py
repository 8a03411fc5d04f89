"""The operations of int8 models: their computation, and their translation to ONNX operators."""

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor

from patchword.layers.quantize import LARGEST


@torch.library.custom_op("patchword::int8_product", mutates_args=())
def int8_product(tokens: Tensor, weight: Tensor, scales: Tensor, step: Tensor | None) -> Tensor:
    """Multiply (..., inputs) by int8 (inputs, outputs) -> (..., outputs) float32.

    scales: (outputs,) of the weights. step: () step size of the inputs; None: computed in each call.
    """
    return _product(tokens, weight.double(), step) * scales


@int8_product.register_fake
def _(tokens: Tensor, weight: Tensor, scales: Tensor, step: Tensor | None) -> Tensor:
    return tokens.new_empty(*tokens.shape[:-1], weight.shape[1])


@torch.library.custom_op("patchword::int8_tied", mutates_args=())
def int8_tied(tokens: Tensor, table: Tensor, scales: Tensor, step: Tensor | None) -> Tensor:
    """Multiply by the transpose of an int8 table (rows, inputs), which is shared with the embedding."""
    return _product(tokens, table.double().T, step) * scales


@int8_tied.register_fake
def _(tokens: Tensor, table: Tensor, scales: Tensor, step: Tensor | None) -> Tensor:
    return tokens.new_empty(*tokens.shape[:-1], table.shape[0])


@torch.library.custom_op("patchword::int8_rows", mutates_args=())
def int8_rows(ids: Tensor, table: Tensor, scales: Tensor) -> Tensor:
    """Look up ids in an int8 table -> (..., width) float32. scales: (rows,)."""
    return table[ids].float() * scales[ids][..., None]


@int8_rows.register_fake
def _(ids: Tensor, table: Tensor, scales: Tensor) -> Tensor:
    return scales.new_empty(*ids.shape, table.shape[1])


def _product(tokens: Tensor, weight: Tensor, step: Tensor | None) -> Tensor:
    """Quantise and multiply in float64, which represents every sum of 32-bit integers exactly."""
    if step is not None:
        return ((tokens / step).round().clamp(-LARGEST - 1, LARGEST).double() @ weight).float() * step
    low, high = tokens.amin().clamp(max=0), tokens.amax().clamp(min=0)
    step = torch.where(high > low, (high - low) / 255, 1.0)
    zero = (-low / step).round().clamp(0, 255)
    whole = ((tokens / step).round() + zero).clamp(0, 255)
    return ((whole - zero).double() @ weight).float() * step


def translations() -> dict[Any, Callable[..., Any]]:
    """Return the translation of each operation to ONNX operators."""
    from onnxscript import opset20

    op: Any = opset20  # its types do not accept intermediate values

    def whole(tokens: Any, step: Any) -> tuple[Any, Any, Any]:
        """Return the quantised inputs, their step size and zero point."""
        if step is None:
            return cast(tuple[Any, Any, Any], op.DynamicQuantizeLinear(tokens))
        return op.QuantizeLinear(tokens, step, _zero(op)), step, None

    def product(tokens: Any, weight: Any, scales: Any, step: Any = None) -> Any:
        integers, worth, zero = whole(tokens, step)
        summed = op.MatMulInteger(integers, weight, zero) if zero is not None else op.MatMulInteger(integers, weight)
        return op.Mul(op.Cast(summed, to=_FLOAT), op.Mul(worth, scales))

    def tied(tokens: Any, table: Any, scales: Any, step: Any = None) -> Any:
        integers, worth, zero = whole(tokens, step)
        shape = op.Concat(op.Slice(op.Shape(tokens), _at(op, 0), _at(op, -1)), _at(op, -1), axis=0)
        rows = op.Flatten(integers, axis=-1)
        turned = op.Transpose(rows, perm=[1, 0])
        summed = op.MatMulInteger(table, turned) if zero is None else op.MatMulInteger(table, turned, None, zero)
        back = op.Transpose(op.Cast(summed, to=_FLOAT), perm=[1, 0])
        return op.Reshape(op.Mul(back, op.Mul(worth, scales)), shape)

    def rows(ids: Any, table: Any, scales: Any) -> Any:
        worth = op.Unsqueeze(op.Gather(scales, ids), _at(op, -1))
        return op.Mul(op.Cast(op.Gather(table, ids), to=_FLOAT), worth)

    operations = torch.ops.patchword
    return {
        operations.int8_product.default: product,
        operations.int8_tied.default: tied,
        operations.int8_rows.default: rows,
    }


_FLOAT, _INT8 = 1, 3  # ONNX's ids of these types


def _zero(op: Any) -> Any:
    return op.Cast(op.Constant(value_int=0), to=_INT8)


def _at(op: Any, place: int) -> Any:
    return op.Constant(value_ints=[place])
