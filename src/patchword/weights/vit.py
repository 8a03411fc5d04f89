"""Other libraries' names for ViT and DeiT. The DeiT authors' files use timm's names."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.core.grid import sides
from patchword.models.vision.vit import VitConfig
from patchword.weights.naming import Layout, Row

_BLOCK = "stages.0.encoder.blocks.{i}."
_ACTIVATIONS = {"gelu": "gelu", "gelu-tanh": "gelu_pytorch_tanh"}


def _huggingface_rows(root: str, heads: Mapping[str, str], prefix: tuple[str, ...]) -> tuple[Row, ...]:
    layer = f"{root}.encoder.layer.{{i}}."
    joint = tuple(f"{layer}attention.attention.{part}.{{p}}" for part in ("query", "key", "value"))
    return (
        Row("stages.0.entrance.{p}", (f"{root}.embeddings.patch_embeddings.projection.{{p}}",)),
        Row("stages.0.prefix.tokens", tuple(f"{root}.embeddings.{name}" for name in prefix), dim=1),
        Row("stages.0.positions.table", (f"{root}.embeddings.position_embeddings",)),
        Row(_BLOCK + "attention.norm.{p}", (f"{layer}layernorm_before.{{p}}",)),
        Row(_BLOCK + "attention.sublayer.projection.joint.{p}", joint),
        Row(_BLOCK + "attention.sublayer.output.{p}", (f"{layer}attention.output.dense.{{p}}",)),
        Row(_BLOCK + "feed_forward.norm.{p}", (f"{layer}layernorm_after.{{p}}",)),
        Row(_BLOCK + "feed_forward.sublayer.up.{p}", (f"{layer}intermediate.dense.{{p}}",)),
        Row(_BLOCK + "feed_forward.sublayer.down.{p}", (f"{layer}output.dense.{{p}}",)),
        Row("norm.{p}", (f"{root}.layernorm.{{p}}",)),
        *(Row(f"head.{ours}.{{p}}", (f"{theirs}.{{p}}",)) for ours, theirs in heads.items()),
    )


def _timm_rows(heads: Mapping[str, str], prefix: tuple[str, ...]) -> tuple[Row, ...]:
    layer = "blocks.{i}."
    return (
        Row("stages.0.entrance.{p}", ("patch_embed.proj.{p}",)),
        Row("stages.0.prefix.tokens", prefix, dim=1),
        Row("stages.0.positions.table", ("pos_embed",)),
        Row(_BLOCK + "attention.norm.{p}", (layer + "norm1.{p}",)),
        Row(_BLOCK + "attention.sublayer.projection.joint.{p}", (layer + "attn.qkv.{p}",)),
        Row(_BLOCK + "attention.sublayer.output.{p}", (layer + "attn.proj.{p}",)),
        Row(_BLOCK + "feed_forward.norm.{p}", (layer + "norm2.{p}",)),
        Row(_BLOCK + "feed_forward.sublayer.up.{p}", (layer + "mlp.fc1.{p}",)),
        Row(_BLOCK + "feed_forward.sublayer.down.{p}", (layer + "mlp.fc2.{p}",)),
        Row("norm.{p}", ("norm.{p}",)),
        *(Row(f"head.{ours}.{{p}}", (f"{theirs}.{{p}}",)) for ours, theirs in heads.items()),
    )


def _read_huggingface(config: Mapping[str, Any]) -> dict[str, Any]:
    activation = {theirs: ours for ours, theirs in _ACTIVATIONS.items()}.get(config.get("hidden_act", "gelu"))
    if activation is None or not config.get("qkv_bias", True):
        raise UserError(
            "this ViT differs from the paper's",
            expected="hidden_act gelu and qkv_bias true",
            got=f"hidden_act {config.get('hidden_act')}, qkv_bias {config.get('qkv_bias')}",
        )
    image = config.get("image_size", 224)
    return {
        "width": config.get("hidden_size", 768),
        "depth": config.get("num_hidden_layers", 12),
        "heads": config.get("num_attention_heads", 12),
        "hidden": config.get("intermediate_size", 3072),
        "patch": config.get("patch_size", 16),
        "image": tuple(image) if isinstance(image, list) else image,
        "channels": config.get("num_channels", 3),
        "classes": len(config["id2label"]) if "id2label" in config else config.get("num_labels", 2),
        "activation": activation,
        "norm_eps": config.get("layer_norm_eps", 1e-12),
        "dropout": config.get("hidden_dropout_prob", 0.0),
        "attention_dropout": config.get("attention_probs_dropout_prob", 0.0),
    }


def _write_huggingface(card: Card) -> dict[str, Any]:
    c = VitConfig(**{field.name: card.config[field.name] for field in fields(VitConfig)})
    distilled = bool(card.config.get("distilled"))
    labels = card.labels or tuple(f"LABEL_{index}" for index in range(c.classes))
    return {
        "architectures": ["DeiTForImageClassificationWithTeacher" if distilled else "ViTForImageClassification"],
        "model_type": "deit" if distilled else "vit",
        "hidden_size": c.width,
        "num_hidden_layers": c.depth,
        "num_attention_heads": c.heads,
        "intermediate_size": c.hidden,
        "patch_size": c.patch,
        "image_size": c.image,
        "num_channels": c.channels,
        "hidden_act": _ACTIVATIONS[c.activation],
        "layer_norm_eps": c.norm_eps,
        "hidden_dropout_prob": c.dropout,
        "attention_probs_dropout_prob": c.attention_dropout,
        "qkv_bias": True,
        "id2label": {str(index): label for index, label in enumerate(labels)},
        "label2id": {label: index for index, label in enumerate(labels)},
    }


def _write_timm(card: Card) -> dict[str, Any]:
    size = next((part for part in ("tiny", "small", "base", "large", "huge") if part in card.model), "base")
    height, width = sides(card.config["image"])
    family = "deit" if card.config.get("distilled") else "vit"
    name = f"{family}_{size}_{'distilled_' if family == 'deit' else ''}patch{card.config['patch']}_{height}"
    return {
        "architecture": name,
        "num_classes": card.config["classes"],
        "num_features": card.config["width"],
        "model_args": {"img_size": [height, width], "in_chans": card.config["channels"]},
        "label_names": list(card.labels),
    }


def _layout(library: str, distilled: bool) -> Layout:
    family = "deit" if distilled else "vit"
    told = {"distilled": True} if distilled else {}
    if library == "timm":
        heads = {"linear": "head"} | ({"distilled": "head_dist"} if distilled else {})
        prefix = ("cls_token", "dist_token") if distilled else ("cls_token",)
        distinct = "dist_token" if distilled else "blocks.0.attn.qkv.weight"
        return Layout(library, family, _timm_rows(heads, prefix), distinct, write_config=_write_timm, fields=told)
    heads = (
        {"linear": "cls_classifier", "distilled": "distillation_classifier"} if distilled else {"linear": "classifier"}
    )
    prefix = ("cls_token", "distillation_token") if distilled else ("cls_token",)
    rows = _huggingface_rows(family, heads, prefix)
    return Layout(library, family, rows, f"{family}.embeddings.cls_token", _read_huggingface, _write_huggingface, told)


# The first layout whose distinct name is in a file is the file's, so the distilled ones stand first.
LAYOUTS = tuple(_layout(library, distilled) for library in ("huggingface", "timm") for distilled in (True, False))


def sizes(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """What the shapes tell of the config, under our names; the number of heads they cannot tell."""
    width, channels, patch, _ = shapes["stages.0.entrance.weight"]
    blocks = [name for name in shapes if name.endswith("feed_forward.sublayer.up.weight")]
    prefix = shapes["stages.0.prefix.tokens"][1]
    told: dict[str, Any] = {
        "width": width,
        "channels": channels,
        "patch": patch,
        "depth": len(blocks),
        "hidden": shapes[blocks[0]][0],
    }
    if "head.linear.weight" in shapes:
        told["classes"] = shapes["head.linear.weight"][0]
    if "stages.0.positions.table" in shapes:
        told["image"] = round((shapes["stages.0.positions.table"][1] - prefix) ** 0.5) * patch
    return told
