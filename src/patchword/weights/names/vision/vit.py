"""The names of ViT and DeiT: ours, Hugging Face's and timm's. The DeiT authors' files use timm's."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.core.grid import sides
from patchword.models.vision.vit import VitConfig
from patchword.weights.names.configs import (
    huggingface_config,
    one_or_two,
    ratio,
    read_huggingface_image,
    require,
    timm_config,
)
from patchword.weights.names.name_table import Layout, Row
from patchword.weights.names.timm import TimmArguments
from patchword.weights.names.vision.activations import TIMM_ACTIVATIONS, activation_name, read_activation

_BLOCK = "stages.0.encoder.blocks.{i}."
_OURS = (
    "stages.0.stem.{p}",
    "stages.0.prefix.tokens",
    "stages.0.positions.table",
    _BLOCK + "attention.norm.{p}",
    _BLOCK + "attention.sublayer.projection.joint.{p}",
    _BLOCK + "attention.sublayer.output.{p}",
    _BLOCK + "feed_forward.norm.{p}",
    _BLOCK + "feed_forward.sublayer.up.{p}",
    _BLOCK + "feed_forward.sublayer.down.{p}",
    "norm.{p}",
    "head.linear.{p}",
    "head.distilled.{p}",
)


def _rows(*theirs: str | tuple[str, ...]) -> tuple[Row, ...]:
    """Pair our names with theirs, in order; prefix tokens are concatenated along dim 1, all else along dim 0."""
    named = zip(_OURS, theirs, strict=False)
    return tuple(
        Row(ours, (names,) if isinstance(names, str) else names, dim=1 if ours.endswith("tokens") else 0)
        for ours, names in named
    )


# What Hugging Face calls the tensors of a layer: in files, and in the memory of transformers 5.
_IN_FILES = (
    "encoder.layer.{i}.layernorm_before.{p}",
    tuple(f"encoder.layer.{{i}}.attention.attention.{part}.{{p}}" for part in ("query", "key", "value")),
    "encoder.layer.{i}.attention.output.dense.{p}",
    "encoder.layer.{i}.layernorm_after.{p}",
    "encoder.layer.{i}.intermediate.dense.{p}",
    "encoder.layer.{i}.output.dense.{p}",
)
_IN_MEMORY = (
    "layers.{i}.layernorm_before.{p}",
    tuple(f"layers.{{i}}.attention.{part}_proj.{{p}}" for part in "qkv"),
    "layers.{i}.attention.o_proj.{p}",
    "layers.{i}.layernorm_after.{p}",
    "layers.{i}.mlp.fc1.{p}",
    "layers.{i}.mlp.fc2.{p}",
)
_POOLER = ("pooler.dense.{p}",)  # of the encoder alone, after its [CLS] token; not used here
_Names = tuple[str | tuple[str, ...], ...]


def _huggingface_rows(root: str, layer: _Names, prefix: tuple[str, ...], heads: tuple[str, ...]) -> tuple[Row, ...]:
    """Return the name table. root: prefix of all names except those of the heads; "" in a file of the encoder alone."""

    def below(names: str | tuple[str, ...]) -> str | tuple[str, ...]:
        return root + names if isinstance(names, str) else tuple(root + name for name in names)

    return _rows(
        below("embeddings.patch_embeddings.projection.{p}"),
        below(tuple(f"embeddings.{name}" for name in prefix)),
        below("embeddings.position_embeddings"),
        *(below(names) for names in layer),
        below("layernorm.{p}"),
        *(f"{head}.{{p}}" for head in heads),
    )


def _timm_rows(prefix: tuple[str, ...], heads: tuple[str, ...]) -> tuple[Row, ...]:
    layer = "blocks.{i}."
    return _rows(
        "patch_embed.proj.{p}",
        prefix,
        "pos_embed",
        layer + "norm1.{p}",
        layer + "attn.qkv.{p}",
        layer + "attn.proj.{p}",
        layer + "norm2.{p}",
        layer + "mlp.fc1.{p}",
        layer + "mlp.fc2.{p}",
        "norm.{p}",
        *(f"{head}.{{p}}" for head in heads),
    )


_FROM_HUGGINGFACE = {
    "hidden_size": "width",
    "num_hidden_layers": "depth",
    "num_attention_heads": "heads",
    "intermediate_size": "hidden",
    "patch_size": "patch",
    "image_size": "image",
    "num_channels": "channels",
    "layer_norm_eps": "norm_eps",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout",
    "qkv_bias": "qkv_bias",
}
_FROM_TIMM = {
    "embed_dim": "width",
    "depth": "depth",
    "num_heads": "heads",
    "patch_size": "patch",
    "img_size": "image",
    "in_chans": "channels",
    "qkv_bias": "qkv_bias",
}


def _read_huggingface(config: Mapping[str, Any]) -> dict[str, Any]:
    """Read Hugging Face's config, which omits default values; the defaults that differ from ours are set here."""
    values: dict[str, Any] = {"heads": 12}
    values |= {ours: config[theirs] for theirs, ours in _FROM_HUGGINGFACE.items() if theirs in config}
    values |= read_huggingface_image(config)
    width_of_a_head = config.get("hidden_size", 768) // values["heads"]
    require("ViT", config, {"head_dim": (width_of_a_head, width_of_a_head)})
    if "patch" in values:
        values["patch"] = one_or_two(values["patch"])
    return values | {"activation": read_activation("ViT", config)}


def _write_huggingface(card: Card) -> dict[str, Any]:
    c = _config(card)
    widths = {theirs: getattr(c, ours) for theirs, ours in _FROM_HUGGINGFACE.items()}
    widths |= {"hidden_act": activation_name(c.activation)}
    if card.config.get("distilled"):
        teacher = "WithTeacher" if card.config["distilled_head"] else ""
        return huggingface_config(card, f"DeiTForImageClassification{teacher}", "deit", widths)
    return huggingface_config(card, "ViTForImageClassification", "vit", widths)


_TIMM = TimmArguments(
    "ViT",
    {ours: theirs for theirs, ours in _FROM_TIMM.items()},
    given=("mlp_ratio",),
    fixed={
        **{"class_token": (True,), "global_pool": ("token",), "fc_norm": (None, False), "final_norm": (True,)},
        **{"pool_include_prefix": (False,), "pre_norm": (False,), "norm_layer": (None,), "embed_norm_layer": (None,)},
        **{"qk_norm": (False,), "scale_attn_norm": (False,), "scale_mlp_norm": (False,), "proj_bias": (True,)},
        **{"pos_embed": ("learn",), "no_embed_class": (False,), "reg_tokens": (0,), "init_values": (None,)},
    },
    architectures=r"(vit|deit)_(tiny|small|base|large|huge|giant|gigantic)_(distilled_)?patch\d+_(sam_)?\d+"
    r"(_in21k|_miil|_miil_in21k|_dino)?",
    activations=TIMM_ACTIVATIONS,
    pairs=("image", "patch"),
)


def _write_timm(card: Card) -> dict[str, Any]:
    """Write one of timm's model names with every size as an argument, so that timm builds this model."""
    c = _config(card)
    if c.norm_eps != 1e-6:
        raise UserError("timm's ViT has its own norm", expected="norm_eps 1e-06", got=c.norm_eps)
    size = next((size for size in ("tiny", "small", "base", "large") if size in card.model), "base")
    name = f"deit_{size}_distilled" if card.config.get("distilled") else f"vit_{size}"
    arguments = {theirs: getattr(c, ours) for theirs, ours in _FROM_TIMM.items()}
    arguments |= {"img_size": list(sides(c.image)), "mlp_ratio": ratio(c.hidden, c.width)}
    arguments |= {"act_layer": activation_name(c.activation, TIMM_ACTIVATIONS)}
    return timm_config(card, f"{name}_patch16_224", c.width, arguments)


def _config(card: Card) -> VitConfig:
    return VitConfig(**{field.name: card.config[field.name] for field in fields(VitConfig)})


def sizes(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """Infer all sizes from the shapes of tensors under our names, except the number of heads."""
    values: dict[str, Any] = {"depth": sum(name.endswith("feed_forward.sublayer.up.weight") for name in shapes)}
    for name, shape in shapes.items():
        if name == "stages.0.stem.weight" and len(shape) == 4:
            values |= {"width": shape[0], "channels": shape[1], "patch": one_or_two(shape[2:])}
        elif name.endswith("blocks.0.feed_forward.sublayer.up.weight"):
            values["hidden"] = shape[0]
        elif name == "head.linear.weight":
            values["classes"] = shape[0]
    table, prefix = shapes.get("stages.0.positions.table"), shapes.get("stages.0.prefix.tokens")
    if table and prefix and "patch" in values:
        side = round((table[1] - prefix[1]) ** 0.5)
        values["image"] = one_or_two([side * each for each in sides(values["patch"])])
    return values


def _layouts(distilled: bool) -> tuple[Layout, ...]:
    family, implied = ("deit", {"distilled": True}) if distilled else ("vit", {})
    ours = ("head.distilled.weight",) if distilled else ("stages.0.prefix.tokens", "stages.0.positions.table")
    hf_tokens = ("cls_token", "distillation_token") if distilled else ("cls_token",)
    hf_heads = ("cls_classifier", "distillation_classifier") if distilled else ("classifier",)
    timm_tokens = ("cls_token", "dist_token") if distilled else ("cls_token",)
    timm_heads = ("head", "head_dist") if distilled else ("head",)
    timm_rows = _timm_rows(timm_tokens, timm_heads)
    distinct = ("dist_token",) if distilled else ("blocks.0.attn.qkv.weight",)
    needs = {"distilled": distilled, "position": "learned", **({"distilled_head": True} if distilled else {})}
    also_for = () if distilled else ("deit",)  # without its token, DeiT is a ViT

    def huggingface(root: str, layer: _Names, heads: tuple[str, ...] = hf_heads) -> Layout:
        found = _huggingface_rows(root, layer, hf_tokens, heads)
        names = (f"{root}{layer[0]}".format(i=0, p="weight"),) + (() if root else (f"embeddings.{hf_tokens[-1]}",))
        theirs, read, write = {**implied, "norm_eps": 1e-12}, _read_huggingface, _write_huggingface
        dropped, wanted = () if root else _POOLER, dict(needs)
        if heads is not hf_heads:  # the distillation token has no head
            names, theirs["distilled_head"], wanted["distilled_head"] = (*names, f"{heads[0]}.weight"), False, False
        return Layout("huggingface", family, found, names, sizes, theirs, read, write, dropped, wanted, also_for)

    one_head = [huggingface("deit.", layer, ("classifier",)) for layer in (_IN_FILES, _IN_MEMORY)] if distilled else []
    return (
        Layout("patchword", family, _rows(*_OURS), ours, sizes, implied),
        *one_head,
        *(huggingface(root, layer) for root in (f"{family}.", "") for layer in (_IN_FILES, _IN_MEMORY)),
        Layout(
            "timm", family, timm_rows, distinct, sizes, implied, _TIMM.read, _write_timm, needs=needs, also_for=also_for
        ),
    )


# The first match is used, so the distilled layouts come first.
LAYOUTS = (*_layouts(distilled=True), *_layouts(distilled=False))
