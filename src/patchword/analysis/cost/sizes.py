"""How the sizes in a count follow from others: tokens of a map, groups of windows, rows after a stride."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, cast

from torch import Tensor, nn

from patchword.analysis.cost.expression import Expression, Symbol, symbol
from patchword.analysis.cost.line import Call, Line
from patchword.core.grid import Grid, sides
from patchword.core.grid import Size as PatchSize
from patchword.layers import Interlaced, PatchEmbed, Windows
from patchword.layers.attention.partition import Partition
from patchword.layers.pyramid import Stage

Sizes = Mapping[str, Mapping[str, Expression]]  # the letters of each stage: its name -> letter -> size


def input_sides(part: str, feature_map: Tensor) -> tuple[Expression, Expression]:
    """Return the rows and columns of a part's input: of the image, or of a map inside the model."""
    of = "of the image" if re.search(r"(^|\.)stages\.0\.stem", part) else "of the input map"
    rows, columns = feature_map.shape[-2:]
    return symbol("H_0", rows, f"rows {of}"), symbol("W_0", columns, f"columns {of}")


def patch_symbols(patch: PatchSize) -> tuple[Expression, Expression]:
    """Return the height and the width of a patch; one symbol if it is square."""
    high, wide = sides(patch)
    if high == wide:
        return (symbol("P", high, "side of a patch"),) * 2
    return symbol("P", high, "height of a patch"), symbol("Q", wide, "width of a patch")


def after_stride(side: Expression, stride: int, found: int, patch: Expression | None = None) -> Expression | None:
    """Return the side after a stride as a formula; None if it is not the quotient (or there is no stride)."""
    if stride == 1 or -(-side.value // stride) != found:
        return None
    return side / (patch or symbol("s", stride, "stride"))


def group_symbols(partition: Partition, grid: Grid | None, groups: int, size: int) -> tuple[Expression, Expression]:
    """Return the number of groups and the tokens of a group: windows, stripes, or the rows and columns of a pale."""
    if grid is None or not isinstance(partition, Windows | Interlaced):
        return symbol("G", groups, "groups"), symbol("m", size, "tokens of a group")
    is_window = isinstance(partition, Windows) and partition.height and partition.width
    kind = "window" if is_window else "stripe" if isinstance(partition, Windows) else "group"
    tile = partition.inner(grid)
    sides = symbol("H", grid.height, "rows"), symbol("W", grid.width, "columns")
    parts = symbol("a", tile.height, f"rows of a {kind}"), symbol("b", tile.width, f"columns of a {kind}")
    pairs = list(zip(sides, parts, strict=True))
    rows, columns = (side if side.value == part.value else part for side, part in pairs)
    first, *more = [side / part for side, part in pairs if side.value != part.value]
    count = first * more[0] if more else first
    return symbol("G", groups, f"{kind}s", count), symbol("m", size, f"tokens of a {kind}", rows * columns)


def stage_sizes(model: nn.Module, calls: Mapping[str, list[Call]]) -> Sizes:
    """Return rows, columns and tokens of each stage of a model of images, by the name of the stage."""
    return {
        name: _of_stage(f"{name}.stem", module, calls[name][0])
        for name, module in model.named_modules()
        if isinstance(module, Stage) and name in calls
    }


def _of_stage(stem: str, module: Stage, call: Call) -> dict[str, Expression]:
    grid = cast(Grid, call.answer[1])
    before = input_sides(stem, call.arguments[0])
    patches = getattr(module.stem, "patches", module.stem)
    letters = patch_symbols(patches.patch) if isinstance(patches, PatchEmbed) else (None, None)
    cuts = [
        after_stride(side, letter.value if letter else module.stride, found, letter)
        for side, letter, found in zip(before, letters, (grid.height, grid.width), strict=True)
    ]
    rows, columns = symbol("H", grid.height, "rows", cuts[0]), symbol("W", grid.width, "columns", cuts[1])
    tokens = (cuts[0] or rows) * (cuts[1] or columns)
    if grid.prefix:
        tokens = tokens + grid.prefix
    return {"H": rows, "W": columns, "N": symbol("N", grid.tokens, "tokens", tokens)}


class Size(NamedTuple):
    """A letter of a calculation."""

    letter: str
    symbol: Symbol

    def working(self) -> str:
        """Return e.g. "d = D / h = 64 / 4 = 16"."""
        return f"{self.letter} = {self.symbol.derived.working() if self.symbol.derived else f'{self.symbol.value:,}'}"

    def to_json(self) -> dict[str, Any]:
        """Return the size and, if it is derived, its formula, for `json.dumps`."""
        derived = self.symbol.derived.to_json() if self.symbol.derived else {}
        return {"symbol": self.letter, "meaning": self.symbol.meaning, "value": self.symbol.value, **derived}


def sizes_of(lines: Iterable[Line], stages: Sizes) -> list[Size]:
    """Return the letters of some lines, each value once; those that a formula needs come before it."""
    found: dict[tuple[str, int], Size] = {}

    def visit(letter: str, one: Symbol, of_stage: Mapping[str, Expression]) -> None:
        known = of_stage[letter].symbols[letter] if letter in of_stage else one
        if one.derived is None and known.value == one.value:
            one = one._replace(derived=known.derived)
        if (letter, one.value) in found and (one.derived is None or found[letter, one.value].symbol.derived):
            return
        for inner, symbol_of in (one.derived.symbols if one.derived else {}).items():
            visit(inner, symbol_of, of_stage)
        found.pop((letter, one.value), None)
        found[letter, one.value] = Size(letter, one)

    for line in lines:
        of_stage = next((sizes for name, sizes in stages.items() if line.part.startswith(f"{name}.")), {})
        for expression in (line.macs, line.parameters):
            for letter, one in (expression.symbols if expression else {}).items():
                visit(letter, one, of_stage)
    return list(found.values())
