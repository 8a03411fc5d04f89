"""Cost rules of the heads of detectors: per anchor on each level of the pyramid, or per box."""

from torch import nn

from patchword.analysis.cost.expression import Expression, symbol
from patchword.analysis.cost.line import Call, Line
from patchword.layers.dense.backbones import FixedBatchNorm2d
from patchword.layers.dense.dense_head import DenseHead
from patchword.layers.dense.points.bifpn import Combination
from patchword.layers.dense.points.reppoints_head import DeformableConv
from patchword.layers.dense.queries.dynamic_conv import DynamicConv
from patchword.layers.dense.queries.sparse_detector import SparseDetector

_OUTPUTS = {"class_output": "class scores", "box_output": "box deltas", "centerness_output": "centerness"}
_OTHERS = {"upsample": "upsampling", "output": "mask of each class"}


def fixed_batch_norm(part: str, module: FixedBatchNorm2d, call: Call) -> list[Line]:
    """The scale and the shift are parameters, or buffers."""
    if not any(True for _ in module.parameters()):
        return []
    return [Line(part, "norm: scale and shift", "other", None, 2 * symbol("D", module.num_features, "width"))]


def group_norm(part: str, module: nn.GroupNorm, call: Call) -> list[Line]:
    return [Line(part, "norm: scale and shift", "other", None, 2 * symbol("D", module.num_channels, "width"))]


def transposed(part: str, module: nn.ConvTranspose2d, call: Call) -> list[Line]:
    """Each input cell is multiplied with the whole kernel."""
    count, _, rows, columns = call.arguments[0].shape
    places = symbol("H", rows, "rows") * symbol("W", columns, "columns")
    return [_convolution(part, module, "transposed convolution", places if count == 1 else boxes(count) * places)]


def boxes(count: int) -> Expression:
    return symbol("B", count, "boxes per image")


def box_convolution(part: str, module: nn.Conv2d, call: Call) -> list[Line]:
    """A convolution over the features of each box."""
    count, _, rows, columns = call.answer.shape
    places = boxes(count) * symbol("H", rows, "rows") * symbol("W", columns, "columns")
    return [_convolution(part, module, _OTHERS.get(part.rpartition(".")[2], "convolution"), places)]


def box_linear(part: str, module: nn.Linear, call: Call) -> list[Line]:
    """A linear layer that is applied to each box."""
    inputs, outputs = symbol("I", module.in_features, "inputs"), symbol("O", module.out_features, "outputs")
    count = boxes(call.answer.numel() // module.out_features)
    label = _OUTPUTS.get(part.rpartition(".")[2], "linear layer")
    return [Line(part, label, "linear", count * inputs * outputs, inputs * outputs + outputs)]


def level_convolution(part: str, module: nn.Conv2d, call: Call, head: DenseHead, per_cell: int) -> Line:
    """A convolution of a dense head on one level; its outputs belong to the anchors of a cell."""
    _, _, rows, columns = call.answer.shape
    places = symbol("H", rows, "rows") * symbol("W", columns, "columns")
    name = part.rpartition(".")[2]
    values = {"class_output": head.classes, "box_output": 4}.get(name, 1)
    if name not in _OUTPUTS:
        return _convolution(part, module, "convolution", places)
    outputs = symbol("A", per_cell, "anchors per cell")
    if name == "class_output" and values > 1:
        outputs = outputs * symbol("K", values, "classes")
    elif values > 1:
        outputs = outputs * values
    return _convolution(part, module, _OUTPUTS[name], places, outputs)


def level_scales(part: str, head: DenseHead) -> list[Line]:
    if head.scales is None:
        return []
    weights = symbol("L", len(head.scales), "levels")
    return [Line(part, "scale of the deltas of each level", "other", None, weights)]


def _convolution(
    part: str, module: nn.Conv2d | nn.ConvTranspose2d, label: str, places: Expression, outputs: Expression | None = None
) -> Line:
    height, width = module.kernel_size
    inputs = symbol("I", module.in_channels // module.groups, "inputs per output") * height * width
    out = outputs or symbol("O", module.out_channels, "outputs")
    weights = inputs * out + out if module.bias is not None else inputs * out
    return Line(part, f"{label}, {height} x {width}", "convolution", places * inputs * out, weights)


def deformable(part: str, module: DeformableConv, call: Call) -> list[Line]:
    """The products of a 3x3 convolution; reading between cells is not counted."""
    outputs, inputs, height, width = module.weight.shape
    _, _, rows, columns = call.answer.shape
    places = symbol("H", rows, "rows") * symbol("W", columns, "columns")
    weights = symbol("I", inputs, "inputs per output") * height * width * symbol("O", outputs, "outputs")
    return [Line(part, f"deformable convolution {height} x {width}", "convolution", places * weights, weights)]


def combination(part: str, module: Combination, call: Call) -> list[Line]:
    """The weights of the maps that are added."""
    return [Line(part, "weights of the maps", "other", None, symbol("n", module.weights.numel(), "maps"))]


def dynamic(part: str, module: DynamicConv, call: Call) -> list[Line]:
    """Two products of the features of each box with the matrices that its query makes."""
    count, cells, _ = call.arguments[1].memory.shape
    width, inner = symbol("D", module.width, "width"), symbol("E", module.inner, "inner width")
    product = boxes(count) * symbol("c", cells, "cells per box") * width * inner
    return [Line(part, f"dynamic convolution, {which}", "convolution", product, None) for which in ("first", "second")]


def learned_boxes(part: str, module: SparseDetector, call: Call) -> list[Line]:
    count, width = module.queries.shape
    each = symbol("Q", count, "queries")
    return [
        Line("boxes", "learned boxes", "other", None, 4 * each),
        Line("queries", "learned queries", "other", None, each * symbol("D", width, "width")),
    ]
