"""The names of Swin: the authors', timm's from 0.9 on, and Hugging Face's. Older files of timm have the authors' names.

The authors and Hugging Face merge patches at the end of a stage, timm and we at the start of the next one. Files are
written only for image sizes at which no map is padded, where all four are the same network.
"""

import re
from collections.abc import Mapping
from functools import partial
from math import isqrt
from typing import Any

from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.core.grid import sides
from patchword.weights.names.configs import huggingface_config, one_or_two, timm_config
from patchword.weights.names.name_table import Layout, Row, Shapes, encoder_alone, rows
from patchword.weights.names.timm import TimmArguments
from patchword.weights.names.vision.activations import activation_name, read_activation
from patchword.weights.names.vision.pyramids import (
    STAGES,
    authors_config,
    check_sides,
    doubling_sizes,
    in_each_stage,
    last_width,
    read_fields,
    write_fields,
)

_TABLE = "attention.sublayer.patterns.0.position.table"
_OURS = (
    "attention.norm.{p}",
    "attention.sublayer.projection.joint.{p}",
    _TABLE,
    "attention.sublayer.output.{p}",
    "feed_forward.norm.{p}",
    "feed_forward.sublayer.up.{p}",
    "feed_forward.sublayer.down.{p}",
)
_Names = tuple[str | tuple[str, ...], ...]
_OFFICIAL: _Names = (
    "norm1.{p}",
    "attn.qkv.{p}",
    "attn.relative_position_bias_table",
    "attn.proj.{p}",
    "norm2.{p}",
    "mlp.fc1.{p}",
    "mlp.fc2.{p}",
)
# What Hugging Face calls the tensors of a block: in files, and in the memory of transformers 5.
IN_FILES: _Names = (
    "layernorm_before.{p}",
    tuple(f"attention.self.{part}.{{p}}" for part in ("query", "key", "value")),
    "attention.self.relative_position_bias_table",
    "attention.output.dense.{p}",
    "layernorm_after.{p}",
    "intermediate.dense.{p}",
    "output.dense.{p}",
)
IN_MEMORY: _Names = (
    "layernorm_before.{p}",
    tuple(f"attention.{part}_proj.{{p}}" for part in "qkv"),
    "attention.relative_position_bias.relative_position_bias_table",
    "attention.o_proj.{p}",
    "layernorm_after.{p}",
    "mlp.fc1.{p}",
    "mlp.fc2.{p}",
)


def _stage_rows(root: str, block: _Names, merge: int) -> tuple[Row, ...]:
    """Return the rows of the stages. merge: the index of their stage that has the patch merging before our stage 1."""
    found: tuple[Row, ...] = ()
    for stage in range(1, STAGES):
        ours, theirs = f"stages.{stage}.stem.", f"{root}.{stage - 1 + merge}.downsample."
        found += rows((ours + "norm.{p}", theirs + "norm.{p}"), (ours + "reduce.{p}", theirs + "reduction.{p}"))
    for stage in range(STAGES):
        ours, theirs = f"stages.{stage}.encoder.blocks.{{i}}.", f"{root}.{stage}.blocks.{{i}}."
        for our_name, names in zip(_OURS, block, strict=True):
            joined = (names,) if isinstance(names, str) else names
            found += rows((ours + our_name, tuple(theirs + name for name in joined)))
    return found


def official_rows(merge: int, head: str) -> tuple[Row, ...]:
    """Return the rows of the authors' names, which timm shares. merge: see `_stage_rows`. head: their linear layer."""
    return rows(
        ("stages.0.stem.patches.{p}", "patch_embed.proj.{p}"),
        ("stages.0.stem.norm.{p}", "patch_embed.norm.{p}"),
        ("norm.{p}", "norm.{p}"),
        ("head.linear.{p}", head),
    ) + _stage_rows("layers", _OFFICIAL, merge)


def huggingface_rows(block: _Names) -> tuple[Row, ...]:
    """Return the rows of transformers' names. block: `IN_FILES` or `IN_MEMORY`."""
    return rows(
        ("stages.0.stem.patches.{p}", "swin.embeddings.patch_embeddings.projection.{p}"),
        ("stages.0.stem.norm.{p}", "swin.embeddings.norm.{p}"),
        ("stages.0.positions.table", "swin.embeddings.position_embeddings"),
        ("norm.{p}", "swin.layernorm.{p}"),
        ("head.linear.{p}", "classifier.{p}"),
    ) + _stage_rows("swin.encoder.layers", block, merge=0)


def sizes(shapes: Shapes) -> dict[str, Any]:
    """Infer sizes; the relative position tables give the window (rows) and the heads (columns)."""
    values = doubling_sizes(shapes)
    tables = [shapes[name] for name in in_each_stage(len(values["depths"]), _TABLE) if name in shapes]
    if tables:
        values |= {"window": (isqrt(tables[0][0]) + 1) // 2, "heads": tuple(heads for _, heads in tables)}
    return values


_FIELDS = {
    "image": "img_size",
    "patch": "patch_size",
    "channels": "in_chans",
    "width": "embed_dim",
    "depths": "depths",
    "heads": "num_heads",
    "window": "window_size",
    "mlp_ratio": "mlp_ratio",
    "drop_path": "drop_path_rate",
    "dropout": "drop_rate",
    "attention_dropout": "attn_drop_rate",
    "qkv_bias": "qkv_bias",
}
_IN_TIMM = {**_FIELDS, "dropout": "proj_drop_rate"}
IN_HUGGINGFACE = {
    **_FIELDS,
    "image": "image_size",
    "channels": "num_channels",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "absolute_positions": "use_absolute_embeddings",
    "norm_eps": "layer_norm_eps",
}


_AUTHORS = TimmArguments(
    "Swin",
    _FIELDS,
    given=("fused_window_process",),
    fixed={"qk_scale": (None,), "ape": (False,), "patch_norm": (True,)},
)
_TIMM = TimmArguments(
    "Swin",
    _IN_TIMM,
    fixed={"global_pool": ("avg",), "head_dim": (None,), "always_partition": (False,), "ape": (False,)}
    | {"patch_norm": (True,)},
    architectures=r"swin_(tiny|small|base|large)_patch\d+_window\d+_\d+(_in22k|_in22ft1k)?",
)


def _read_timm(config: Mapping[str, Any]) -> dict[str, Any]:
    """Read timm's config; the name of the architecture has the sizes that the arguments do not state."""
    values = _TIMM.read(config)
    named = re.search(r"_patch(\d+)_window(\d+)_", str(config.get("architecture")))
    sizes_of_name = {"patch": int(named[1]), "window": int(named[2])} if named else {}
    _check_maps({**sizes_of_name, **values}, "img_size")
    return values


def _read_authors(config: Mapping[str, Any]) -> dict[str, Any]:
    values = _AUTHORS.read(config)
    _check_maps(values, "img_size")
    return values


def _write_authors(card: Card) -> dict[str, Any]:
    _check_shifts(card, "the authors' Swin")
    return authors_config(card, _FIELDS)


def _write_timm(card: Card) -> dict[str, Any]:
    check_sides(card, _unit(card), "timm's Swin")
    return timm_config(card, "swin_tiny_patch4_window7_224", last_width(card), write_fields(card, _IN_TIMM))


def _write_huggingface(card: Card) -> dict[str, Any]:
    _check_shifts(card, "transformers' Swin")
    fields = write_fields(card, IN_HUGGINGFACE) | {"hidden_act": activation_name(card.config["activation"])}
    return huggingface_config(card, "SwinForImageClassification", "swin", fields)


def read_huggingface(config: Mapping[str, Any]) -> dict[str, Any]:
    """Read our fields from transformers' config."""
    values = {**read_fields(config, IN_HUGGINGFACE), "activation": read_activation("Swin", config)}
    for field in ("image", "patch"):
        values |= {field: one_or_two(values[field])} if field in values else {}
    if not isinstance(values.get("patch", 4), int):
        raise UserError("this Swin has other strides than ours", expected="a square patch_size", got=values["patch"])
    return values


def _read_classifier(config: Mapping[str, Any]) -> dict[str, Any]:
    values = read_huggingface(config)
    _check_maps(values, "image_size")
    return values


def _check_maps(values: Mapping[str, Any], image: str) -> None:
    """Refuse an image size at which tokens attend to padding elsewhere, which is masked here. image: its field there"""
    c = {"image": 224, "patch": 4, "depths": (2, 2, 6, 2), "window": 7, **values}
    for stage in range(len(c["depths"])):
        rows, columns = (-(-side // (c["patch"] * 2**stage)) for side in sides(c["image"]))
        if rows % c["window"] or columns % c["window"]:
            raise UserError(
                "this Swin attends to padding, which is masked here",
                expected=f"an {image} that window_size {c['window']} divides in every stage",
                got=f"{image} {c['image']}: a map of {rows} x {columns} in stage {stage + 1}",
            )


def _unit(card: Card) -> int:
    """Return the number that must divide the sides of the image for the window to divide every map."""
    c = card.config
    return int(c["patch"] * 2 ** (len(c["depths"]) - 1) * c["window"])


def _check_shifts(card: Card, title: str) -> None:
    """Refuse sizes with different shifts: we treat each side separately, others shift neither if one is short."""
    check_sides(card, _unit(card), title)
    height, width = sides(card.config["image"])
    if height != width and min(height, width) == _unit(card):
        raise UserError(f"{title} shifts no window in the last stage", expected="a square image", got=(height, width))


def _check_reading(card: Card, image: str) -> None:
    """Refuse images of which one side's map is within the window and the other's is not: see `_check_shifts`.

    image: the field of the other library
    """
    c = card.config
    for stage in range(len(c["depths"])):
        height, width = (-(-side // (c["patch"] * 2**stage)) for side in sides(c["image"]))
        if (height <= c["window"]) != (width <= c["window"]):
            raise UserError(
                f"this Swin shifts no window in stage {stage + 1}, where one side of its map fits into a window",
                expected="a square image, or longer sides",
                got=f"{image} {sides(c['image'])}",
            )


def buffers(root: str, *names: str) -> tuple[str, ...]:
    """Return their tensors in each block that are not learned."""
    return tuple(f"{root}.{stage}.blocks.{{i}}.{name}" for stage in range(STAGES) for name in names)


_layout = partial(Layout, family="swin", sizes=sizes)
_PLAIN = {"absolute_positions": False, "activation": "gelu", "norm_eps": 1e-5}
_official = partial(
    _layout,
    needs={"position": "relative", **_PLAIN},
    dropped=buffers("layers", "attn_mask", "attn.relative_position_index"),
)
_huggingface = partial(
    _layout,
    "huggingface",
    check=partial(_check_reading, image="image_size"),
    dropped=buffers("swin.encoder.layers", "attention.self.relative_position_index"),
    read_config=_read_classifier,
    needs={"position": "relative"},
)
_ANY = "layers.0.blocks.0.attn.relative_position_bias_table"

# The authors' merges are in stages 0, 1, 2, timm's in 1, 2, 3, so the authors' layout comes first.
_HEADED = (
    _official(
        "authors",
        check=partial(_check_reading, image="img_size"),
        table=official_rows(merge=0, head="head.{p}"),
        distinct=(_ANY, "layers.0.downsample.reduction.weight"),
        read_config=_read_authors,
        write_config=_write_authors,
    ),
    _official(
        "timm",
        table=official_rows(merge=1, head="head.fc.{p}"),
        distinct=(_ANY, "layers.1.downsample.reduction.weight"),
        read_config=_read_timm,
        write_config=_write_timm,
    ),
    _huggingface(
        table=huggingface_rows(IN_FILES),
        distinct=("swin.encoder.layers.0.blocks.0.attention.self.relative_position_bias_table",),
        write_config=_write_huggingface,
    ),
    _huggingface(
        table=huggingface_rows(IN_MEMORY),
        distinct=("swin.encoder.layers.0.blocks.0.attention.q_proj.weight",),
    ),
)

LAYOUTS = (
    *_HEADED,
    *(encoder_alone(layout, "swin.") for layout in _HEADED if layout.library == "huggingface"),
)
