"""The complexity of one attention layer: the papers' formulas beside the count of our own layer.

A map has h x w tokens with C channels. The four matrices (query, key, value, output) always cost 4hwC^2; the rest is
the two products, query x key and weights x value, between the tokens that attend to each other.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, cast

import torch
from torch import Tensor, nn

from patchword.analysis.cost import lines_of
from patchword.analysis.cost.expression import Expression, symbol
from patchword.analysis.cost.rules import Kind as Work
from patchword.analysis.speed import timed
from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.core.grid import Grid
from patchword.core.scope import Scope
from patchword.layers import Attention, Full, Interlaced, LinearProjection, Pattern, SeparableProjection, Windows
from patchword.models import REGISTRY, backbone_of


@dataclass(frozen=True)
class Sizes:
    """The map of a layer, and the sizes of its windows, stripes and pales."""

    height: int
    width: int
    channels: int
    window: int = 7  # side of a window, as in Swin-T
    stripe: int = 1  # width of a stripe, as in the first stage of CSWin-T
    pale: int = 7  # rows and columns of a pale, as in Pale-T

    @property
    def grid(self) -> Grid:
        return Grid(self.height, self.width)

    def at(self, side: int) -> "Sizes":
        """Return the same sizes on a square map of another side."""
        return replace(self, height=side, width=side)

    def letters(self) -> tuple[Expression, Expression, Expression]:
        return (
            symbol("h", self.height, "rows of tokens"),
            symbol("w", self.width, "columns of tokens"),
            symbol("C", self.channels, "channels"),
        )

    @property
    def heads(self) -> int:
        """An even number, for two directions, with heads near 32 channels. MACs do not depend on it."""
        even = [heads for heads in range(2, self.channels + 1, 2) if self.channels % heads == 0]
        if not even:
            raise UserError(f"{self.channels} channels cannot be split over two directions", expected="an even width")
        return min(even, key=lambda heads: abs(self.channels / heads - 32))


def _matrices(sizes: Sizes) -> Expression:
    h, w, c = sizes.letters()
    return 4 * h * w * c * c


def _everywhere(sizes: Sizes) -> Expression:
    h, w, c = sizes.letters()
    return _matrices(sizes) + 2 * h * w * h * w * c


def _in_windows(sizes: Sizes) -> Expression:
    h, w, c = sizes.letters()
    side = symbol("M", sizes.window, "side of a window")
    return _matrices(sizes) + 2 * side * side * h * w * c


def _in_stripes(sizes: Sizes) -> Expression:
    h, w, c = sizes.letters()
    return _matrices(sizes) + symbol("sw", sizes.stripe, "width of a stripe") * (h + w) * h * w * c


def _in_pales(sizes: Sizes) -> Expression:
    h, w, c = sizes.letters()
    columns, rows = symbol("s_c", sizes.pale, "columns of a pale"), symbol("s_r", sizes.pale, "rows of a pale")
    return _matrices(sizes) + (columns * h + rows * w + 27) * h * w * c


Cut = Full | Windows | Interlaced


@dataclass(frozen=True)
class Kind:
    """One attention pattern: the paper's formula, and our own layer. The heads are divided among the partitions."""

    name: str
    title: str
    source: str
    formula: Callable[[Sizes], Expression]
    partitions: Callable[[Sizes], Sequence[Cut]]
    projection: Callable[[int], nn.Module] = LinearProjection
    note: str = ""

    def layer(self, sizes: Sizes) -> Attention:
        patterns = [Pattern(partition) for partition in self.partitions(sizes)]
        return Attention(sizes.channels, sizes.heads, projection=self.projection(sizes.channels), patterns=patterns)


KINDS = (
    Kind(
        "global",
        "every token attends to every token, as in ViT",
        "Liu et al. 2021, equation 1",
        _everywhere,
        lambda sizes: [Full()],
        note="ViT's own layer has one more token, [CLS], which is not on the map",
    ),
    Kind(
        "window",
        "tokens attend inside windows of M x M, as in Swin",
        "Liu et al. 2021, equation 2",
        _in_windows,
        lambda sizes: [Windows(sizes.window, sizes.window)],
        note="Swin's relative position bias is added, not multiplied: no MACs",
    ),
    Kind(
        "cross-shaped",
        "half of the heads in vertical stripes, half in horizontal ones, as in CSWin",
        "Dong et al. 2021",
        _in_stripes,
        lambda sizes: [Windows(None, sizes.stripe), Windows(sizes.stripe, None)],
        note="CSWin's own layer has 9 x h x w x C more: LePE, a 3 x 3 depthwise convolution that the formula omits",
    ),
    Kind(
        "pale",
        "half of the heads in interlaced rows, half in interlaced columns, as in Pale",
        "Wu et al. 2021",
        _in_pales,
        lambda sizes: [Interlaced(sizes.pale, None), Interlaced(None, sizes.pale)],
        SeparableProjection,
        note="27 x h x w x C are the 3 x 3 depthwise convolutions before query, key and value: three times 9",
    ),
)


@dataclass(frozen=True)
class Counted:
    """MACs of our own layer, by the kind of product."""

    linear: int
    attention: int
    convolution: int

    @property
    def total(self) -> int:
        return self.linear + self.attention + self.convolution


def counted(kind: Kind, sizes: Sizes) -> Counted:
    """Count our own layer by running it once on the meta device."""
    with torch.device("meta"):
        lines = lines_of(kind.layer(sizes).eval(), *_inputs(sizes))

    def macs(work: Work) -> int:
        return sum(line.macs.value for line in lines if line.macs and line.kind == work)

    return Counted(macs("linear"), macs("attention"), macs("convolution"))


def measured(kind: Kind, sizes: Sizes, device: torch.device, seconds: float = 0.3) -> float:
    """Return the seconds of one call for one image in float32: the median of several calls."""
    with torch.device(device):
        layer, inputs = kind.layer(sizes).eval(), _inputs(sizes)
    return median(timed(lambda: layer(*inputs), device, seconds))


def _inputs(sizes: Sizes) -> tuple[Tensor, Scope]:
    return torch.randn(1, sizes.grid.tokens, sizes.channels), Scope(grid=sizes.grid)


def differences(kind: Kind, sizes: Sizes) -> list[str]:
    """Return why formula and count differ, if they do: the formulas assume that the groups divide the map."""
    reasons, grid = [], sizes.grid
    for partition in kind.partitions(sizes):
        if isinstance(partition, Full):
            continue
        tile = partition.inner(grid)
        full = Grid(partition.height or grid.height, partition.width or grid.width)
        padded = Grid(_multiple(grid.height, tile.height), _multiple(grid.width, tile.width))
        if full != tile:
            reasons.append(f"groups of {_size(full)} are cut to the map, {_size(tile)}")
        if padded != grid:
            reasons.append(f"groups of {_size(tile)} pad the map to {_size(padded)}")
    return reasons


def _multiple(side: int, part: int) -> int:
    return -(-side // part) * part


def _size(grid: Grid) -> str:
    return f"{grid.height} x {grid.width}"


def first_stage(card: Card) -> Sizes:
    """Return the map of a model's first stage, with the model's own window, stripe or pale if it has one."""
    REGISTRY.require_images(card.model)
    with torch.device("meta"):
        backbone = backbone_of(REGISTRY.create(card.model, **card.config), card.model).eval()
        _, channels, height, width = backbone(cast(Tensor, REGISTRY.example(card)))[0].shape
    found: dict[str, Any] = {
        "window": card.config.get("window"),
        "stripe": card.config.get("stripes", (None,))[0],
        "pale": card.config.get("pales", (None,))[0],
    }
    return Sizes(height, width, channels, **{name: size for name, size in found.items() if size is not None})
