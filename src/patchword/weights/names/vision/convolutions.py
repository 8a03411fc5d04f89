"""What the name tables of ResNet and RegNet share."""

from typing import Any

from patchword.weights.names.name_table import Row, Shapes, rows

PLACES = ("first", "second", "third")  # the convolutions of a branch
STAGES = 8  # more than any of them has


def conv_norm(ours: str, convolution: str, norm: str) -> tuple[Row, ...]:
    """A convolution and its batch norm, under their two names."""
    return rows((f"{ours}.convolution.{{p}}", f"{convolution}.{{p}}"), (f"{ours}.norm.{{p}}", f"{norm}.{{p}}"))


def convolution_sizes(shapes: Shapes) -> dict[str, Any]:
    """depths of the stages, width and kernel of the stem; channels and classes, where the tensors are there"""
    blocks = {tuple(name.split(".")[1:4:2]) for name in shapes if ".blocks." in name}
    stages = [stage for stage, _ in blocks]
    told: dict[str, Any] = {"depths": tuple(stages.count(stage) for stage in sorted(set(stages)))}
    if first := shapes.get("stages.0.entrance.first.convolution.weight"):
        told |= {"stem": first[0], "channels": first[1], "kernel": first[2]}
    if head := shapes.get("head.linear.weight"):
        told["classes"] = head[0]
    return told
