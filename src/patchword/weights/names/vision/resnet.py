"""The names of ResNet: timm's, which are torchvision's, and Hugging Face's."""

from collections.abc import Mapping
from typing import Any

from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.models.vision.resnet import doubled_widths
from patchword.weights.names.configs import read_huggingface_image, require, timm_config
from patchword.weights.names.name_table import Layout, Row, Shapes, encoder_alone, rows
from patchword.weights.names.timm import TimmArguments
from patchword.weights.names.vision.convolutions import (
    PLACES,
    STAGES,
    conv_norm,
    convolution_sizes,
    huggingface_rows,
    write_huggingface,
)


def timm_rows() -> tuple[Row, ...]:
    """Return the rows of timm's names, which are torchvision's and mmdet's."""
    found = conv_norm("stages.0.stem.first", "conv1", "bn1") + rows(("head.linear.{p}", "fc.{p}"))
    for stage in range(STAGES):
        ours, theirs = f"stages.{stage}.blocks.{{i}}.", f"layer{stage + 1}.{{i}}."
        for number, place in enumerate(PLACES, 1):
            found += conv_norm(f"{ours}branch.{place}", f"{theirs}conv{number}", f"{theirs}bn{number}")
        found += conv_norm(ours + "shortcut", theirs + "downsample.0", theirs + "downsample.1")
    return found


def sizes(shapes: Shapes) -> dict[str, Any]:
    values = convolution_sizes(shapes)
    kind = "bottleneck" if "stages.0.blocks.0.branch.third.convolution.weight" in shapes else "basic"
    if "stem" in values:
        values |= {"width": values.pop("stem"), "patch": {3: 1, 7: 4}.get(values.pop("kernel"), 4)}
    last = f"blocks.0.branch.{'third' if kind == 'bottleneck' else 'second'}.convolution.weight"
    names = [f"stages.{stage}.{last}" for stage in range(len(values["depths"]))]
    if "width" in values and all(name in shapes for name in names):
        widths = tuple(shapes[name][0] for name in names)
        doubled = doubled_widths(values["width"], len(widths), kind)
        values["widths"] = None if widths == doubled else widths
    return values | {"block": kind}


def _widths(card: Card) -> list[int]:
    c = card.config
    return list(c["widths"] or doubled_widths(c["width"], len(c["depths"]), c["block"]))


_TIMM = TimmArguments(
    "ResNet",
    given=("layers", "channels", "in_chans"),
    fixed={
        **{"global_pool": ("avg",), "output_stride": (32,), "act_layer": ("relu",), "norm_layer": ("batchnorm",)},
        **{"stem_type": ("",), "stem_width": (64,), "replace_stem_pool": (False,), "aa_layer": (None,)},
        **{"cardinality": (1,), "base_width": (64,), "block_reduce_first": (1,), "block_args": (None,)},
        **{"down_kernel_size": (1,), "avg_down": (False,)},
    },
    architectures=r"resnet\d*",  # some of timm's ResNets differ in parts without weights, which only the name shows
)


def _write_timm(card: Card) -> dict[str, Any]:
    kind, depths = card.config["block"], list(card.config["depths"])
    if len(depths) != 4:
        raise UserError("timm's ResNet has four stages", got=f"{len(depths)} stages", hint='use layout="huggingface"')
    arguments = {"layers": depths, "in_chans": card.config["channels"]}
    architecture = {"basic": "resnet18", "bottleneck": "resnet50"}[kind]
    return timm_config(card, architecture, _widths(card)[-1], arguments)


def read_huggingface(config: Mapping[str, Any]) -> dict[str, Any]:
    """Read Hugging Face's config: sizes follow from the shapes, strides only from the config."""
    known = {"hidden_act": ("relu", "relu"), "downsample_in_first_stage": (False, False)}
    if config.get("layer_type", "bottleneck") == "bottleneck":
        known["downsample_in_bottleneck"] = (False, False)
    require("ResNet", config, known)
    return read_huggingface_image(config)


def write_huggingface_config(card: Card) -> dict[str, Any]:
    """Write transformers' config."""
    kind = card.config["block"]
    stem, widths = card.config["width"], _widths(card)
    others = {"layer_type": kind, "downsample_in_bottleneck": False}
    return write_huggingface(card, "ResNet", stem=stem, widths=widths, downsample_in_first_stage=False, **others)


_HEADED = (
    Layout(
        "timm",
        "resnet",
        timm_rows(),
        ("conv1.weight", "layer1.0.conv1.weight", "layer1.0.bn1.weight"),
        sizes,
        read_config=_TIMM.read,
        write_config=_write_timm,
        needs={"patch": 4, "width": 64, "widths": None},  # timm's stem always has 64 channels
    ),
    Layout(
        "huggingface",
        "resnet",
        huggingface_rows("resnet", layers=(0, 1, 2)),
        ("resnet.embedder.embedder.convolution.weight",),
        sizes,
        read_config=read_huggingface,
        write_config=write_huggingface_config,
        needs={"patch": 4},
    ),
)

LAYOUTS = (
    *_HEADED,
    *(encoder_alone(layout, "resnet.") for layout in _HEADED if layout.library == "huggingface"),
)
