"""The names of BERT's parts, which many families use."""

from patchword.weights.names.text.huggingface_text import Head, Pairs


def block_rows(prefix: str = "encoder.layer.{i}.") -> Pairs:
    """Return the names of BERT's blocks."""
    ours = "encoder.blocks.{i}."
    joined = tuple(f"{prefix}attention.self.{name}.{{p}}" for name in ("query", "key", "value"))
    return (
        (ours + "attention.sublayer.projection.joint.{p}", joined),
        (ours + "attention.sublayer.output.{p}", prefix + "attention.output.dense.{p}"),
        (ours + "attention.norm.{p}", prefix + "attention.output.LayerNorm.{p}"),
        (ours + "feed_forward.sublayer.up.{p}", prefix + "intermediate.dense.{p}"),
        (ours + "feed_forward.sublayer.down.{p}", prefix + "output.dense.{p}"),
        (ours + "feed_forward.norm.{p}", prefix + "output.LayerNorm.{p}"),
    )


EMBEDDING_ROWS: Pairs = (
    ("embedding.words.weight", "embeddings.word_embeddings.weight"),
    ("embedding.positions.weight", "embeddings.position_embeddings.weight"),
    ("embedding.segments.weight", "embeddings.token_type_embeddings.weight"),
    ("embedding.norm.{p}", "embeddings.LayerNorm.{p}"),
)
BERT_WORDS: Pairs = (
    ("head.words.transform.{p}", "cls.predictions.transform.dense.{p}"),
    ("head.words.norm.{p}", "cls.predictions.transform.LayerNorm.{p}"),
    ("head.words.output.bias", "cls.predictions.bias"),
)
BERT_TWICE = ("cls.predictions.decoder.weight", "cls.predictions.decoder.bias")


def bert_heads(stem: str, prefix: str, pooler: str = "pooler.dense") -> tuple[Head, ...]:
    """Return BERT's heads with the class names of a family."""
    following = "cls.seq_relationship"
    words = "cls.predictions.bias"
    return (
        Head("pretraining", f"{stem}ForPreTraining", (words, f"{following}.weight"), following),
        Head("words", f"{stem}ForMaskedLM", (words,)),
        Head("next", f"{stem}ForNextSentencePrediction", (f"{following}.weight",), following),
        Head("span", f"{stem}ForQuestionAnswering", ("qa_outputs.weight",), "qa_outputs"),
        Head(
            "classes",
            f"{stem}ForSequenceClassification",
            ("classifier.weight", f"{prefix}{pooler}.weight"),
            "classifier",
        ),
        Head("tags", f"{stem}ForTokenClassification", ("classifier.weight",), "classifier"),
    )
