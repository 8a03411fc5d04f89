"""Cost rules of the heads of detectors: per anchor on each level of the pyramid, or per box."""

from torch import nn

from patchword.analysis.cost.expression import Expression, symbol
from patchword.analysis.cost.line import Call, Line
from patchword.layers.dense.backbones import FixedBatchNorm2d
from patchword.layers.dense.dense_head import DenseHead

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
