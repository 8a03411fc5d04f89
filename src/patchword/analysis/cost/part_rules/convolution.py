"""Cost rules of patch embeddings and convolutions."""

from torch import nn

from patchword.analysis.cost.expression import Expression, symbol
from patchword.analysis.cost.line import Call, Line
from patchword.analysis.cost.sizes import after_stride, input_sides, patch_symbols
from patchword.layers import PatchEmbed


def patches(part: str, module: PatchEmbed, call: Call) -> list[Line]:
    channels, (high, wide) = symbol("C", module.channels, "channels"), patch_symbols(module.patch)
    rows, columns = input_sides(part, call.arguments[0])
    count = symbol("n", call.answer[0].shape[1], "patches", (rows / high) * (columns / wide))
    width = symbol("D", len(module.weight), "width")
    inputs = channels * high * wide
    label = "reduction of the keys" if part.endswith(".reduce") else "patch embedding"
    return [Line(part, label, "convolution", count * inputs * width, inputs * width + width)]


def convolution(part: str, module: nn.Conv2d, call: Call) -> list[Line]:
    height, width = module.kernel_size
    groups, outputs, rows, columns = call.answer.shape
    places = _map_sides(part, module, call) if groups == 1 else _group_sides(groups, rows, columns)
    inputs = symbol("I", module.in_channels // module.groups, "inputs per output") * height * width
    out = symbol("O", outputs, "outputs")
    weights = inputs * out + out if module.bias is not None else inputs * out
    return [Line(part, _convolution_label(part, module), "convolution", places * inputs * out, weights)]


def _map_sides(part: str, module: nn.Conv2d, call: Call) -> Expression:
    """Return rows x columns of the output; after a stride, they follow from those of the input."""
    letters = zip((("H", "rows"), ("W", "columns")), call.answer.shape[-2:], strict=True)
    sides = zip(letters, input_sides(part, call.arguments[0]), strict=True)
    rows, columns = (
        symbol(letter, found, meaning, after_stride(side, module.stride[0], found))
        for ((letter, meaning), found), side in sides
    )
    return rows * columns


def _group_sides(groups: int, rows: int, columns: int) -> Expression:
    """Return groups x rows x columns of a convolution inside stripes."""
    sides = symbol("a", rows, "rows of a stripe") * symbol("b", columns, "columns of a stripe")
    return symbol("G", groups, "stripes") * sides


def filters(part: str, module: nn.Conv1d, call: Call) -> list[Line]:
    """Character convolutions, over each word."""
    words, outputs, places = call.answer.shape
    count = symbol("N", words, "tokens") * symbol("p", places, "positions in a word")
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
