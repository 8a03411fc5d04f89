"""One rule a part: what it multiplies and what it holds, as formulas. A part without a rule is an error, not a zero."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn

from patchword.analysis.cost.expression import Expression, symbol
from patchword.core.grid import Grid
from patchword.layers import (
    DropPath,
    Gelu,
    LayerScale,
    LearnedPositions,
    LinearProjection,
    NoPositions,
    NoPrefix,
    PatchEmbed,
    Position,
    Prefix,
    ScaledDotProduct,
    SinusoidalPositions,
)
from patchword.layers.attention.core import Pattern
from patchword.layers.attention.partition import members
from patchword.layers.attention.projection import Projected

Kind = Literal["linear", "attention", "convolution", "other"]


@dataclass(frozen=True)
class Line:
    """One product or one set of weights of a part."""

    part: str
    label: str
    kind: Kind
    macs: Expression | None
    parameters: Expression | None


@dataclass(frozen=True)
class Call:
    """What a part was given and what it answered, for one image."""

    arguments: Sequence[Any]
    answer: Any


# What the linear layers of our parts are called, and the letters of their input and output widths.
_LINEAR = {
    "output": ("output projection", ("D", "width"), ("D", "width")),
    "up": ("feed-forward, up", ("D", "width"), ("F", "hidden width")),
    "down": ("feed-forward, down", ("F", "hidden width"), ("D", "width")),
    "linear": ("class head", ("D", "width"), ("K", "classes")),
    "distilled": ("distillation head", ("D", "width"), ("K", "classes")),
}


def linear(part: str, module: nn.Linear, call: Call) -> list[Line]:
    name = part.rsplit(".", 1)[-1]
    label, inner, outer = _LINEAR.get(name, (name, ("I", "inputs"), ("O", "outputs")))
    wide, high = symbol(inner[0], module.in_features, inner[1]), symbol(outer[0], module.out_features, outer[1])
    rows = call.answer.numel() // module.out_features
    macs = wide * high if rows == 1 else symbol("N", rows, "tokens") * wide * high
    weights = wide * high + high if module.bias is not None else wide * high
    return [Line(part, label, "linear", macs, weights)]


def projection(part: str, module: LinearProjection, call: Call) -> list[Line]:
    width = symbol("D", module.joint.in_features, "width")
    tokens = symbol("N", call.arguments[0].shape[1], "tokens")
    each = width * width + width if module.joint.bias is not None else width * width
    return [Line(part, "query, key, value", "linear", 3 * tokens * width * width, 3 * each)]


def attention(part: str, module: ScaledDotProduct, call: Call) -> list[Line]:
    projected, pattern, grid = call.arguments
    assert isinstance(projected, Projected), "the core is called with the projection's answer"
    assert isinstance(pattern, Pattern), "the core is called with a pattern"
    groups, queries = _group_sizes(pattern, projected.query, grid)
    _, keys = _group_sizes(pattern, projected.key, projected.key_grid)
    heads = symbol("h", module.heads, "heads")
    head = symbol("d", projected.query.shape[-1] // module.heads, "width of a head, D / h")
    rows = symbol("N", queries, "tokens" if groups == 1 else "tokens of a group")
    columns = rows if keys == queries else symbol("M", keys, "keys")
    product = heads * rows * columns * head
    product = product if groups == 1 else symbol("G", groups, "groups") * product
    return [
        Line(part, "query x key", "attention", product, None),
        Line(part, "weights x value", "attention", product, None),
    ]


def _group_sizes(pattern: Pattern, tokens: Tensor, grid: Grid | None) -> tuple[int, int]:
    groups, size = members(pattern.partition, tokens.shape[1], grid).shape
    return groups, size


def patches(part: str, module: PatchEmbed, call: Call) -> list[Line]:
    count = symbol("n", call.answer[0].shape[1], "patches")
    channels, patch = symbol("C", module.channels, "channels"), symbol("P", module.patch, "side of a patch")
    width = symbol("D", len(module.weight), "width")
    inputs = channels * patch * patch
    return [Line(part, "patch embedding", "convolution", count * inputs * width, inputs * width + width)]


def convolution(part: str, module: nn.Conv2d, call: Call) -> list[Line]:
    height, width = module.kernel_size
    _, outputs, rows, columns = call.answer.shape
    places = symbol("H", rows, "rows") * symbol("W", columns, "columns")
    inputs = symbol("I", module.in_channels // module.groups, "inputs of an output") * height * width
    out = symbol("O", outputs, "outputs")
    weights = inputs * out + out if module.bias is not None else inputs * out
    return [Line(part, part.rsplit(".", 1)[-1], "convolution", places * inputs * out, weights)]


def norm(part: str, module: nn.LayerNorm, call: Call) -> list[Line]:
    weights = 2 * symbol("D", module.normalized_shape[0], "width")
    return [Line(part, "norm: scale and shift", "other", None, weights)]


def leading(part: str, module: Prefix, call: Call) -> list[Line]:
    _, count, width = module.tokens.shape
    wide = symbol("D", width, "width")
    return [Line(part, "leading tokens", "other", None, wide if count == 1 else count * wide)]


def positions(part: str, module: LearnedPositions, call: Call) -> list[Line]:
    _, count, width = module.table.shape
    return [Line(part, "positions", "other", None, symbol("N", count, "tokens") * symbol("D", width, "width"))]


def scale(part: str, module: LayerScale, call: Call) -> list[Line]:
    return [Line(part, "layer scale", "other", None, symbol("D", len(module.factor), "width"))]


# Parts that hold nothing and multiply no matrices.
FREE = (nn.Identity, nn.Dropout, nn.GELU, Gelu, DropPath, Position, NoPrefix, NoPositions, SinusoidalPositions)

RULES: dict[type[nn.Module], Callable[[str, Any, Call], list[Line]]] = {
    nn.Linear: linear,
    LinearProjection: projection,
    ScaledDotProduct: attention,
    PatchEmbed: patches,
    nn.Conv2d: convolution,
    nn.LayerNorm: norm,
    Prefix: leading,
    LearnedPositions: positions,
    LayerScale: scale,
}
