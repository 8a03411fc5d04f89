"""The names of ALBERT in Hugging Face's files."""

from patchword.weights.names.text.bert_parts import EMBEDDING_ROWS
from patchword.weights.names.text.huggingface_text import FIELDS, SIZES, Head, TextNames

_OURS, _THEIRS = "encoder.blocks.0.", "encoder.albert_layer_groups.0.albert_layers.0."

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
    fields={**FIELDS, "embedding": "embedding_size"},
    sizes={
        **SIZES,
        "embedding.words.weight": ("vocabulary", "embedding"),
        "embedding.widen.weight": ("width",),
    },
    expected={
        "num_hidden_groups": (1, 1),
        "inner_group_num": (1, 1),
        "position_embedding_type": ("absolute", "absolute"),
    },
    counts_blocks=False,
)
LAYOUTS = NAMES.layouts()
