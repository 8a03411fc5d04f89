"""The names of transformers' UperNetForSemanticSegmentation, on Swin and on ResNet.

Its Swin backbone pads maps that the windows do not divide and lets tokens attend to the padding: window_padding is
"attended". Its heads have no dropout.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.models import REGISTRY
from patchword.weights.names.configs import huggingface_config, require
from patchword.weights.names.detection.detection_layout import backbone_sizes, refused, with_prefix
from patchword.weights.names.detection.mmdet_backbones import padded_rows, swin_sizes
from patchword.weights.names.name_table import Row, Shapes, rows
from patchword.weights.names.segmentation.segmentation_layout import SegmentationLayout, segmenter_sizes, upernet_rows
from patchword.weights.names.vision import resnet, swin
from patchword.weights.names.vision.convolutions import huggingface_rows
from patchword.weights.names.vision.pyramids import write_fields

_LOGITS, _FUSE = "decode_head.classifier.weight", "decode_head.fpn_bottleneck.conv.weight"
_MAPS = 4  # of the backbone; the auxiliary head of transformers reads the third
_OWN = ("architectures", "id2label", "label2id")  # fields of a model, not of its backbone


def _swin_rows(block: tuple[str | tuple[str, ...], ...], root: str) -> tuple[Row, ...]:
    """Return the rows of Swin and of the norms of its maps. root: their prefix of the stages."""
    stages = tuple(
        replace(row, theirs=tuple(name.removeprefix("swin.") for name in row.theirs))
        for row in swin.huggingface_rows(block)
    )
    norms = rows(("backbone.norms.{i}.{p}", "backbone.hidden_states_norms.stage{n}.{p}"))
    return (
        padded_rows(with_prefix(stages, "backbone.backbone.", root)) + norms + upernet_rows("batch_norm", "classifier")
    )


def _swin_sizes(shapes: Shapes) -> dict[str, Any]:
    return segmenter_sizes(shapes, swin_sizes(shapes))


def _resnet_rows(root: str) -> tuple[Row, ...]:
    stages = with_prefix(huggingface_rows("model", layers=(0, 1, 2)), "backbone.", "")
    named = tuple(
        replace(row, theirs=tuple(root + name.removeprefix("model.") for name in row.theirs)) for row in stages
    )
    return named + upernet_rows("batch_norm", "classifier")


def _resnet_sizes(shapes: Shapes) -> dict[str, Any]:
    return segmenter_sizes(shapes, backbone_sizes("resnet", shapes, "backbone.", resnet.sizes))


def _read_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Read the scales of the pooling, and check everything that the tensors do not show."""
    known = {"auxiliary_num_convs": (1, 1), "auxiliary_concat_input": (False, False)}
    require("UperNet", config, known if config.get("use_auxiliary_head", True) else {})
    backbone = config.get("backbone_config") or {}
    readers = {"swin": swin.read_huggingface, "resnet": resnet.read_huggingface}
    if backbone:
        kind = backbone.get("model_type")
        if kind not in readers:
            raise UserError("the backbone of this UperNet", expected=" or ".join(readers), got=kind)
        readers[kind](backbone)
        _check_stages(backbone)
    scales = config.get("pool_scales")
    return {"scales": tuple(scales)} if scales else {}


def _check_stages(backbone: Mapping[str, Any]) -> None:
    """Refuse an UperNet that does not read all stages of its backbone."""
    stages = [f"stage{number + 1}" for number in range(len(backbone.get("depths") or ()))]
    used = backbone.get("out_features")
    if used and stages and list(used) != stages:
        raise UserError("the maps that this UperNet reads", expected=", ".join(stages), got=", ".join(map(str, used)))


def _write_config(card: Card) -> dict[str, Any]:
    family = REGISTRY.find(card.config["backbone"])[0].name
    fields = asdict(REGISTRY.configure(card.config["backbone"], card.config["backbone_fields"]))
    stages = [f"stage{number + 1}" for number in range(len(fields["depths"]))]
    if card.config["auxiliary"] and len(stages) != _MAPS:
        raise UserError(
            "the auxiliary head of transformers' UperNet reads the third map of four",
            got=f"{len(stages)} maps",
            hint='load it with auxiliary=0, or use layout="patchword"',
        )
    inner = Card(card.config["backbone"], fields)
    if family == "swin":
        backbone = write_fields(inner, swin.IN_HUGGINGFACE) | {"model_type": "swin"}
    else:
        written = resnet.write_huggingface_config(inner)
        backbone = {field: value for field, value in written.items() if field not in _OWN}
    sizes = {
        "backbone_config": {**backbone, "out_features": stages},
        "hidden_size": card.config["width"],
        "pool_scales": list(card.config["scales"]),
        "use_auxiliary_head": card.config["auxiliary"] > 0,
        "auxiliary_channels": card.config["auxiliary"] or 256,
        "auxiliary_in_channels": None,
        "auxiliary_num_convs": 1,
        "auxiliary_concat_input": False,
        "auxiliary_loss_weight": 0.4,
        "loss_ignore_index": 255,
    }
    return huggingface_config(card, "UperNetForSemanticSegmentation", "upernet", sizes)


_layout = partial(
    SegmentationLayout,
    "huggingface",
    "",
    read_config=_read_config,
    write_config=_write_config,
    also_for=("upernet",),
    processor="SegformerImageProcessor",
)
_swin = partial(
    _layout,
    sizes=_swin_sizes,
    implied={"window_padding": "attended", "head_dropout": 0.0},
    backbone="swin",
    needs={"window_padding": "attended"},
)
_resnet = partial(
    _layout, sizes=_resnet_sizes, implied={"head_dropout": 0.0}, backbone="resnet", needs={"deep_stem": False}
)
_NORM = "backbone.swin.layernorm.{p}"  # of the last map, which the backbone does not use
_TABLE = "blocks.0.attention.{}relative_position_bias_table"

# The names in files come before those in the memory of transformers 5.
LAYOUTS = (
    _swin(
        table=_swin_rows(swin.IN_FILES, "backbone."),
        distinct=(_LOGITS, _FUSE, "backbone.encoder.layers.0." + _TABLE.format("self.")),
        dropped=(_NORM, *swin.buffers("backbone.encoder.layers", "attention.self.relative_position_index")),
    ),
    _swin(
        table=_swin_rows(swin.IN_MEMORY, "backbone.swin."),
        distinct=(_LOGITS, _FUSE, "backbone.swin.encoder.layers.0.blocks.0.attention.q_proj.weight"),
        dropped=(_NORM,),
    ),
    _resnet(
        table=_resnet_rows("backbone."),
        distinct=(_LOGITS, _FUSE, "backbone.embedder.embedder.convolution.weight"),
    ),
    refused("transformers' UperNet", "another backbone than Swin and ResNet", _LOGITS, _FUSE),
)
