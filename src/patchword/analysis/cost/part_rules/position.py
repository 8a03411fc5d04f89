"""Cost rules of position encodings and leading tokens."""

from patchword.analysis.cost.expression import symbol
from patchword.analysis.cost.line import Call, Line
from patchword.layers import Flow, FourierFeatures, LearnedPositions, Prefix, RelativeTable, RelativeVectors


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
    places = symbol("n", call.arguments[0].numel() // dimensions, "positions")
    waves = symbol("M", dimensions, "coordinates") * symbol("w", module.frequencies.shape[1], "frequencies")
    features, hidden = symbol("F", module.up.shape[1], "features"), symbol("H", len(module.up), "hidden width")
    width = (
        symbol("D", len(module.down), "width") if groups == 1 else symbol("D/G", len(module.down), "width per group")
    )
    inner = waves + features * hidden + hidden * width
    return [Line(part, "Fourier features of positions", "linear", places * inner, inner + hidden + width)]


def flow(part: str, module: Flow, call: Call) -> list[Line]:
    width, hidden = symbol("D", len(module.start), "width"), symbol("H", len(module.up), "hidden width")
    times = symbol("s", 4 * module.steps * (call.arguments[0] - 1), "evaluations of the derivative")
    both = 2 * width * hidden
    return [Line(part, "positions by an ODE", "linear", times * both, both + 2 * hidden + 2 * width)]


def leading(part: str, module: Prefix, call: Call) -> list[Line]:
    _, count, width = module.tokens.shape
    wide = symbol("D", width, "width")
    return [Line(part, "leading tokens", "other", None, wide if count == 1 else count * wide)]


def positions(part: str, module: LearnedPositions, call: Call) -> list[Line]:
    _, count, width = module.table.shape
    return [Line(part, "positions", "other", None, symbol("N", count, "tokens") * symbol("D", width, "width"))]
