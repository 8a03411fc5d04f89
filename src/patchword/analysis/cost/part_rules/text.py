"""Cost rules of text modules: embedding tables, LM heads, recurrent layers, mixtures of layers."""

from torch import nn

from patchword.analysis.cost.expression import symbol
from patchword.analysis.cost.line import Call, Line
from patchword.layers import ClippedLstm, PartlyTied, ScalarMix, TiedLinear

_TABLES = {
    "words": ("V", "vocabulary"),
    "positions": ("P", "positions"),
    "segments": ("S", "segments"),
    "languages": ("L", "languages"),
    "characters": ("C", "characters"),
}


def table(part: str, module: nn.Embedding, call: Call) -> list[Line]:
    letter, meaning = _TABLES.get(part.rsplit(".", 1)[-1], ("R", "rows of a table"))
    size = symbol(letter, module.num_embeddings, meaning) * symbol("D", module.embedding_dim, "width")
    return [Line(part, meaning, "other", None, size)]


def words(part: str, module: TiedLinear, call: Call) -> list[Line]:
    """The matrix is the embedding table, whose parameters count once."""
    size = symbol("V", call.answer.shape[-1], "vocabulary")
    width = symbol("D", call.arguments[0].shape[-1], "width")
    tokens = symbol("N", call.arguments[0].numel() // width.value, "tokens")
    return [
        Line(
            part,
            "LM head, scores of the vocabulary",
            "linear",
            tokens * width * size,
            size if module.bias is not None else None,
        )
    ]


def partly_tied(part: str, module: PartlyTied, call: Call) -> list[Line]:
    """The first rows of the matrix are the embedding table, whose parameters count once."""
    size = symbol("V", module.extra.in_features, "vocabulary")
    width = symbol("D", call.arguments[0].shape[-1], "width")
    tokens = symbol("N", call.arguments[0].numel() // width.value, "tokens")
    own = symbol("X", module.extra.out_features, "channels beyond the table")
    return [Line(part, "LM head, scores of the vocabulary", "linear", tokens * width * size, own * size + size)]


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
        label = f"LSTM, layer {layer + 1}" if module.num_layers > 1 else "LSTM"
        lines.append(Line(part, label, "linear", tokens * gates, gates + 8 * state))
        inner = module.hidden_size
    return lines


def mixture(part: str, module: ScalarMix, call: Call) -> list[Line]:
    layers = symbol("L", len(module.weights), "layers")
    return [Line(part, "mixture of layers", "other", None, layers + symbol("g", 1, "scale"))]
