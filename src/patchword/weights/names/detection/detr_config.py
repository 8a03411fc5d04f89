"""The config.json of transformers' DETR."""

import re
from collections.abc import Mapping
from typing import Any

from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.models import REGISTRY
from patchword.weights.names.configs import huggingface_config, require


def read_huggingface(config: Mapping[str, Any]) -> dict[str, Any]:
    """Read transformers' config; sizes follow from the shapes."""
    expected = {
        "position_embedding_type": ("sine", "sine"),
        "dilation": (False, False),
        "two_stage": (False, False),
        "activation_function": ("relu", "relu"),
        "encoder_layerdrop": (0.0, 0.0),
        "decoder_layerdrop": (0.0, 0.0),
        "decoder_attention_heads": (8, config.get("encoder_attention_heads", 8)),
        "decoder_ffn_dim": (2048, config.get("encoder_ffn_dim", 2048)),
    }
    require("DETR", config, expected)
    _check_backbone(config)
    return {
        "heads": config.get("encoder_attention_heads", 8),
        "dropout": config.get("dropout", 0.1),
        "attention_dropout": config.get("attention_dropout", 0.0),
        "hidden_dropout": config.get("activation_dropout", 0.0),
    }


def _check_backbone(config: Mapping[str, Any]) -> None:
    """Raise an error for a backbone other than a ResNet, or one with other strides."""
    given = config.get("backbone_config") or {"model_type": "timm_backbone", "backbone": config.get("backbone")}
    kind = given.get("model_type")
    name = kind if kind == "resnet" else str(given.get("backbone") or "resnet50")
    if kind not in ("resnet", "timm_backbone") or not re.fullmatch(r"resnet\d*", name):
        raise UserError(
            "the backbone of this DETR is not supported", expected="a ResNet, e.g. resnet50", got=f"{kind} {name}"
        )
    strides = {"output_stride": (32, 32), "downsample_in_first_stage": (False, False), "hidden_act": ("relu", "relu")}
    if given.get("layer_type", "bottleneck") == "bottleneck":
        strides["downsample_in_bottleneck"] = (False, False)
    require("ResNet of a DETR", given, strides)


def write_huggingface(card: Card) -> dict[str, Any]:
    """Write transformers' config, with a backbone that needs no other library."""
    c = card.config
    family = REGISTRY.find(c["backbone"])[0]
    if family.name != "resnet" or c["batch_norm_eps"] not in (None, 1e-5):
        got = c["backbone"] if family.name != "resnet" else f"batch_norm_eps {c['batch_norm_eps']}"
        raise UserError(
            "transformers' DETR", expected="a ResNet with batch_norm_eps 1e-5", got=got, hint='use layout="patchword"'
        )
    own: Any = REGISTRY.configure(c["backbone"], c["backbone_fields"])
    if own.patch != 4 or len(own.depths) != 4:
        got = f"patch {own.patch}, {len(own.depths)} stages"
        raise UserError("transformers' DETR", expected="a ResNet with patch 4 and four stages", got=got)
    backbone = {
        "model_type": "resnet",
        "num_channels": own.channels,
        "embedding_size": own.width,
        "hidden_sizes": list(own.stage_widths),
        "depths": list(own.depths),
        "layer_type": own.block,
        "hidden_act": "relu",
        "downsample_in_first_stage": False,
        "downsample_in_bottleneck": False,
        "out_features": ["stage4"],
    }
    sizes = {
        "backbone_config": backbone,
        "num_channels": own.channels,
        "num_queries": c["queries"],
        "d_model": c["width"],
        **{f"{part}_{field}": value for part in ("encoder", "decoder") for field, value in _both(c, part).items()},
        "dropout": c["dropout"],
        "attention_dropout": c["attention_dropout"],
        "activation_dropout": c["hidden_dropout"],
        "activation_function": "relu",
        "position_embedding_type": "sine",
        "dilation": False,
        "auxiliary_loss": False,  # with True, transformers computes another function
    }
    return huggingface_config(card, "DetrForObjectDetection", "detr", sizes)


def _both(c: Mapping[str, Any], part: str) -> dict[str, Any]:
    return {"layers": c[f"{part}_depth"], "attention_heads": c["heads"], "ffn_dim": c["hidden"]}


def huggingface_notes(config: Mapping[str, Any]) -> dict[str, str]:
    """Return our field -> what differs from transformers, for a config."""
    if not config.get("auxiliary_loss"):
        return {}
    note = (
        "with auxiliary_loss=True, transformers applies the norm of the decoder between its layers, too, and computes "
        "other results than with False; here they are those of False, which are those of the authors' code"
    )
    return {"auxiliary": note}
