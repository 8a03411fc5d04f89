"""The names of BERT in Hugging Face's files, one layout for each of its heads; sentence-transformers' have no other."""

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.core.tensors import Tensors
from patchword.weights.configs import huggingface_config, require
from patchword.weights.naming import Layout, Row, Shapes, rows

_BLOCK, _THEIRS = "encoder.blocks.{i}.", "encoder.layer.{i}."
_QUERY_KEY_VALUE = tuple(f"{_THEIRS}attention.self.{name}.{{p}}" for name in ("query", "key", "value"))
_ENCODER: tuple[tuple[str, str | tuple[str, ...]], ...] = (
    ("entrance.words.weight", "embeddings.word_embeddings.weight"),
    ("entrance.positions.weight", "embeddings.position_embeddings.weight"),
    ("entrance.segments.weight", "embeddings.token_type_embeddings.weight"),
    ("entrance.norm.{p}", "embeddings.LayerNorm.{p}"),
    (_BLOCK + "attention.sublayer.projection.joint.{p}", _QUERY_KEY_VALUE),
    (_BLOCK + "attention.sublayer.output.{p}", _THEIRS + "attention.output.dense.{p}"),
    (_BLOCK + "attention.norm.{p}", _THEIRS + "attention.output.LayerNorm.{p}"),
    (_BLOCK + "feed_forward.sublayer.up.{p}", _THEIRS + "intermediate.dense.{p}"),
    (_BLOCK + "feed_forward.sublayer.down.{p}", _THEIRS + "output.dense.{p}"),
    (_BLOCK + "feed_forward.norm.{p}", _THEIRS + "output.LayerNorm.{p}"),
    ("head.pool.linear.{p}", "pooler.dense.{p}"),
)
_WORDS = rows(
    ("head.words.transform.{p}", "cls.predictions.transform.dense.{p}"),
    ("head.words.norm.{p}", "cls.predictions.transform.LayerNorm.{p}"),
    ("head.words.output.bias", "cls.predictions.bias"),
)
_DECODER, _TABLE = "cls.predictions.decoder.weight", "embeddings.word_embeddings.weight"
_POSITIONS = ("embeddings.position_ids", "bert.embeddings.position_ids")  # 0, 1, 2, ...; older files have them
_DROPPED = (_DECODER, "cls.predictions.decoder.bias", *_POSITIONS)  # the table of words and its bias once more

_NEXT = "cls.seq_relationship"

# Our head, their class, the names that tell it, and what they call our last linear map.
_HEADS = (
    (
        "pretraining",
        "BertForPreTraining",
        ("cls.predictions.bias", "cls.seq_relationship.weight"),
        "cls.seq_relationship",
    ),
    ("words", "BertForMaskedLM", ("cls.predictions.bias",), ""),
    ("next", "BertForNextSentencePrediction", (f"{_NEXT}.weight",), _NEXT),
    ("span", "BertForQuestionAnswering", ("qa_outputs.weight",), "qa_outputs"),
    ("classes", "BertForSequenceClassification", ("classifier.weight", "bert.pooler.dense.weight"), "classifier"),
    ("tags", "BertForTokenClassification", ("classifier.weight",), "classifier"),
)
_ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu-tanh", "gelu_pytorch_tanh": "gelu-tanh", "relu": "relu"}
FIELDS = {
    "vocabulary": "vocab_size",
    "width": "hidden_size",
    "depth": "num_hidden_layers",
    "heads": "num_attention_heads",
    "hidden": "intermediate_size",
    "positions": "max_position_embeddings",
    "segments": "type_vocab_size",
    "norm_eps": "layer_norm_eps",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
}


class BertLayout(Layout):
    """The words' matrix is one with their table; a file in which the two differ is another model."""

    def to_ours(self, tensors: Mapping[str, Tensor]) -> tuple[Tensors, list[str]]:
        decoder, table = tensors.get(_DECODER), tensors.get(f"bert.{_TABLE}")
        if decoder is not None and table is not None and not torch.equal(decoder, table):
            raise UserError("this BERT scores words by another matrix than their table", expected="tied weights")
        return super().to_ours(tensors)


def _rows(prefix: str) -> tuple[Row, ...]:
    def named(theirs: str | tuple[str, ...]) -> str | tuple[str, ...]:
        return prefix + theirs if isinstance(theirs, str) else tuple(prefix + name for name in theirs)

    return rows(*((ours, named(theirs)) for ours, theirs in _ENCODER))


def sizes(shapes: Shapes) -> dict[str, Any]:
    """All but the number of heads."""
    told: dict[str, Any] = {"depth": sum(name.endswith("feed_forward.sublayer.up.weight") for name in shapes)}
    places = {
        "entrance.words.weight": ("vocabulary", "width"),
        "entrance.positions.weight": ("positions",),
        "entrance.segments.weight": ("segments",),
        "encoder.blocks.0.feed_forward.sublayer.up.weight": ("hidden",),
    }
    for name, fields in places.items():
        told |= dict(zip(fields, shapes.get(name, ()), strict=False))
    return told


def _sizes_with_classes(shapes: Shapes) -> dict[str, Any]:
    return sizes(shapes) | {"classes": shapes["head.linear.weight"][0]}


def read_config(config: Mapping[str, Any]) -> dict[str, Any]:
    require("BERT", config, {"position_embedding_type": ("absolute", "absolute"), "is_decoder": (False, False)})
    activation = config.get("hidden_act", "gelu")
    if activation not in _ACTIVATIONS:
        raise UserError(
            "this BERT differs from the paper's", expected=f"hidden_act {' or '.join(_ACTIVATIONS)}", got=activation
        )
    told = {ours: config[theirs] for ours, theirs in FIELDS.items() if theirs in config}
    return told | {"activation": _ACTIVATIONS[activation]} | _sentence_vector(config.get("sentence_transformers"))


def _sentence_vector(told: Mapping[str, Any] | None) -> dict[str, Any]:
    """The head of a sentence-transformers folder: which pooling, and whether vectors get length 1."""
    if not told:
        return {}
    modes, chosen = {"cls": "first", "mean": "mean"}, _pooling_modes(told["pooling"])
    if len(chosen) != 1 or chosen[0] not in modes:
        raise UserError("this pooling is not known", expected=" or ".join(modes), got=", ".join(chosen) or "none")
    return {"head": "vector" if told["normalize"] else "pooled", "pool": modes[chosen[0]]}


def _pooling_modes(told: Mapping[str, Any]) -> list[str]:
    """One field names them; in older folders each has a field of its own."""
    if named := told.get("pooling_mode"):
        return [named] if isinstance(named, str) else [str(name) for name in named]
    start, end = "pooling_mode_", "_tokens?$"
    return [re.sub(end, "", name.removeprefix(start)) for name, on in told.items() if name.startswith(start) and on]


def _write_config(card: Card) -> dict[str, Any]:
    architecture = next((theirs for ours, theirs, *_ in _HEADS if ours == card.config["head"]), "BertModel")
    told = {theirs: card.config[ours] for ours, theirs in FIELDS.items()}
    told["hidden_act"] = next(name for name, ours in _ACTIVATIONS.items() if ours == card.config["activation"])
    written = huggingface_config(card, architecture, "bert", told)
    has_classes = card.config["head"] in ("classes", "tags")  # a span's two outputs are their default
    return {field: value for field, value in written.items() if has_classes or field not in ("id2label", "label2id")}


def _layout(head: str, names: tuple[str, ...], linear: str) -> Layout:
    found = _rows("bert.") + _WORDS + (rows(("head.linear.{p}", f"{linear}.{{p}}")) if linear else ())
    has_classes = linear == "classifier"
    return BertLayout(
        "huggingface",
        "bert",
        found,
        (f"bert.{_TABLE}", *names),
        _sizes_with_classes if has_classes else sizes,
        {"head": head, "pool": "pooler"},
        read_config,
        _write_config,
        _DROPPED,
        {"head": head, "pool": "pooler"},
    )


def _bare(prefix: str, head: str, pool: str, names: tuple[str, ...]) -> Layout:
    told = {"head": head, "pool": pool}
    found = (prefix + _TABLE, *names)
    return Layout(
        "huggingface", "bert", _rows(prefix), found, sizes, told, read_config, _write_config, _POSITIONS, told
    )


# The first layout whose names are in a file is the file's, so those with more names stand first.
LAYOUTS = (
    *(_layout(head, names, linear) for head, _, names, linear in _HEADS),
    *(_bare(prefix, "pooled", "pooler", (f"{prefix}pooler.dense.weight",)) for prefix in ("", "bert.")),
    *(_bare(prefix, "vector", "mean", ()) for prefix in ("", "bert.")),
)
