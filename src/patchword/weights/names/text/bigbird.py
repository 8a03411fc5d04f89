"""The names of Big Bird in Hugging Face's files. The prefix is BERT's; the pooler distinguishes the two."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from torch import Tensor

from patchword.core.tensor_files import Tensors
from patchword.weights.names.name_table import Layout
from patchword.weights.names.text.bert_parts import BERT_TWICE, BERT_WORDS, EMBEDDING_ROWS, block_rows
from patchword.weights.names.text.huggingface_text import FIELDS, Head, TextNames
from patchword.weights.names.text.tied import TiedLayout

_POOLER = "bert.pooler.weight"
_FOLLOWING, _ANSWER = "cls.seq_relationship", "qa_classifier."
_CLASSES = Head(
    "classes",
    "BigBirdForSequenceClassification",
    ("classifier.out_proj.weight",),
    "classifier.out_proj",
    "classifier.dense",
)
_NAMES = TextNames(
    "bigbird",
    "Big Bird",
    ("big_bird",),
    "bert.",
    "BigBirdModel",
    encoder=EMBEDDING_ROWS + block_rows(),
    words=(
        *BERT_WORDS,
        ("head.feed_forward.up.{p}", _ANSWER + "intermediate.dense.{p}"),
        ("head.feed_forward.down.{p}", _ANSWER + "output.dense.{p}"),
        ("head.norm.{p}", _ANSWER + "output.LayerNorm.{p}"),
    ),
    heads=(
        Head(
            "pretraining",
            "BigBirdForPreTraining",
            ("cls.predictions.bias", f"{_FOLLOWING}.weight", _POOLER),
            _FOLLOWING,
        ),
        Head("words", "BigBirdForMaskedLM", ("cls.predictions.bias", _POOLER)),
        Head("span", "BigBirdForQuestionAnswering", (_ANSWER + "qa_outputs.weight",), _ANSWER + "qa_outputs"),
        Head("tags", "BigBirdForTokenClassification", ("classifier.weight", _POOLER), "classifier"),
    ),
    duplicates=BERT_TWICE,
    pooler="pooler",
    unread=("BigBirdForMultipleChoice",),  # its pooler would be dropped under the names of tags
    activation=("hidden_act", "gelu_new"),
    fields={**FIELDS, "block": "block_size", "random_blocks": "num_random_blocks"},
    expected={
        "attention_type": ("block_sparse", "block_sparse"),
        "use_bias": (True, True),
        "rescale_embeddings": (False, False),
        "is_decoder": (False, False),
    },
)


class UnreadPooler(TiedLayout):
    """The unused pooler that transformers has under these heads; it is written as zeros and not loaded."""

    def to_theirs(self, tensors: Mapping[str, Tensor]) -> Tensors:
        width = tensors["embedding.norm.weight"]
        unread = {_POOLER: width.new_zeros(len(width), len(width)), "bert.pooler.bias": width.new_zeros(len(width))}
        return unread | super().to_theirs(tensors)


def _unread(layout: Layout) -> Layout:
    parts: dict[str, Any] = {part.name: getattr(layout, part.name) for part in fields(layout)}
    return UnreadPooler(**parts | {"dropped": (*layout.dropped, "bert.pooler.{p}")})


def _layouts() -> tuple[Layout, ...]:
    found = {
        layout.implied["head"]: layout for layout in replace(_NAMES, heads=(*_NAMES.heads, _CLASSES)).layouts()[:5]
    }
    found |= {head: _unread(found[head]) for head in ("words", "tags", "classes")}
    some = "encoder.layer.0.attention.self.query.weight"  # not in ALBERT
    bare = [_NAMES._bare(start, "pooled", "pooler", (f"{start}pooler.weight", start + some)) for start in ("", "bert.")]
    return (*found.values(), *bare)


LAYOUTS = _layouts()
WITHOUT_POOLER = _NAMES.layouts()[-3:]  # same names as BERT: only a config can distinguish them
