"""One rule a part: what it multiplies and what it holds, as formulas. A part without a rule is an error, not a zero."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn

from patchword.analysis.cost.expression import Expression, symbol
from patchword.core.grid import Grid
from patchword.layers import (
    Additive,
    Blocks,
    ClippedLstm,
    DropPath,
    FirstToken,
    Flow,
    FourierFeatures,
    FromMemory,
    Gelu,
    Interlaced,
    LastLayer,
    LastToken,
    LayerScale,
    LearnedPositions,
    LinearProjection,
    MeanPool,
    NoNorm,
    NoPlaces,
    NoPositions,
    NoPrefix,
    PartlyTied,
    PatchEmbed,
    Position,
    Prefix,
    QuickGelu,
    RelativeTable,
    RelativeVectors,
    ScalarMix,
    ScaledDotProduct,
    SinusoidalPositions,
    Sinusoids,
    TiedLinear,
    Tokens,
    Windows,
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
    """What a part was given and what it answered, for one image or one text."""

    arguments: Sequence[Any]
    answer: Any


# What the linear layers of our parts are called, and the letters of their input and output widths.
_LINEAR = {
    "output": ("output projection", ("D", "width"), ("D", "width")),
    "up": ("feed-forward, up", ("D", "width"), ("F", "hidden width")),
    "down": ("feed-forward, down", ("F", "hidden width"), ("D", "width")),
    "query": ("query", ("D", "width"), ("D", "width")),
    "joint": ("key, value", ("D", "width"), ("2D", "twice the width")),
    "reduce": ("patch merging", ("4C", "four neighbours"), ("2C", "twice the width before")),
    "linear": ("class head", ("D", "width"), ("K", "classes")),
    "distilled": ("distillation head", ("D", "width"), ("K", "classes")),
    "narrow": ("bottleneck, in", ("D", "width"), ("B", "width of the bottleneck")),
    "widen": ("bottleneck, out", ("B", "width of the bottleneck"), ("D", "width")),
    "shared": ("bottleneck of query and key", ("D", "width"), ("B", "width of the bottleneck")),
    "query_key": ("query, key", ("B", "width of the bottleneck"), ("2B", "twice the bottleneck")),
    "value": ("value", ("D", "width"), ("B", "width of the bottleneck")),
    "mix": ("three words to a token", ("3E", "three words"), ("D", "width")),
    "candidate": ("highway", ("F", "filters"), ("F", "filters")),
    "gate": ("highway, gate", ("F", "filters"), ("F", "filters")),
    "project": ("filters to a word", ("F", "filters"), ("D", "width")),
    "words": ("word head, a score for each word", ("D", "width"), ("V", "vocabulary")),
    "state": ("state of the decoder", ("D", "width"), ("D", "width")),
    "transform": ("word head, transform", ("D", "width"), ("D", "width")),
}

TEXT_HEADS = {  # what head.linear is called, by the name of the head; "class head" of the others
    "next": "next sentence",
    "pretraining": "next sentence",
    "tags": "tag of each token",
    "span": "begin and end of an answer",
}

# Maps called "linear", by the part that holds them: those of a separable projection, and BERT's pooler.
_SQUARE = {"query": "query", "key": "key", "value": "value", "pool": "pooler"}

_ROWS = {"joint": ("M", "keys")}  # what a linear layer is applied to, if not to the tokens


def linear(part: str, module: nn.Linear, call: Call) -> list[Line]:
    name = part.rsplit(".", 1)[-1]
    owner = part.rsplit(".", 2)[-2] if name == "linear" else ""
    if owner in _SQUARE:
        label, inner, outer = _SQUARE[owner], ("D", "width"), ("D", "width")
    elif ".token_mixing." in part:
        letters = ("N", "tokens"), ("T", "hidden tokens")
        label, (inner, outer) = f"token mixing, {name}", letters if name == "up" else letters[::-1]
    else:
        label, inner, outer = _LINEAR.get(name, (name, ("I", "inputs"), ("O", "outputs")))
    wide, high = symbol(inner[0], module.in_features, inner[1]), symbol(outer[0], module.out_features, outer[1])
    count = call.answer.numel() // module.out_features
    letter, meaning = ("D", "width") if ".token_mixing." in part else _ROWS.get(name, ("N", "tokens"))
    rows = symbol(letter, count, meaning)
    macs = wide * high if count == 1 else rows * wide * high
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
    if isinstance(pattern.partition, Blocks) and pattern.partition.is_sparse(_longest(projected)):
        return in_blocks(part, module, pattern.partition, projected)
    groups, queries = _group_sizes(pattern, projected.query, grid)
    _, keys = _group_sizes(pattern, projected.key, projected.key_grid)
    heads = symbol("h", module.heads, "heads")
    head = symbol("d", projected.query.shape[-1] // module.heads, "width of a head")
    rows = symbol("N", queries, "tokens") if groups == 1 else symbol("m", queries, "tokens of a group")
    columns = rows if keys == queries else symbol("M", keys, "keys")
    product = heads * rows * columns * head
    product = product if groups == 1 else symbol("G", groups, "groups") * product
    where = _direction(pattern)
    lines = [
        Line(part, f"query x key{where}", "attention", product, None),
        Line(part, f"weights x value{where}", "attention", product, None),
    ]
    if isinstance(pattern.position, RelativeVectors):
        relations = symbol("R", len(pattern.position.keys), "relations")
        product = (
            heads * rows * relations * head
            if groups == 1
            else symbol("G", groups, "groups") * heads * rows * relations * head
        )
        lines += [Line(part, f"{name} x relations", "attention", product, None) for name in ("query", "weights")]
    return lines


def additive(part: str, module: Additive, call: Call) -> list[Line]:
    projected: Projected = call.arguments[0]
    queries, keys = projected.query.shape[1], projected.key.shape[1]
    rows, width = symbol("N", queries, "tokens"), symbol("D", module.energy.in_features, "width")
    product = rows * (rows if keys == queries else symbol("M", keys, "keys")) * width
    return [
        Line(part, "query + key, weighed", "attention", product, width),
        Line(part, "weights x value", "attention", product, None),
    ]


def in_blocks(part: str, module: ScaledDotProduct, blocks: Blocks, projected: Projected) -> list[Line]:
    """Big Bird: two blocks meet all tokens, each of the others 5 + r blocks."""
    count = -(-_longest(projected) // blocks.block)
    heads = symbol("h", module.heads, "heads")
    head = symbol("d", projected.query.shape[-1] // module.heads, "width of a head")
    size, tokens = symbol("b", blocks.block, "tokens of a block"), symbol("N", count * blocks.block, "tokens")
    inner, read = symbol("i", count - 2, "inner blocks"), symbol("k", 5 + blocks.count, "blocks that each reads")
    ends, others = heads * (2 * size) * tokens * head, heads * inner * size * (read * size) * head
    return [
        Line(part, f"{name}, {which}", "attention", product, None)
        for which, product in (("global blocks", ends), ("other blocks", others))
        for name in ("query x key", "weights x value")
    ]


def _longest(projected: Projected) -> int:
    return projected.query.shape[1] if projected.rows is None else projected.rows.longest


def _direction(pattern: Pattern) -> str:
    """Which of several patterns it is, where the heads are shared out between them."""
    match pattern.partition:
        case Interlaced(height=int(), width=None):
            return ", rows"
        case Interlaced(height=None, width=int()):
            return ", columns"
        case Windows(height=None, width=int()):
            return ", vertical"
        case Windows(height=int(), width=None):
            return ", horizontal"
    return ""


def _group_sizes(pattern: Pattern, tokens: Tensor, grid: Grid | None) -> tuple[int, int]:
    groups, size = members(pattern.partition, tokens.shape[1], grid).shape
    return groups, size


def patches(part: str, module: PatchEmbed, call: Call) -> list[Line]:
    count = symbol("n", call.answer[0].shape[1], "patches")
    channels, patch = symbol("C", module.channels, "channels"), symbol("P", module.patch, "side of a patch")
    width = symbol("D", len(module.weight), "width")
    inputs = channels * patch * patch
    label = "reduction of the keys" if part.endswith(".reduce") else "patch embedding"
    return [Line(part, label, "convolution", count * inputs * width, inputs * width + width)]


def convolution(part: str, module: nn.Conv2d, call: Call) -> list[Line]:
    height, width = module.kernel_size
    groups, outputs, rows, columns = call.answer.shape
    places = symbol("H", rows, "rows") * symbol("W", columns, "columns")
    places = places if groups == 1 else symbol("G", groups, "groups") * places
    inputs = symbol("I", module.in_channels // module.groups, "inputs of an output") * height * width
    out = symbol("O", outputs, "outputs")
    weights = inputs * out + out if module.bias is not None else inputs * out
    return [Line(part, _convolution_label(part, module), "convolution", places * inputs * out, weights)]


def filters(part: str, module: nn.Conv1d, call: Call) -> list[Line]:
    """Over the characters of each word."""
    words, outputs, places = call.answer.shape
    count = symbol("N", words, "tokens") * symbol("p", places, "places in a word")
    size = symbol("k", module.kernel_size[0], "characters of a filter")
    inputs = symbol("E", module.in_channels, "width of a character") * size
    out = symbol("O", outputs, "outputs")
    return [Line(part, f"filters of {size.value} characters", "convolution", count * inputs * out, inputs * out + out)]


def _convolution_label(part: str, module: nn.Conv2d) -> str:
    kind = "depthwise" if module.groups == module.in_channels > 1 else "grouped" if module.groups > 1 else "convolution"
    side = f"{module.kernel_size[0]} x {module.kernel_size[1]}"
    for name in ("query", "key", "value", "position", "shortcut", "squeeze", "excite"):
        if f".{name}." in f".{part}.":
            return f"{name}, {kind} {side}"
    return f"{kind} {side}"


def norm(part: str, module: nn.LayerNorm, call: Call) -> list[Line]:
    weights = 2 * symbol("D", module.normalized_shape[0], "width")
    return [Line(part, "norm: scale and shift", "other", None, weights)]


def batch_norm(part: str, module: nn.BatchNorm2d, call: Call) -> list[Line]:
    return [Line(part, "norm: scale and shift", "other", None, 2 * symbol("D", module.num_features, "width"))]


def offsets(part: str, module: RelativeTable, call: Call) -> list[Line]:
    rows, columns = module.window.height, module.window.width
    heads = symbol("h", module.table.shape[1], "heads")
    places = symbol("R", 2 * rows - 1, "offsets of rows") * symbol("S", 2 * columns - 1, "offsets of columns")
    return [Line(part, "relative positions", "other", None, places * heads)]


def relative_vectors(part: str, module: RelativeVectors, call: Call) -> list[Line]:
    count, head = module.keys.shape
    size = symbol("R", count, "relations") * symbol("d", head, "width of a head")
    return [Line(part, "relative positions, of keys and values", "other", None, 2 * size)]


def fourier(part: str, module: FourierFeatures, call: Call) -> list[Line]:
    groups, dimensions = call.arguments[0].shape[-2:]
    places = symbol("n", call.arguments[0].numel() // dimensions, "places")
    waves = symbol("M", dimensions, "numbers of a place") * symbol("w", module.frequencies.shape[1], "frequencies")
    features, hidden = symbol("F", module.up.shape[1], "features"), symbol("H", len(module.up), "hidden width")
    width = symbol("D", len(module.down), "width") if groups == 1 else symbol("D/G", len(module.down), "its share")
    inner = waves + features * hidden + hidden * width
    return [Line(part, "Fourier features of places", "linear", places * inner, inner + hidden + width)]


def flow(part: str, module: Flow, call: Call) -> list[Line]:
    width, hidden = symbol("D", len(module.start), "width"), symbol("H", len(module.up), "hidden width")
    times = symbol("s", 4 * module.steps * (call.arguments[0] - 1), "times that the speed is asked for")
    both = 2 * width * hidden
    return [Line(part, "positions that flow", "linear", times * both, both + 2 * hidden + 2 * width)]


def leading(part: str, module: Prefix, call: Call) -> list[Line]:
    _, count, width = module.tokens.shape
    wide = symbol("D", width, "width")
    return [Line(part, "leading tokens", "other", None, wide if count == 1 else count * wide)]


def positions(part: str, module: LearnedPositions, call: Call) -> list[Line]:
    _, count, width = module.table.shape
    return [Line(part, "positions", "other", None, symbol("N", count, "tokens") * symbol("D", width, "width"))]


def table(part: str, module: nn.Embedding, call: Call) -> list[Line]:
    letter, meaning = _TABLES.get(part.rsplit(".", 1)[-1], ("R", "rows of a table"))
    size = symbol(letter, module.num_embeddings, meaning) * symbol("D", module.embedding_dim, "width")
    return [Line(part, meaning, "other", None, size)]


_TABLES = {
    "words": ("V", "vocabulary"),
    "positions": ("P", "positions"),
    "segments": ("S", "segments"),
    "languages": ("L", "languages"),
    "characters": ("C", "characters"),
}


def words(part: str, module: TiedLinear, call: Call) -> list[Line]:
    """The matrix is the table of words, which is held once."""
    size = symbol("V", call.answer.shape[-1], "vocabulary")
    width = symbol("D", call.arguments[0].shape[-1], "width")
    asked = symbol("N", call.arguments[0].numel() // width.value, "tokens")
    return [
        Line(
            part,
            "word head, a score for each word",
            "linear",
            asked * width * size,
            size if module.bias is not None else None,
        )
    ]


def partly_tied(part: str, module: PartlyTied, call: Call) -> list[Line]:
    """The first rows of the matrix are the table of words, which is held once."""
    size = symbol("V", module.extra.in_features, "vocabulary")
    width = symbol("D", call.arguments[0].shape[-1], "width")
    asked = symbol("N", call.arguments[0].numel() // width.value, "tokens")
    own = symbol("X", module.extra.out_features, "channels beyond the table")
    return [Line(part, "word head, a score for each word", "linear", asked * width * size, own * size + size)]


def no_norm(part: str, module: NoNorm, call: Call) -> list[Line]:
    return [Line(part, "scale and shift", "other", None, 2 * symbol("D", len(module.weight), "width"))]


def scale(part: str, module: LayerScale, call: Call) -> list[Line]:
    return [Line(part, "layer scale", "other", None, symbol("D", len(module.factor), "width"))]


def recurrent(part: str, module: ClippedLstm, call: Call) -> list[Line]:
    directions, inputs, gates = module.inputs.shape
    ways, cell = symbol("w", directions, "directions"), symbol("H", gates // 4, "cells")
    entering, width = symbol("I", inputs, "inputs"), symbol("D", module.output.shape[2], "width of a direction")
    tokens = symbol("N", call.arguments[0].shape[1] * call.arguments[0].shape[2], "tokens")
    before, state, out = 4 * ways * entering * cell, 4 * ways * width * cell, ways * cell * width
    return [
        Line(part, "inputs to gates", "linear", tokens * before, before + 4 * ways * cell),
        Line(part, "state to gates", "linear", tokens * state, state),
        Line(part, "cells to state", "linear", tokens * out, out),
    ]


def lstm(part: str, module: nn.LSTM, call: Call) -> list[Line]:
    """Each of four gates reads the input and the state; torch has two biases for each."""
    tokens, lines = symbol("N", call.arguments[0].shape[1], "tokens"), []
    inner, state = module.input_size, symbol("H", module.hidden_size, "width of the state")
    for layer in range(module.num_layers):
        gates = 4 * (symbol("I", inner, "inputs") * state + state * state)
        label = f"LSTM, layer {layer}" if module.num_layers > 1 else "LSTM"
        lines.append(Line(part, label, "linear", tokens * gates, gates + 8 * state))
        inner = module.hidden_size
    return lines


def mixture(part: str, module: ScalarMix, call: Call) -> list[Line]:
    layers = symbol("L", len(module.weights), "layers")
    return [Line(part, "mixture of layers", "other", None, layers + symbol("g", 1, "scale"))]


# Parts that hold nothing and multiply no matrices.
FREE = (
    nn.Identity,
    nn.Dropout,
    nn.GELU,
    nn.ReLU,
    nn.MaxPool2d,
    Gelu,
    QuickGelu,
    DropPath,
    Position,
    NoPrefix,
    NoPositions,
    SinusoidalPositions,
    NoPlaces,
    Sinusoids,
    FirstToken,
    LastLayer,
    LastToken,
    MeanPool,
    Tokens,
    nn.Tanh,
    FromMemory,
)

RULES: dict[type[nn.Module], Callable[[str, Any, Call], list[Line]]] = {
    nn.Linear: linear,
    LinearProjection: projection,
    ScaledDotProduct: attention,
    Additive: additive,
    nn.LSTM: lstm,
    PatchEmbed: patches,
    nn.Conv1d: filters,
    nn.Conv2d: convolution,
    nn.LayerNorm: norm,
    Prefix: leading,
    LearnedPositions: positions,
    LayerScale: scale,
    nn.BatchNorm2d: batch_norm,
    RelativeTable: offsets,
    RelativeVectors: relative_vectors,
    FourierFeatures: fourier,
    Flow: flow,
    nn.Embedding: table,
    TiedLinear: words,
    PartlyTied: partly_tied,
    ClippedLstm: recurrent,
    ScalarMix: mixture,
    NoNorm: no_norm,
}
