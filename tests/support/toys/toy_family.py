"""A toy family, as its author would write it: config, part, composition and variants; its cost rule; its name table."""

from dataclasses import dataclass

import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from patchword.analysis.cost.expression import symbol
from patchword.analysis.cost.line import Call, Line
from patchword.core.grid import Grid
from patchword.core.scope import Scope
from patchword.layers import (
    Block,
    ClassHead,
    Encoder,
    LearnedPositions,
    PatchEmbed,
    Pyramid,
    Residual,
    Stage,
    mean_of_patches,
)
from patchword.models.registry import Family, Variant
from patchword.models.vision.config import IMAGENET, ImageConfig
from patchword.weights.names.name_table import Layout, Shapes, rows


@dataclass(frozen=True, kw_only=True)
class ToyConfig(ImageConfig):
    width: PositiveInt = 8
    depth: PositiveInt = 2
    patch: PositiveInt = 4
    table: PositiveInt = 4  # side of the table of positions


class Gate(nn.Module):
    """tokens * sigmoid(weight): a part that no other family has"""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))

    def forward(self, tokens: Tensor, scope: Scope) -> Tensor:
        return tokens * self.weight.sigmoid()


def build(c: ToyConfig) -> Pyramid:
    blocks = [Block(gate=Residual(Gate(c.width), nn.LayerNorm(c.width))) for _ in range(c.depth)]
    positions = LearnedPositions(c.width, Grid(c.table, c.table))
    stage = Stage(PatchEmbed(c.channels, c.width, c.patch), Encoder(blocks), positions=positions)
    return Pyramid([stage], nn.LayerNorm(c.width), ClassHead(c.width, c.classes, mean_of_patches))


FAMILY = Family(
    name="toy",
    title="Toy",
    paper="none",
    build=build,
    normalization=IMAGENET,
    variants={
        "small": Variant(ToyConfig(image=16, classes=5), 629, 6_184),
        "deep": Variant(ToyConfig(image=16, classes=5, depth=3), 653, 6_184),
    },
)


def gate_cost(part: str, module: Gate, call: Call) -> list[Line]:
    return [Line(part, "gate", "other", None, symbol("D", len(module.weight), "width"))]


def _sizes(shapes: Shapes) -> dict[str, int]:
    width, channels, patch, _ = shapes["stages.0.stem.weight"]
    depth = sum(name.endswith("gate.sublayer.weight") for name in shapes)
    return {"width": width, "channels": channels, "patch": patch, "depth": depth}


LAYOUTS = (
    Layout(
        "authors",
        "toy",
        rows(
            ("stages.0.stem.{p}", "toy.patches.{p}"),
            ("stages.0.positions.table", "toy.positions"),
            ("stages.0.encoder.blocks.{i}.gate.norm.{p}", "toy.layer{n}.norm.{p}"),
            ("stages.0.encoder.blocks.{i}.gate.sublayer.{p}", "toy.layer{n}.gate.{p}"),
            ("norm.{p}", "toy.norm.{p}"),
            ("head.linear.{p}", "toy.classifier.{p}"),
        ),
        ("toy.patches.weight", "toy.layer1.gate.weight"),
        _sizes,
        write_config=lambda card: {"toy": True},
    ),
)
