"""The names of PVT: the authors' and Hugging Face's.

transformers has one norm epsilon; the authors use 1e-5 after patch embeddings and reductions and 1e-6 elsewhere, so the
outputs of the same weights differ in the fifth digit. A folder of transformers is read as transformers computes it; one
that we write states the second epsilon, which transformers ignores.
"""

from collections.abc import Mapping
from functools import partial
from math import isqrt, lcm
from typing import Any

from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.weights.names.configs import huggingface_config, require
from patchword.weights.names.name_table import Layout, Row, Shapes, encoder_alone, rows
from patchword.weights.names.timm import TimmArguments
from patchword.weights.names.vision.activations import activation_name, read_activation
from patchword.weights.names.vision.pyramids import (
    STAGES,
    authors_config,
    block_rows,
    check_sides,
    in_each_stage,
    pyramid_sizes,
    read_fields,
    write_fields,
)

_REDUCE = "attention.sublayer.projection.reduce.weight"


def _projection(
    ours: str, reduce: str, query: str, pair: tuple[str, ...], proportions: tuple[int, ...]
) -> tuple[Row, ...]:
    """With a reduction, the query has its own matrix; otherwise one matrix computes query, key and value.

    pair: their names of keys and values. proportions: relative sizes of the query and of each of the pair.
    """
    reduced = (ours + _REDUCE, reduce)
    joint = ours + "attention.sublayer.projection.joint.{p}"
    return (
        Row(ours + "attention.sublayer.projection.query.{p}", (query,), beside=reduced),
        Row(joint, pair, beside=reduced),
        Row(joint, (query, *pair), proportions=proportions),
    )


def _authors_rows() -> tuple[Row, ...]:
    found = rows(("norm.{p}", "norm.{p}"), ("head.linear.{p}", "head.{p}"))
    for stage in reversed(range(STAGES)):  # the only cls_token belongs to the last stage
        ours, number = f"stages.{stage}.", stage + 1
        here = (ours + "stem.norm.weight", f"patch_embed{number}.norm.weight")
        found += (Row(ours + "prefix.tokens", ("cls_token",), beside=here),)
        found += rows(
            (ours + "stem.patches.{p}", f"patch_embed{number}.proj.{{p}}"),
            (ours + "stem.norm.{p}", f"patch_embed{number}.norm.{{p}}"),
            (ours + "positions.table", f"pos_embed{number}"),
        )
        ours, theirs = ours + "encoder.blocks.{i}.", f"block{number}.{{i}}."
        found += _projection(ours, theirs + "attn.sr.weight", theirs + "attn.q.{p}", (theirs + "attn.kv.{p}",), (1, 2))
        found += block_rows(ours, theirs) + rows(
            (ours + "attention.sublayer.projection.reduce.{p}", theirs + "attn.sr.{p}"),
            (ours + "attention.sublayer.projection.norm.{p}", theirs + "attn.norm.{p}"),
            (ours + "attention.sublayer.output.{p}", theirs + "attn.proj.{p}"),
        )
    return found


def _huggingface_rows() -> tuple[Row, ...]:
    found = rows(("norm.{p}", "pvt.encoder.layer_norm.{p}"), ("head.linear.{p}", "classifier.{p}"))
    for stage in range(STAGES):
        ours, theirs = f"stages.{stage}.", f"pvt.encoder.patch_embeddings.{stage}."
        found += rows(
            (ours + "stem.patches.{p}", theirs + "projection.{p}"),
            (ours + "stem.norm.{p}", theirs + "layer_norm.{p}"),
            (ours + "prefix.tokens", theirs + "cls_token"),
            (ours + "positions.table", theirs + "position_embeddings"),
        )
        ours, theirs = ours + "encoder.blocks.{i}.", f"pvt.encoder.block.{stage}.{{i}}."
        inner = theirs + "attention.self."
        pair = (inner + "key.{p}", inner + "value.{p}")
        found += _projection(ours, inner + "sequence_reduction.weight", inner + "query.{p}", pair, (1, 1, 1))
        found += block_rows(ours, theirs, ("layer_norm_1", "layer_norm_2", "mlp.dense1", "mlp.dense2")) + rows(
            (ours + "attention.sublayer.projection.reduce.{p}", inner + "sequence_reduction.{p}"),
            (ours + "attention.sublayer.projection.norm.{p}", inner + "layer_norm.{p}"),
            (ours + "attention.sublayer.output.{p}", theirs + "attention.output.dense.{p}"),
        )
    return found


def sizes(shapes: Shapes) -> dict[str, Any]:
    """Infer all sizes except the heads; the image is assumed to be square."""
    values = pyramid_sizes(shapes)
    convolutions = [shapes.get(name, (0, 0, 1, 1)) for name in in_each_stage(len(values["depths"]), _REDUCE)]
    values["reductions"] = tuple(shape[2] for shape in convolutions)
    if (table := shapes.get("stages.0.positions.table")) and "patch" in values:
        prefix = shapes.get("stages.0.prefix.tokens", (1, 0))[1]
        values["image"] = isqrt(table[1] - prefix) * values["patch"]
    return values


_FIELDS = {
    "image": "img_size",
    "channels": "in_chans",
    "patch": "patch_size",
    "widths": "embed_dims",
    "depths": "depths",
    "heads": "num_heads",
    "mlp_ratios": "mlp_ratios",
    "reductions": "sr_ratios",
    "drop_path": "drop_path_rate",
    "dropout": "drop_rate",
    "attention_dropout": "attn_drop_rate",
}
_IN_HUGGINGFACE = {
    "image": "image_size",
    "channels": "num_channels",
    "widths": "hidden_sizes",
    "depths": "depths",
    "heads": "num_attention_heads",
    "mlp_ratios": "mlp_ratios",
    "reductions": "sequence_reduction_ratios",
    "drop_path": "drop_path_rate",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "norm_eps": "layer_norm_eps",
    "qkv_bias": "qkv_bias",
}


_ARGUMENTS = TimmArguments(
    "PVT", {**_FIELDS, "qkv_bias": "qkv_bias"}, given=("num_stages",), fixed={"qk_scale": (None,), "F4": (False,)}
)
_STEM_EPS = "embedding_norm_eps"  # our field in their config


def _write_authors(card: Card) -> dict[str, Any]:
    _check(card, "the authors' PVT")
    return authors_config(card, _FIELDS)


def _write_huggingface(card: Card) -> dict[str, Any]:
    _check(card, "transformers' PVT")
    stages = len(card.config["depths"])
    patches = [card.config["patch"], *[2] * (stages - 1)]
    fixed = {"num_encoder_blocks": stages, "patch_sizes": patches, "strides": patches}
    fixed |= {"hidden_act": activation_name(card.config["activation"]), _STEM_EPS: card.config["stem_eps"]}
    fields = {**write_fields(card, _IN_HUGGINGFACE), **fixed, "num_labels": card.config["classes"]}
    return huggingface_config(card, "PvtForImageClassification", "pvt", fields)


def _read_huggingface(config: Mapping[str, Any]) -> dict[str, Any]:
    """Read Hugging Face's config. Lists may be longer than the number of stages; the heads have a default."""
    stages = config.get("num_encoder_blocks", 4)
    patches = [4, *[2] * (stages - 1)]
    kernels, strides = (list(config.get(field, patches))[:stages] for field in ("strides", "patch_sizes"))
    require(
        "PVT", {"patch_sizes": strides, "strides": kernels}, dict.fromkeys(("patch_sizes", "strides"), (0, patches))
    )
    values = {"heads": (1, 2, 5, 8), "norm_eps": 1e-6, **read_fields(config, _IN_HUGGINGFACE)}
    values["stem_eps"] = config.get(_STEM_EPS, values["norm_eps"])
    values["activation"] = read_activation("PVT", config)
    return {field: value[:stages] if isinstance(value, tuple) else value for field, value in values.items()}


def _check(card: Card, title: str) -> None:
    """Other implementations drop incomplete patches and cannot reduce the stage that has [CLS]."""
    c = card.config
    if c["reductions"][-1] != 1:
        raise UserError(
            f"{title} does not reduce its last stage", expected="reductions that end in 1", got=c["reductions"]
        )
    unit = lcm(*(c["patch"] * 2**stage * reduction for stage, reduction in enumerate(c["reductions"])))
    check_sides(card, unit, title, square=True)


_layout = partial(Layout, family="pvt", sizes=sizes)

_HEADED = (
    _layout(
        "authors",
        table=_authors_rows(),
        distinct=("patch_embed1.proj.weight", "pos_embed1", "block1.0.attn.q.weight"),
        read_config=_ARGUMENTS.read,
        write_config=_write_authors,
        needs={"position": "learned", "norm_eps": 1e-6, "stem_eps": 1e-5, "activation": "gelu", "qkv_bias": True},
    ),
    _layout(
        "huggingface",
        table=_huggingface_rows(),
        distinct=("pvt.encoder.patch_embeddings.0.projection.weight",),
        read_config=_read_huggingface,
        write_config=_write_huggingface,
        needs={"position": "learned", "patch": 4},
    ),
)

LAYOUTS = (
    *_HEADED,
    *(encoder_alone(layout, "pvt.") for layout in _HEADED if layout.library == "huggingface"),
)
