"""Cost rules of attention: two matrix products per pattern."""

from torch import Tensor

from patchword.analysis.cost.expression import Expression, symbol
from patchword.analysis.cost.line import Call, Line
from patchword.analysis.cost.sizes import group_symbols
from patchword.core.grid import Grid
from patchword.layers import Additive, BlockSparse, Interlaced, RelativeVectors, ScaledDotProduct, Windows
from patchword.layers.attention.core import Pattern
from patchword.layers.attention.partition import members
from patchword.layers.attention.projection import Projected


def attention(part: str, module: ScaledDotProduct, call: Call) -> list[Line]:
    projected, patterns, grid = call.arguments
    assert isinstance(projected, Projected), "the core is called with the projection's output"
    each = zip(projected.split_heads(len(patterns)), patterns, strict=True)
    return [
        line
        for channels, pattern in each
        for line in _one_pattern(part, module, channels, pattern, grid, len(patterns))
    ]


def _one_pattern(
    part: str, module: ScaledDotProduct, projected: Projected, pattern: Pattern, grid: Grid | None, parts: int
) -> list[Line]:
    if isinstance(pattern.partition, BlockSparse) and pattern.partition.is_sparse(_longest(projected)):
        return in_blocks(part, module, pattern.partition, projected)
    groups, queries = _group_sizes(pattern, projected.query, grid)
    _, keys = _group_sizes(pattern, projected.key, projected.key_grid)
    heads, head = _heads(module, projected, parts)
    rows = symbol("N", queries, "tokens")
    if groups > 1:
        count, rows = group_symbols(pattern.partition, grid, groups, queries)
    columns = rows if keys == queries else _keys(keys, projected.key_grid)
    product = heads * rows * columns * head
    product = product if groups == 1 else count * product
    where = _direction(pattern)
    lines = [
        Line(part, f"query x key{where}", "attention", product, None),
        Line(part, f"weights x value{where}", "attention", product, None),
    ]
    if isinstance(pattern.position, RelativeVectors):
        relations = symbol("R", len(pattern.position.keys), "relations")
        product = heads * rows * relations * head if groups == 1 else count * heads * rows * relations * head
        lines += [Line(part, f"{name} x relations", "attention", product, None) for name in ("query", "weights")]
    return lines


def additive(part: str, module: Additive, call: Call) -> list[Line]:
    projected: Projected = call.arguments[0]
    queries, keys = projected.query.shape[1], projected.key.shape[1]
    rows, width = symbol("N", queries, "tokens"), symbol("D", module.energy.in_features, "width")
    product = rows * (rows if keys == queries else symbol("M", keys, "keys")) * width
    return [
        Line(part, "query + key, weighted", "attention", product, width),
        Line(part, "weights x value", "attention", product, None),
    ]


def in_blocks(part: str, module: ScaledDotProduct, blocks: BlockSparse, projected: Projected) -> list[Line]:
    """Big Bird: two blocks attend to all tokens, each of the others to 5 + r blocks."""
    count = -(-_longest(projected) // blocks.block)
    heads, head = _heads(module, projected)
    size, tokens = symbol("b", blocks.block, "tokens of a block"), symbol("N", count * blocks.block, "tokens")
    inner, read = symbol("i", count - 2, "inner blocks"), symbol("k", 5 + blocks.count, "blocks that each attends to")
    ends, others = heads * (2 * size) * tokens * head, heads * inner * size * (read * size) * head
    return [
        Line(part, f"{name}, {which}", "attention", product, None)
        for which, product in (("global blocks", ends), ("other blocks", others))
        for name in ("query x key", "weights x value")
    ]


def _heads(module: ScaledDotProduct, projected: Projected, parts: int = 1) -> tuple[Expression, Expression]:
    """Return the number of heads of a pattern and the width of a head. parts: the patterns that share the channels."""
    channels = projected.query.shape[-1]
    heads = symbol("h", module.heads, "heads" if parts == 1 else "heads of a direction")
    all_heads = heads if parts == 1 else parts * heads
    width = symbol("D", parts * channels, "width")
    return heads, symbol("d", channels // module.heads, "width of a head", width / all_heads)


def _keys(count: int, grid: Grid | None) -> Expression:
    """Return the number of keys; of a reduced map, by its rows and columns."""
    if grid is None:
        return symbol("M", count, "keys")
    rows, columns = symbol("H_k", grid.height, "rows of the keys"), symbol("W_k", grid.width, "columns of the keys")
    return symbol("M", count, "keys", rows * columns + grid.prefix if grid.prefix else rows * columns)


def _longest(projected: Projected) -> int:
    return projected.query.shape[1] if projected.packed is None else projected.packed.max_seqlen


def _direction(pattern: Pattern) -> str:
    """Return the direction of a pattern, where several patterns divide the heads."""
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
