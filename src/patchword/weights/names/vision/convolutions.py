"""Shared parts of the name tables of ResNet and RegNet."""

from typing import Any

from patchword.weights.names.name_table import Row, Shapes, rows

PLACES = ("first", "second", "third")  # the convolutions of a branch
STAGES = 8  # more than any model has


def conv_norm(ours: str, convolution: str, norm: str) -> tuple[Row, ...]:
    """Return the rows of a convolution and its batch norm."""
    return rows((f"{ours}.convolution.{{p}}", f"{convolution}.{{p}}"), (f"{ours}.norm.{{p}}", f"{norm}.{{p}}"))


def convolution_sizes(shapes: Shapes) -> dict[str, Any]:
    """Infer the depths of the stages, width and kernel of the stem, channels and classes, as far as tensors exist."""
    blocks = {tuple(name.split(".")[1:4:2]) for name in shapes if ".blocks." in name}
    stages = [stage for stage, _ in blocks]
    values: dict[str, Any] = {"depths": tuple(stages.count(stage) for stage in sorted(set(stages)))}
    if first := shapes.get("stages.0.stem.first.convolution.weight"):
        values |= {"stem": first[0], "channels": first[1], "kernel": first[2]}
    if head := shapes.get("head.linear.weight"):
        values["classes"] = head[0]
    return values
