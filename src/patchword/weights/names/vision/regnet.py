"""The names of RegNetY and RegNetX: timm's, in which the teacher of DeiT was published, and Hugging Face's."""

from collections.abc import Mapping
from typing import Any

from patchword.core.card import Card
from patchword.core.errors import UserError
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


def _timm_rows() -> tuple[Row, ...]:
    found = conv_norm("stages.0.stem.first", "stem.conv", "stem.bn") + rows(("head.linear.{p}", "head.fc.{p}"))
    for stage in range(STAGES):
        ours, theirs = f"stages.{stage}.blocks.{{i}}.", f"s{stage + 1}.b{{n}}."
        pairs = [(f"branch.{place}", f"conv{number + 1}.") for number, place in enumerate(PLACES)]
        for part, name in [*pairs, ("shortcut", "downsample.")]:
            found += conv_norm(ours + part, f"{theirs}{name}conv", f"{theirs}{name}bn")
        found += rows(
            (ours + "branch.weighing.squeeze.{p}", theirs + "se.fc1.{p}"),
            (ours + "branch.weighing.excite.{p}", theirs + "se.fc2.{p}"),
        )
    return found


def _huggingface_rows(squeezes: bool) -> tuple[Row, ...]:
    found = huggingface_rows("regnet", layers=(0, 1, 3 if squeezes else 2))
    for stage in range(STAGES):
        ours, theirs = f"stages.{stage}.blocks.{{i}}.branch.weighing.", f"regnet.encoder.stages.{stage}.layers.{{i}}."
        found += rows(
            (ours + "squeeze.{p}", theirs + "layer.2.attention.0.{p}"),
            (ours + "excite.{p}", theirs + "layer.2.attention.2.{p}"),
        )
    return found


def sizes(shapes: Shapes) -> dict[str, Any]:
    values = convolution_sizes(shapes)
    values.pop("kernel", None)
    grouped = [shapes.get(f"stages.{stage}.blocks.0.branch.second.convolution.weight") for stage in range(STAGES)]
    found = [shape for shape in grouped if shape]
    group = {"group": max(shape[1] for shape in found)} if found else {}  # a narrower stage has one group
    return values | {"widths": tuple(shape[0] for shape in found)} | group


_NAMED = {  # by their GF: widths, depths, group (tables 5 to 7 of the paper)
    "002": ((24, 56, 152, 368), (1, 1, 4, 7), 8),
    "004": ((48, 104, 208, 440), (1, 3, 6, 6), 8),
    "006": ((48, 112, 256, 608), (1, 3, 7, 4), 16),
    "008": ((64, 128, 320, 768), (1, 3, 8, 2), 16),
    "016": ((48, 120, 336, 888), (2, 6, 17, 2), 24),
    "032": ((72, 216, 576, 1512), (2, 5, 13, 1), 24),
    "040": ((128, 192, 512, 1088), (2, 6, 12, 2), 64),
    "064": ((144, 288, 576, 1296), (2, 7, 14, 2), 72),
    "080": ((168, 448, 896, 2016), (2, 4, 10, 1), 56),
    "120": ((224, 448, 896, 2240), (2, 5, 11, 1), 112),
    "160": ((224, 448, 1232, 3024), (2, 4, 11, 1), 112),
    "320": ((232, 696, 1392, 3712), (2, 5, 12, 1), 232),
}


def _write_timm(card: Card) -> dict[str, Any]:
    """Write timm's config. timm computes widths and depths from a linear rule, so they can only be set by name."""
    found = (card.config["widths"], card.config["depths"], card.config["group"])
    architecture = next((f"regnety_{name}" for name, known in _NAMED.items() if known == found), None)
    if architecture is None:
        raise UserError(
            "timm has no RegNetY of these sizes",
            expected="the widths, depths and group of a model of the paper",
            got=f"widths {found[0]}, depths {found[1]}, group {found[2]}",
            hint='use layout="huggingface" or layout="patchword"',
        )
    arguments = {"in_chans": card.config["channels"], "stem_width": card.config["stem"]}
    return timm_config(card, architecture, card.config["widths"][-1], arguments)


def _read_huggingface(config: Mapping[str, Any]) -> dict[str, Any]:
    require("RegNet", config, {"hidden_act": ("relu", "relu"), "downsample_in_first_stage": (True, True)})
    return {"group": config.get("groups_width", 64), **read_huggingface_image(config)}


def _write_huggingface(card: Card) -> dict[str, Any]:
    stem, widths, group = (card.config[field] for field in ("stem", "widths", "group"))
    others = {"groups_width": group, "layer_type": "y" if card.config["squeeze_excite"] else "x"}
    return write_huggingface(card, "RegNet", stem=stem, widths=widths, downsample_in_first_stage=True, **others)


def _timm(squeezes: bool) -> TimmArguments:
    """Return what timm's config may state. Its other networks with these names differ in parts without weights."""
    return TimmArguments(
        "RegNet",
        given=("in_chans", "depth", "w0", "wa", "wm", "group_size", "group_min_ratio", "stem_width"),
        fixed={
            **{"global_pool": ("avg",), "output_stride": (32,), "act_layer": ("relu",), "norm_layer": ("batchnorm",)},
            **{"se_ratio": (0.25,) if squeezes else (0, None), "bottle_ratio": (1,), "downsample": ("conv1x1",)},
            **{"linear_out": (False,), "preact": (False,), "num_features": (0,)},
        },
        architectures=r"regnet[xy]_\d+(_tv)?" if squeezes else r"regnetx_\d+(_tv)?",
    )


def _layouts(squeezes: bool) -> tuple[Layout, Layout]:
    needs = {"squeeze_excite": squeezes}
    part = "attention.0" if squeezes else "convolution"
    return (
        Layout(
            "timm",
            "regnety",
            _timm_rows(),
            ("stem.conv.weight", "s1.b1.conv1.conv.weight", *(("s1.b1.se.fc1.weight",) if squeezes else ())),
            sizes,
            implied=needs,
            read_config=_timm(squeezes).read,
            write_config=_write_timm,
            needs={"squeeze_excite": True},  # of RegNetX, timm's files are only read
        ),
        Layout(
            "huggingface",
            "regnety",
            _huggingface_rows(squeezes),
            (f"regnet.encoder.stages.0.layers.0.layer.2.{part}.weight",),
            sizes,
            implied=needs,
            read_config=_read_huggingface,
            write_config=_write_huggingface,
            needs=needs,
        ),
    )


_HEADED = (*_layouts(squeezes=True), *_layouts(squeezes=False))

LAYOUTS = (
    *_HEADED,
    *(encoder_alone(layout, "regnet.") for layout in _HEADED if layout.library == "huggingface"),
)
