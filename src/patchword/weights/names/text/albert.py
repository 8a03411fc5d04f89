"""The names of ALBERT in Hugging Face's files."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from patchword.core.card import Card
from patchword.weights.names.name_table import Layout, Row
from patchword.weights.names.text.bert_parts import EMBEDDING_ROWS
from patchword.weights.names.text.huggingface_text import FIELDS, SIZES, Head, TextNames
from patchword.weights.names.text.tied import TiedLayout

_OURS, _THEIRS = "encoder.blocks.0.", "encoder.albert_layer_groups.0.albert_layers.0."


class GroupedLayout(TiedLayout):
    """The rows of the first block, repeated for each block of each group."""

    def for_config(self, config: Mapping[str, Any]) -> Layout:
        found = super().for_config(config)
        return _repeated(found, config.get("num_hidden_groups", 1), config.get("inner_group_num", 1))

    def writing(self, card: Card) -> Layout:
        found = super().writing(card)
        return _repeated(found, card.config.get("groups", 1), card.config.get("blocks_per_group", 1))


def _repeated(layout: Layout, groups: int, blocks: int) -> Layout:
    first = [row for row in layout.table if row.ours.startswith(_OURS)]
    every = [_row(row, group, block, blocks) for row in first for group in range(groups) for block in range(blocks)]
    return replace(layout, table=(*(row for row in layout.table if row not in first), *every))


def _row(row: Row, group: int, block: int, blocks: int) -> Row:
    """Return the row of this block of this group."""
    there = f"encoder.albert_layer_groups.{group}.albert_layers.{block}."
    theirs = tuple(name.replace(_THEIRS, there) for name in row.theirs)
    return replace(row, ours=row.ours.replace(_OURS, f"encoder.blocks.{group * blocks + block}."), theirs=theirs)


def _grouped(layout: Layout) -> Layout:
    parts: dict[str, Any] = {part.name: getattr(layout, part.name) for part in fields(layout)}
    return GroupedLayout(**parts)


NAMES = TextNames(
    "albert",
    "ALBERT",
    ("albert",),
    "albert.",
    "AlbertModel",
    encoder=(
        *EMBEDDING_ROWS,
        ("embedding.widen.{p}", "encoder.embedding_hidden_mapping_in.{p}"),
        (
            _OURS + "attention.sublayer.projection.joint.{p}",
            tuple(f"{_THEIRS}attention.{name}.{{p}}" for name in ("query", "key", "value")),
        ),
        (_OURS + "attention.sublayer.output.{p}", _THEIRS + "attention.dense.{p}"),
        (_OURS + "attention.norm.{p}", _THEIRS + "attention.LayerNorm.{p}"),
        (_OURS + "feed_forward.sublayer.up.{p}", _THEIRS + "ffn.{p}"),
        (_OURS + "feed_forward.sublayer.down.{p}", _THEIRS + "ffn_output.{p}"),
        (_OURS + "feed_forward.norm.{p}", _THEIRS + "full_layer_layer_norm.{p}"),
    ),
    words=(
        ("head.words.transform.{p}", "predictions.dense.{p}"),
        ("head.words.norm.{p}", "predictions.LayerNorm.{p}"),
        ("head.words.output.bias", "predictions.bias"),
    ),
    heads=(
        Head(
            "pretraining",
            "AlbertForPreTraining",
            ("predictions.bias", "sop_classifier.classifier.weight"),
            "sop_classifier.classifier",
        ),
        Head("words", "AlbertForMaskedLM", ("predictions.bias",)),
        Head("span", "AlbertForQuestionAnswering", ("qa_outputs.weight",), "qa_outputs"),
        Head(
            "classes",
            "AlbertForSequenceClassification",
            ("classifier.weight", "albert.pooler.weight"),
            "classifier",
        ),
        Head("tags", "AlbertForTokenClassification", ("classifier.weight",), "classifier"),
    ),
    duplicates=("predictions.decoder.weight", "predictions.decoder.bias"),
    pooler="pooler",
    activation=("hidden_act", "gelu_new"),
    fields={
        **FIELDS,
        **{"embedding": "embedding_size", "groups": "num_hidden_groups", "blocks_per_group": "inner_group_num"},
    },
    sizes={
        **SIZES,
        "embedding.words.weight": ("vocabulary", "embedding"),
        "embedding.widen.weight": ("width",),
    },
    expected={"position_embedding_type": ("absolute", "absolute")},
    counts_blocks=False,
)
LAYOUTS = tuple(_grouped(layout) for layout in NAMES.layouts())
