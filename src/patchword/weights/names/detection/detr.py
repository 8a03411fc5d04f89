"""The names of DETR: those of the authors' code, and transformers' with either of its ResNet backbones."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from patchword.core.tensor_files import Tensors
from patchword.weights.names.detection.detection_layout import (
    DetectionLayout,
    Their,
    backbone_sizes,
    refused,
    with_prefix,
)
from patchword.weights.names.detection.detr_config import huggingface_notes, read_huggingface, write_huggingface
from patchword.weights.names.name_table import Layout, Row, Shapes, rows
from patchword.weights.names.vision import resnet
from patchword.weights.names.vision.convolutions import huggingface_rows

_PARTS = ("q_proj", "k_proj", "v_proj")  # of the authors' fused in_proj
_COUNTER = ".num_batches_tracked"  # of a batch norm; those of DETR have none


@dataclass(frozen=True)
class DetrLayout(DetectionLayout):
    """The names of one library for DETR. config_notes: their config -> our field -> what differs."""

    config_notes: Callable[[Mapping[str, Any]], dict[str, str]] = lambda config: {}

    def reading(self, tensors: Their) -> Layout:
        """Return the layout with the notes on the tensors and on the config."""
        found, notes = super().reading(tensors), self.notes(tensors)
        return replace(found, unstated=lambda config: {**notes, **self.config_notes(config)})

    def to_theirs(self, tensors: Their) -> Tensors:
        """Return the tensors under their names."""
        learned = {name: tensor for name, tensor in tensors.items() if not name.endswith(_COUNTER)}
        return super().to_theirs(learned)


def _attention_rows(ours: str, theirs: str) -> tuple[Row, ...]:
    """Return the rows of self-attention."""
    query, key, value = (f"{theirs}.{part}.{{p}}" for part in _PARTS)
    return rows(
        (f"{ours}.sublayer.projection.query_key.{{p}}", (query, key)),
        (f"{ours}.sublayer.projection.value.{{p}}", value),
        (f"{ours}.sublayer.output.{{p}}", f"{theirs}.out_proj.{{p}}"),
    )


def _memory_rows(ours: str, theirs: str) -> tuple[Row, ...]:
    """Return the rows of attention over the encoder's output."""
    names = zip(("query", "key", "value"), _PARTS, strict=True)
    found = [(f"{ours}.sublayer.projection.{mine}.{{p}}", f"{theirs}.{part}.{{p}}") for mine, part in names]
    return rows(*found, (f"{ours}.sublayer.output.{{p}}", f"{theirs}.out_proj.{{p}}"))


def _block_rows(
    layers: str, memory: str, up: str, down: str, norms: Mapping[str, tuple[str, str, str]]
) -> tuple[Row, ...]:
    """Return the rows of encoder and decoder. norms: of attention, attention over the memory, feed-forward."""
    found: tuple[Row, ...] = ()
    for part in ("encoder", "decoder"):
        ours, theirs = f"{part}.blocks.{{i}}.", layers.format(part)
        found += _attention_rows(ours + "attention", theirs + "self_attn")
        if part == "decoder":
            found += _memory_rows(ours + "memory", theirs + memory)
        for residual, norm in zip(("attention", "memory", "feed_forward"), norms[part], strict=True):
            found += rows((f"{ours}{residual}.norm.{{p}}", f"{theirs}{norm}.{{p}}")) if norm else ()
        feed_forward = ours + "feed_forward.sublayer."
        found += rows(
            (feed_forward + "up.{p}", theirs + up + ".{p}"), (feed_forward + "down.{p}", theirs + down + ".{p}")
        )
    return found


def _output_rows(neck: str, norm: str, queries: str, classes: str, boxes: str) -> tuple[Row, ...]:
    found = rows(
        ("neck.{p}", neck + ".{p}"),
        ("decoder.norm.{p}", norm + ".{p}"),
        ("queries.weight", queries + ".weight"),
        ("class_output.{p}", classes + ".{p}"),
    )
    for layer in range(3):
        found += rows((f"box_output.{2 * layer}.{{p}}", f"{boxes}.layers.{layer}.{{p}}"))
    return found


def _split_fused(tensors: Their) -> Tensors:
    """Split the authors' fused matrices of queries, keys and values."""
    found: Tensors = {}
    for name, tensor in tensors.items():
        if match := re.fullmatch(r"(.*)\.in_proj_(weight|bias)", name):
            found |= {f"{match[1]}.{part}.{match[2]}": one for part, one in zip(_PARTS, tensor.chunk(3), strict=True)}
        else:
            found[name] = tensor
    return found


def _join_fused(tensors: Tensors) -> Tensors:
    """Undo `_split_fused`."""
    found: Tensors = {}
    for name, tensor in tensors.items():
        match = re.fullmatch(r"(.*)\.([qkv]_proj)\.(weight|bias)", name)
        if match and match[2] == _PARTS[0]:
            parts = [tensors[f"{match[1]}.{part}.{match[3]}"] for part in _PARTS]
            found[f"{match[1]}.in_proj_{match[3]}"] = torch.cat(parts)
        elif not match:
            found[name] = tensor
    return found


def _sizes(shapes: Shapes) -> dict[str, Any]:
    """Infer the config; a file in which tensors are missing is refused later, by their names."""
    values = backbone_sizes("resnet", shapes, "backbone.", resnet.sizes)
    known = {
        "width": "neck.weight",
        "queries": "queries.weight",
        "classes": "class_output.weight",
        "hidden": "encoder.blocks.0.feed_forward.sublayer.up.weight",
    }
    values |= {field: shapes[name][0] for field, name in known.items() if name in shapes}
    for part in ("encoder", "decoder"):
        blocks = {name.split(".")[2] for name in shapes if name.startswith(f"{part}.blocks.")}
        values[f"{part}_depth"] = max(1, len(blocks))
    values["classes"] = max(1, values.get("classes", 2) - 1)  # without "no object"
    return values | {"max_detections": min(100, values.get("queries", 100))}


def _authors_notes(tensors: Their) -> dict[str, str]:
    note = (
        "the file does not state the number of heads and the dilation of the last stage: 8 heads and no dilation are "
        "used, as in detr-r50 and detr-r101; the weights of DC5 models are not supported"
    )
    return {"heads": note}


_AUTHORS_NORMS = {"encoder": ("norm1", "", "norm2"), "decoder": ("norm1", "norm2", "norm3")}
_HUGGINGFACE_NORMS = {
    "encoder": ("self_attn_layer_norm", "", "final_layer_norm"),
    "decoder": ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
}
AUTHORS_HEADS = _block_rows(
    "transformer.{}.layers.{{i}}.", "multihead_attn", "linear1", "linear2", _AUTHORS_NORMS
) + _output_rows("input_proj", "transformer.decoder.norm", "query_embed", "class_embed", "bbox_embed")
_HUGGINGFACE_HEADS = _block_rows(
    "model.{}.layers.{{i}}.", "encoder_attn", "fc1", "fc2", _HUGGINGFACE_NORMS
) + _output_rows(
    "model.input_projection",
    "model.decoder.layernorm",
    "model.query_position_embeddings",
    "class_labels_classifier",
    "bbox_predictor",
)
_BODY, _TIMM = "backbone.0.body.", "model.backbone.conv_encoder.model."
_TRANSFORMERS = tuple(
    replace(row, theirs=tuple(name.removeprefix("resnet.") for name in row.theirs))
    for row in huggingface_rows("resnet", layers=(0, 1, 2))
)
_layout = partial(DetrLayout, family="detr", sizes=_sizes, detector=lambda names: "detr")
_huggingface = partial(
    _layout,
    "huggingface",
    read_config=read_huggingface,
    write_config=write_huggingface,
    config_notes=huggingface_notes,
    model_types=("detr",),
    processor="DetrImageProcessor",
)
AUTHORS = _layout(
    "authors",
    table=with_prefix(resnet.timm_rows(), "backbone.", _BODY) + AUTHORS_HEADS,
    distinct=(_BODY + "conv1.weight", "transformer.decoder.norm.weight", "class_embed.weight"),
    prepare=_split_fused,
    finish=_join_fused,
    notes=_authors_notes,
    needs={"heads": 8},
)
_PRE_NORM = "norms before the sublayers, not after them"
LAYOUTS = (
    refused(
        "a DETR for panoptic segmentation", "a mask head", "mask_head.lay1.weight", "bbox_attention.q_linear.weight"
    ),
    refused(
        "a DETR with norms before the sublayers", _PRE_NORM, "transformer.encoder.norm.weight", "class_embed.weight"
    ),
    refused("a DETR with learned positions", "another position encoding", "backbone.1.row_embed.weight"),
    refused("Table Transformer", _PRE_NORM, "model.encoder.layernorm.weight", "class_labels_classifier.weight"),
    refused(
        "Conditional DETR",
        "another decoder",
        "model.decoder.layers.0.sa_qcontent_proj.weight",
        "model.input_projection.weight",
    ),
    refused("Deformable DETR", "another attention", "model.encoder.layers.0.self_attn.sampling_offsets.weight"),
    _huggingface(
        table=with_prefix(_TRANSFORMERS, "backbone.", _TIMM) + _HUGGINGFACE_HEADS,
        distinct=(_TIMM + "embedder.embedder.convolution.weight", "class_labels_classifier.weight"),
    ),
    _huggingface(
        table=with_prefix(resnet.timm_rows(), "backbone.", _TIMM) + _HUGGINGFACE_HEADS,
        distinct=(_TIMM + "conv1.weight", "class_labels_classifier.weight"),
    ),
    AUTHORS,
)
