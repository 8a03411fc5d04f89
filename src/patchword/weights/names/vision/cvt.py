"""The names of CvT: the authors' and Hugging Face's.

transformers runs CvT with the exact GELU, the authors with QuickGELU, so the outputs differ. config.json has no field
for it; we write hidden_act, so that a folder states the activation of its weights. In other folders the version
decides: the authors' weights were converted before CvT was in a release of transformers (4.20), so an older version
means QuickGELU; a folder that a release wrote computes there with the exact GELU. A warning names the choice.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.models.vision.config import per_stage
from patchword.models.vision.cvt import CvtConfig
from patchword.weights.names.configs import (
    huggingface_config,
    read_huggingface_image,
    require,
    timm_config,
)
from patchword.weights.names.name_table import Layout, Row, Shapes, encoder_alone, rows
from patchword.weights.names.timm import TimmArguments
from patchword.weights.names.vision.pyramids import STAGES, block_rows, pyramid_sizes


def _authors_rows() -> tuple[Row, ...]:
    found = rows(("norm.{p}", "norm.{p}"), ("head.linear.{p}", "head.{p}"))
    for stage in range(STAGES):
        ours, theirs = f"stages.{stage}.", f"stage{stage}."
        found += rows(
            (ours + "stem.patches.convolution.{p}", theirs + "patch_embed.proj.{p}"),
            (ours + "stem.norm.{p}", theirs + "patch_embed.norm.{p}"),
            (ours + "prefix.tokens", theirs + "cls_token"),
        )
        ours, theirs = ours + "encoder.blocks.{i}.", theirs + "blocks.{i}."
        found += block_rows(ours, theirs) + rows((ours + "attention.sublayer.output.{p}", theirs + "attn.proj.{p}"))
        for part in ("query", "key", "value"):
            one, other = f"{ours}attention.sublayer.projection.{part}.", f"{theirs}attn."
            found += rows(
                (one + "depthwise.convolution.{p}", f"{other}conv_proj_{part[0]}.conv.{{p}}"),
                (one + "depthwise.norm.{p}", f"{other}conv_proj_{part[0]}.bn.{{p}}"),
                (one + "linear.{p}", f"{other}proj_{part[0]}.{{p}}"),
            )
    return found


def _huggingface_rows() -> tuple[Row, ...]:
    found = rows(("norm.{p}", "layernorm.{p}"), ("head.linear.{p}", "classifier.{p}"))
    for stage in range(STAGES):
        ours, theirs = f"stages.{stage}.", f"cvt.encoder.stages.{stage}."
        embedding = theirs + "embedding.convolution_embeddings."
        found += rows(
            (ours + "stem.patches.convolution.{p}", embedding + "projection.{p}"),
            (ours + "stem.norm.{p}", embedding + "normalization.{p}"),
            (ours + "prefix.tokens", theirs + "cls_token"),
        )
        ours, theirs = ours + "encoder.blocks.{i}.", theirs + "layers.{i}."
        names = ("layernorm_before", "layernorm_after", "intermediate.dense", "output.dense")
        found += block_rows(ours, theirs, names)
        found += rows((ours + "attention.sublayer.output.{p}", theirs + "attention.output.dense.{p}"))
        for part in ("query", "key", "value"):
            one, other = f"{ours}attention.sublayer.projection.{part}.", f"{theirs}attention.attention."
            convolution = f"{other}convolution_projection_{part}.convolution_projection."
            found += rows(
                (one + "depthwise.convolution.{p}", convolution + "convolution.{p}"),
                (one + "depthwise.norm.{p}", convolution + "normalization.{p}"),
                (one + "linear.{p}", f"{other}projection_{part}.{{p}}"),
            )
    return found


def sizes(shapes: Shapes) -> dict[str, Any]:
    """Infer sizes; neither the heads nor the stride of the keys can be inferred from the shapes."""
    values = pyramid_sizes(shapes)
    mlp_ratios = values.pop("mlp_ratios")
    return values | ({"mlp_ratio": _one_if_equal(mlp_ratios)} if mlp_ratios else {})


def _one_if_equal(values: Sequence[Any]) -> Any:
    """Return the value that all stages have; one per stage if they differ."""
    return values[0] if len(set(values)) == 1 else tuple(values)


_FIRST_RELEASE = (4, 20)  # of transformers that has CvT
_ACTIVATIONS = {"quick_gelu": "quick-gelu", "gelu": "gelu"}
# Fields with one value per stage: Hugging Face's name -> the authors'.
_PER_STAGE = {
    "patch_sizes": "PATCH_SIZE",
    "patch_stride": "PATCH_STRIDE",
    "patch_padding": "PATCH_PADDING",
    "embed_dim": "DIM_EMBED",
    "num_heads": "NUM_HEADS",
    "depth": "DEPTH",
    "mlp_ratio": "MLP_RATIO",
    "attention_drop_rate": "ATTN_DROP_RATE",
    "drop_rate": "DROP_RATE",
    "drop_path_rate": "DROP_PATH_RATE",
    "qkv_bias": "QKV_BIAS",
    "cls_token": "CLS_TOKEN",
    "qkv_projection_method": "QKV_PROJ_METHOD",
    "kernel_qkv": "KERNEL_QKV",
    "padding_q": "PADDING_Q",
    "padding_kv": "PADDING_KV",
    "stride_q": "STRIDE_Q",
    "stride_kv": "STRIDE_KV",
}


def _per_stage(c: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the fields of _PER_STAGE for one of our configs."""
    stages = len(c["depths"])
    later = stages - 1
    every = {
        "attention_drop_rate": c["attention_dropout"],
        "drop_rate": c["dropout"],
        "qkv_projection_method": "dw_bn",
        "kernel_qkv": 3,
        "padding_q": 1,
        "padding_kv": 1,
        "stride_q": 1,
    }
    kernels, strides, paddings = zip(*CvtConfig(**c).stage_stems, strict=True)
    return {
        "patch_sizes": list(kernels),
        "patch_stride": list(strides),
        "patch_padding": list(paddings),
        "mlp_ratio": [float(ratio) for ratio in per_stage(c["mlp_ratio"], stages)],
        "qkv_bias": list(per_stage(c["qkv_bias"], stages)),
        "stride_kv": list(per_stage(c["stride"], stages)),
        "embed_dim": list(c["widths"]),
        "num_heads": list(c["heads"]),
        "depth": list(c["depths"]),
        "drop_path_rate": [*[0.0] * later, c["drop_path"]],
        "cls_token": [*[False] * later, True],
        **{field: [value] * stages for field, value in every.items()},
    }


def _read_per_stage(config: Mapping[str, Any], names: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The inverse of `_per_stage`. names: of the fields in the messages, if not transformers'.

    Lists may be longer than the number of stages; missing fields get transformers' default.
    """
    names = names or {}
    defaults = _per_stage(asdict(CvtConfig(drop_path=0.1)))
    stages = len(config.get("depth", defaults["depth"]))
    got = {field: list(config.get(field, value))[:stages] for field, value in defaults.items()}
    values = {
        "widths": tuple(got["embed_dim"]),
        "depths": tuple(got["depth"]),
        "heads": tuple(got["num_heads"]),
        "patch": got["patch_stride"][0],
        "stems": tuple(zip(*(got[f"patch_{part}"] for part in ("sizes", "stride", "padding")), strict=True)),
        "stride": _one_if_equal(got["stride_kv"]),
        "mlp_ratio": _one_if_equal(got["mlp_ratio"]),
        "qkv_bias": _one_if_equal(got["qkv_bias"]),
        "dropout": got["drop_rate"][0],
        "attention_dropout": got["attention_drop_rate"][0],
        "drop_path": got["drop_path_rate"][-1],
    }
    if values["stems"] == CvtConfig(**{**values, "stems": None}).stage_stems:
        values["stems"] = None
    wanted = {names.get(field, field): (value, value) for field, value in _per_stage(values).items()}
    require("CvT", {names.get(field, field): value for field, value in got.items()}, wanted)
    return values


def _read_huggingface(config: Mapping[str, Any]) -> dict[str, Any]:
    default = "gelu" if _is_of_a_release(config) else "quick-gelu"
    activation = _ACTIVATIONS.get(config.get("hidden_act", ""), default)
    return _read_per_stage(config) | read_huggingface_image(config) | {"activation": activation}


def _is_of_a_release(config: Mapping[str, Any]) -> bool:
    """True if a release of transformers that has CvT wrote the config, False for the conversion of the authors'."""
    version = str(config.get("transformers_version", ""))
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is None:
        return False
    found = (int(numbers[1]), int(numbers[2]))
    return found > _FIRST_RELEASE or (found == _FIRST_RELEASE and "dev" not in version)


def _unstated(config: Mapping[str, Any]) -> dict[str, str]:
    """Return a note on the activation if a config of transformers does not state it."""
    if not config or config.get("hidden_act") in _ACTIVATIONS:
        return {}
    note = (
        'the exact GELU is used, as in transformers; the authors trained with QuickGELU: activation="quick-gelu"'
        if _is_of_a_release(config)
        else "QuickGELU is used, with which the authors trained; "
        'transformers computes the exact GELU: activation="gelu" gives its outputs'
    )
    return {"activation": f"this CvT does not state its activation: {note}"}


def _write_huggingface(card: Card) -> dict[str, Any]:
    c = card.config
    if any(depth <= stage for stage, depth in enumerate(c["depths"])):
        expected = ", ".join(str(stage + 1) for stage in range(len(c["depths"])))
        raise UserError("transformers cannot build this CvT", expected=f"depths from {expected} on", got=c["depths"])
    activation = next((theirs for theirs, ours in _ACTIVATIONS.items() if ours == c["activation"]), None)
    if activation is None:
        expected = f"activation {' or '.join(_ACTIVATIONS.values())}"
        raise UserError("CvT has one activation in transformers", expected=expected, got=c["activation"])
    sizes = {"num_channels": c["channels"], "image_size": c["image"], "hidden_act": activation}
    return huggingface_config(card, "CvtForImageClassification", "cvt", _per_stage(c) | sizes)


_ARGUMENTS = TimmArguments(  # the authors' code reads no POS_EMBED, and has no positions
    "CvT", given=(*_PER_STAGE.values(), "NUM_STAGES", "INIT", "POS_EMBED")
)


def _read_authors(config: Mapping[str, Any]) -> dict[str, Any]:
    values, arguments = _ARGUMENTS.read(config), config.get("model_args") or {}
    known = {theirs: arguments[name] for theirs, name in _PER_STAGE.items() if name in arguments}
    return values | (_read_per_stage(known, _PER_STAGE) if known else {})


def _write_authors(card: Card) -> dict[str, Any]:
    """Write the SPEC of the authors' model in timm's format, since the authors have no config.json."""
    spec = {_PER_STAGE[field]: value for field, value in _per_stage(card.config).items()}
    return timm_config(card, None, card.config["widths"][-1], spec)


_layout = partial(Layout, family="cvt", sizes=sizes)
_NEEDS = {"position": "none", "norm_eps": 1e-5}

_HEADED = (
    _layout(
        "authors",
        table=_authors_rows(),
        distinct=("stage0.patch_embed.proj.weight", "stage0.blocks.0.attn.conv_proj_q.conv.weight"),
        read_config=_read_authors,
        write_config=_write_authors,
        needs={**_NEEDS, "activation": "quick-gelu"},
    ),
    _layout(
        "huggingface",
        table=_huggingface_rows(),
        distinct=("cvt.encoder.stages.0.embedding.convolution_embeddings.projection.weight",),
        read_config=_read_huggingface,
        write_config=_write_huggingface,
        unstated=_unstated,
        needs=_NEEDS,
    ),
)

LAYOUTS = (
    *_HEADED,
    *(
        encoder_alone(layout, "cvt.", created=("norm.weight", "norm.bias"))
        for layout in _HEADED
        if layout.library == "huggingface"
    ),
)
