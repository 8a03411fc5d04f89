"""What the name tables of Swin, CvT, CSWin and PVT share."""

from collections.abc import Callable, Mapping
from typing import Any

from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.core.grid import sides
from patchword.weights.names.configs import read_timm_image, timm_config
from patchword.weights.names.name_table import Shapes

STAGES = 8  # more than any of them has


def pyramid_sizes(shapes: Shapes) -> dict[str, Any]:
    """widths, depths and mlp_ratios of the stages; channels, patch and classes, where the tensors are there"""
    stages = 1 + max((int(name.split(".")[1]) for name in shapes if name.startswith("stages.")), default=-1)
    found = [shapes[name] for name in in_each_stage(stages, "feed_forward.sublayer.up.weight") if name in shapes]
    told: dict[str, Any] = {
        "widths": tuple(width for _, width in found),
        "mlp_ratios": tuple(hidden / width if hidden % width else hidden // width for hidden, width in found),
        "depths": tuple(_depth(shapes, stage) for stage in range(stages)),
    }
    if first := shapes.get("stages.0.entrance.patches.convolution.weight"):
        told |= {"channels": first[1], "patch": (first[2] + 1) // 2}
    elif first := shapes.get("stages.0.entrance.patches.weight"):
        told |= {"channels": first[1], "patch": first[2]}
    if head := shapes.get("head.linear.weight"):
        told["classes"] = head[0]
    return told


def doubling_sizes(shapes: Shapes) -> dict[str, Any]:
    """The same of a family that has one width, doubled from stage to stage, and one ratio of the MLP."""
    told = pyramid_sizes(shapes)
    widths, mlp_ratios = told.pop("widths"), told.pop("mlp_ratios")
    return {"width": widths[0], "mlp_ratio": mlp_ratios[0], **told} if widths else told


def in_each_stage(stages: int, name: str) -> list[str]:
    """our names of one tensor of every stage's first block"""
    return [f"stages.{stage}.encoder.blocks.0.{name}" for stage in range(stages)]


def _depth(shapes: Shapes, stage: int) -> int:
    start = f"stages.{stage}.encoder.blocks."
    return len({name[len(start) :].split(".")[0] for name in shapes if name.startswith(start)})


def read_fields(config: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """names: what our fields are called in the config of another library."""
    return {ours: _plain(config[theirs]) for ours, theirs in names.items() if theirs in config}


def write_fields(card: Card, names: Mapping[str, str]) -> dict[str, Any]:
    return {theirs: card.config[ours] for ours, theirs in names.items()}


def reads_arguments(names: Mapping[str, str]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Of a config in timm's manner: the fields that its arguments hold."""
    return lambda config: read_timm_image(config) | read_fields(config.get("model_args") or {}, names)


def authors_config(card: Card, names: Mapping[str, str]) -> dict[str, Any]:
    """Authors have no config.json: the arguments of their class are written in timm's manner."""
    last = card.config["widths"][-1] if "widths" in card.config else last_width(card)
    return timm_config(card, None, last, write_fields(card, names))


def last_width(card: Card) -> int:
    """of a family that doubles it from stage to stage"""
    return int(card.config["width"] * 2 ** (len(card.config["depths"]) - 1))


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def check_sides(card: Card, unit: int, title: str, *, square: bool = False) -> None:
    """Elsewhere a map is cut off, or its padding is read, where it is padded and masked here."""
    height, width = sides(card.config["image"])
    if height % unit or width % unit or (square and height != width):
        raise UserError(
            f"{title} does not run at this image size, or gives other scores",
            expected=f"{'a square with ' if square else ''}sides that {unit} divides",
            got=f"image {height} x {width}",
            hint='load it with image=..., or use layout="patchword"',
        )
