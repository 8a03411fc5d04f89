"""Cost rules of norms and scales, which have parameters but no matrix products."""

from torch import nn

from patchword.analysis.cost.expression import symbol
from patchword.analysis.cost.line import Call, Line
from patchword.layers import LayerScale, NoNorm


def norm(part: str, module: nn.LayerNorm, call: Call) -> list[Line]:
    weights = 2 * symbol("D", module.normalized_shape[0], "width")
    return [Line(part, "norm: scale and shift", "other", None, weights)]


def batch_norm(part: str, module: nn.BatchNorm2d, call: Call) -> list[Line]:
    return [Line(part, "norm: scale and shift", "other", None, 2 * symbol("D", module.num_features, "width"))]


def no_norm(part: str, module: NoNorm, call: Call) -> list[Line]:
    return [Line(part, "scale and shift", "other", None, 2 * symbol("D", len(module.weight), "width"))]


def scale(part: str, module: LayerScale, call: Call) -> list[Line]:
    return [Line(part, "layer scale", "other", None, symbol("D", len(module.factor), "width"))]
