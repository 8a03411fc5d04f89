"""Shared parts of the name tables of Swin, CvT, CSWin and PVT."""

from collections.abc import Mapping
from typing import Any

from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.core.grid import sides
from patchword.weights.names.configs import common_ratio, ratio, timm_config
from patchword.weights.names.name_table import Row, Shapes, rows

STAGES = 8  # more than any model has
TIMM_BLOCK = ("norm1", "norm2", "mlp.fc1", "mlp.fc2")  # the authors of CSWin, CvT and PVT started from timm's code


def block_rows(ours: str, theirs: str, names: tuple[str, str, str, str] = TIMM_BLOCK) -> tuple[Row, ...]:
    """Return the rows of a block without its attention. names: their two norms, and the two layers of the MLP."""
    parts = ("attention.norm", "feed_forward.norm", "feed_forward.sublayer.up", "feed_forward.sublayer.down")
    return rows(*((f"{ours}{part}.{{p}}", f"{theirs}{name}.{{p}}") for part, name in zip(parts, names, strict=True)))


def pyramid_sizes(shapes: Shapes) -> dict[str, Any]:
    """Infer widths, depths and mlp_ratios of the stages, channels, patch and classes, as far as tensors exist."""
    stages = 1 + max((int(name.split(".")[1]) for name in shapes if name.startswith("stages.")), default=-1)
    found = [shapes[name] for name in in_each_stage(stages, "feed_forward.sublayer.up.weight") if name in shapes]
    values: dict[str, Any] = {
        "widths": tuple(width for _, width in found),
        "mlp_ratios": tuple(ratio(hidden, width) if hidden % width else hidden // width for hidden, width in found),
        "depths": tuple(_depth(shapes, stage) for stage in range(stages)),
    }
    if first := shapes.get("stages.0.stem.patches.convolution.weight"):
        values |= {"channels": first[1], "patch": (first[2] + 1) // 2}
    elif first := shapes.get("stages.0.stem.patches.weight"):
        values |= {"channels": first[1], "patch": first[2]}
    if head := shapes.get("head.linear.weight"):
        values["classes"] = head[0]
    return values


def doubling_sizes(shapes: Shapes) -> dict[str, Any]:
    """Like `pyramid_sizes`, for a family whose width doubles per stage and that has one mlp_ratio."""
    values = pyramid_sizes(shapes)
    widths, mlp_ratios = values.pop("widths"), values.pop("mlp_ratios")
    if not widths:
        return values
    found = [(int(one * width), width) for one, width in zip(mlp_ratios, widths, strict=True)]
    shared = common_ratio(found) if len(set(mlp_ratios)) > 1 else None
    return {"width": widths[0], "mlp_ratio": shared or mlp_ratios[0], **values}


def in_each_stage(stages: int, name: str) -> list[str]:
    """Return our names of a tensor in the first block of each stage."""
    return [f"stages.{stage}.encoder.blocks.0.{name}" for stage in range(stages)]


def _depth(shapes: Shapes, stage: int) -> int:
    start = f"stages.{stage}.encoder.blocks."
    return len({name[len(start) :].split(".")[0] for name in shapes if name.startswith(start)})


def read_fields(config: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Read our fields from another library's config. names: our field -> theirs."""
    return {ours: _plain(config[theirs]) for ours, theirs in names.items() if theirs in config}


def write_fields(card: Card, names: Mapping[str, str]) -> dict[str, Any]:
    return {theirs: card.config[ours] for ours, theirs in names.items()}


def authors_config(card: Card, names: Mapping[str, str]) -> dict[str, Any]:
    """Write the arguments of the authors' class in timm's format, since the authors have no config.json."""
    last = card.config["widths"][-1] if "widths" in card.config else last_width(card)
    return timm_config(card, None, last, write_fields(card, names))


def last_width(card: Card) -> int:
    """Return the width of the last stage, of a family that doubles it per stage."""
    return int(card.config["width"] * 2 ** (len(card.config["depths"]) - 1))


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def check_sides(card: Card, unit: int, title: str, *, square: bool = False) -> None:
    """Refuse sizes that we pad and mask, since other implementations crop the map or attend to its padding."""
    height, width = sides(card.config["image"])
    if height % unit or width % unit or (square and height != width):
        raise UserError(
            f"{title} does not run at this image size, or gives other outputs",
            expected=f"{'a square with ' if square else ''}sides that {unit} divides",
            got=f"image {height} x {width}",
            hint='load it with image=..., or use layout="patchword"',
        )
