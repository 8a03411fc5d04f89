"""The names of DistilBERT in Hugging Face's files."""

from patchword.weights.names.text.huggingface_text import Head, TextNames

_OURS, _THEIRS = "encoder.blocks.{i}.", "transformer.layer.{i}."

NAMES = TextNames(
    "distilbert",
    "DistilBERT",
    ("distilbert",),
    "distilbert.",
    "DistilBertModel",
    encoder=(
        ("embedding.words.weight", "embeddings.word_embeddings.weight"),
        ("embedding.positions.weight", "embeddings.position_embeddings.weight"),
        ("embedding.norm.{p}", "embeddings.LayerNorm.{p}"),
        (
            _OURS + "attention.sublayer.projection.joint.{p}",
            tuple(f"{_THEIRS}attention.{name}_lin.{{p}}" for name in "qkv"),
        ),
        (_OURS + "attention.sublayer.output.{p}", _THEIRS + "attention.out_lin.{p}"),
        (_OURS + "attention.norm.{p}", _THEIRS + "sa_layer_norm.{p}"),
        (_OURS + "feed_forward.sublayer.up.{p}", _THEIRS + "ffn.lin1.{p}"),
        (_OURS + "feed_forward.sublayer.down.{p}", _THEIRS + "ffn.lin2.{p}"),
        (_OURS + "feed_forward.norm.{p}", _THEIRS + "output_layer_norm.{p}"),
    ),
    words=(
        ("head.words.transform.{p}", "vocab_transform.{p}"),
        ("head.words.norm.{p}", "vocab_layer_norm.{p}"),
        ("head.words.output.bias", "vocab_projector.bias"),
    ),
    heads=(
        Head("words", "DistilBertForMaskedLM", ("vocab_transform.weight",)),
        Head("span", "DistilBertForQuestionAnswering", ("qa_outputs.weight",), "qa_outputs"),
        Head(
            "classes",
            "DistilBertForSequenceClassification",
            ("pre_classifier.weight",),
            "classifier",
            "pre_classifier",
        ),
        Head("tags", "DistilBertForTokenClassification", ("classifier.weight",), "classifier"),
    ),
    duplicates=("vocab_projector.weight",),
    pooler="",
    activation=("activation", "gelu"),
    fields={
        "vocabulary": "vocab_size",
        "width": "dim",
        "depth": "n_layers",
        "heads": "n_heads",
        "hidden": "hidden_dim",
        "max_length": "max_position_embeddings",
        "dropout": "dropout",
        "attention_dropout": "attention_dropout",
    },
    needs={"norm_eps": 1e-12},
)
LAYOUTS = NAMES.layouts()
