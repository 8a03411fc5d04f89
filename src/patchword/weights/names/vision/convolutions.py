"""Shared parts of the name tables of ResNet and RegNet."""

from collections.abc import Sequence
from typing import Any

from patchword.core.card import Card
from patchword.core.grid import sides
from patchword.weights.names.configs import huggingface_config
from patchword.weights.names.name_table import Row, Shapes, rows

PLACES = ("first", "second", "third")  # the convolutions of a branch
STAGES = 8  # more than any model has


def conv_norm(ours: str, convolution: str, norm: str) -> tuple[Row, ...]:
    """Return the rows of a convolution and its batch norm."""
    return rows((f"{ours}.convolution.{{p}}", f"{convolution}.{{p}}"), (f"{ours}.norm.{{p}}", f"{norm}.{{p}}"))


def huggingface_rows(model: str, layers: Sequence[int]) -> tuple[Row, ...]:
    """Return Hugging Face's rows of the stem, the convolutions and the head.

    layers: the number of each convolution of a branch among the layers of a block.
    """
    stem = f"{model}.embedder.embedder."
    found = conv_norm("stages.0.stem.first", stem + "convolution", stem + "normalization")
    found += rows(("head.linear.{p}", "classifier.1.{p}"))
    for stage in range(STAGES):
        block = f"{model}.encoder.stages.{stage}.layers.{{i}}."
        pairs = [(f"branch.{place}", f"{block}layer.{layer}.") for place, layer in zip(PLACES, layers, strict=True)]
        for ours, theirs in [*pairs, ("shortcut", block + "shortcut.")]:
            found += conv_norm(f"stages.{stage}.blocks.{{i}}.{ours}", theirs + "convolution", theirs + "normalization")
    return found


def write_huggingface(
    card: Card, name: str, *, stem: int, widths: Sequence[int], downsample_in_first_stage: bool, **others: Any
) -> dict[str, Any]:
    """Write Hugging Face's config. name: in the class of the model. stem: its width. others: fields of one family."""
    fields = {
        "num_channels": card.config["channels"],
        "embedding_size": stem,
        "hidden_sizes": list(widths),
        "depths": list(card.config["depths"]),
        "hidden_act": "relu",
        "downsample_in_first_stage": downsample_in_first_stage,
        "image_size": list(sides(card.config["image"])),
        **others,
    }
    return huggingface_config(card, f"{name}ForImageClassification", name.lower(), fields)


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
