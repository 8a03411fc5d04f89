"""The names of MobileBERT in Hugging Face's files. The released files have no pooler."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from patchword.core.card import Card
from patchword.weights.names.configs import require
from patchword.weights.names.name_table import Layout, Shapes
from patchword.weights.names.text.bert_parts import BERT_TWICE, BERT_WORDS, EMBEDDING_ROWS, bert_heads
from patchword.weights.names.text.huggingface_text import FIELDS, SIZES, Head, Pairs, TextNames

_OURS, _THEIRS, _MOST = (
    "encoder.blocks.{i}.",
    "encoder.layer.{i}.",
    16,
)  # maximum number of feed-forwards per block
_MIX = "embeddings.embedding_transformation"  # no other family has it
_TAGS = "MobileBertForTokenClassification"
_QUARTERS = ("bottleneck", "embedding")  # None in our config if they are a quarter of the width


def _feed_forward(ours: str, theirs: str) -> Pairs:
    ours, theirs = f"{_OURS}{ours}.", f"{_THEIRS}{theirs}"
    return (
        (ours + "sublayer.up.{p}", theirs + "intermediate.dense.{p}"),
        (ours + "sublayer.down.{p}", theirs + "output.dense.{p}"),
        (ours + "norm.{p}", theirs + "output.LayerNorm.{p}"),
    )


_PROJECTION = _OURS + "attention.sublayer.projection."
_ENCODER: Pairs = (
    *EMBEDDING_ROWS,
    ("embedding.gather.mix.{p}", f"{_MIX}.{{p}}"),
    (_OURS + "narrow.{p}", _THEIRS + "bottleneck.input.dense.{p}"),
    (_OURS + "narrow_norm.{p}", _THEIRS + "bottleneck.input.LayerNorm.{p}"),
    (_PROJECTION + "shared.{p}", _THEIRS + "bottleneck.attention.dense.{p}"),
    (_PROJECTION + "shared_norm.{p}", _THEIRS + "bottleneck.attention.LayerNorm.{p}"),
    (_PROJECTION + "query_key.{p}", tuple(f"{_THEIRS}attention.self.{name}.{{p}}" for name in ("query", "key"))),
    (_PROJECTION + "value.{p}", _THEIRS + "attention.self.value.{p}"),
    (_OURS + "attention.sublayer.output.{p}", _THEIRS + "attention.output.dense.{p}"),
    (_OURS + "attention.norm.{p}", _THEIRS + "attention.output.LayerNorm.{p}"),
    *(pair for number in range(1, _MOST) for pair in _feed_forward(f"feed_forward_{number}", f"ffn.{number - 1}.")),
    *_feed_forward("feed_forward", ""),
    (_OURS + "widen.{p}", _THEIRS + "output.bottleneck.dense.{p}"),
    (_OURS + "norm.{p}", _THEIRS + "output.bottleneck.LayerNorm.{p}"),
)


class MobileNames(TextNames):
    """MobileBERT's names. Without a pooler, classifier and tagger have equal names; the config distinguishes them."""

    def layouts(self) -> tuple[Layout, ...]:
        if self.pooler:
            heads = [head for head in self.heads if head.pools]
            return (*(self._with_head(head) for head in heads), *self._encoders("pooled", "pooler", self.pooler))
        encoders = (("pooled", "first"), ("vector", "mean"), ("tokens", "first"))
        bare = [layout for head, pool in encoders for layout in self._encoders(head, pool)]
        return (*(self._with_head(head) for head in self.heads), *bare)

    def _with_head(self, head: Head) -> Layout:
        found = super()._with_head(head)
        if head.ours not in ("words", "pretraining"):
            return found
        needs = {**found.needs, "tied": True}  # theirs is partly tied, or two matrices whose one is transposed
        return replace(found, read_config=self._read_tied, needs=needs)

    def _read_tied(self, config: Mapping[str, Any]) -> dict[str, Any]:
        require("MobileBERT with words", config, {"tie_word_embeddings": (True, True)})
        return self.read_config(config)

    def _encoders(self, head: str, pool: str, *markers: str) -> list[Layout]:
        """Return the layouts of the encoder alone, with and without the prefix."""
        parts = (_MIX, *markers)
        return [self._bare(at, head, pool, tuple(f"{at}{part}.weight" for part in parts)) for at in ("", self.prefix)]

    def read_sizes(self, shapes: Shapes) -> dict[str, Any]:
        found = super().read_sizes(shapes)
        stacked = sum(name.startswith("encoder.blocks.0.feed_forward") for name in shapes) // 6
        return _with_quarters(found | {"feed_forwards": stacked})

    def read_config(self, config: Mapping[str, Any]) -> dict[str, Any]:
        tags = {"head": "tags"} if config.get("architectures") == [_TAGS] else {}
        return _with_quarters(super().read_config(config)) | tags

    def write_config(self, card: Card) -> dict[str, Any]:
        quarter = card.config["width"] // 4
        values = {self.fields[name]: card.config[name] or quarter for name in _QUARTERS}
        return super().write_config(card) | values


def _with_quarters(values: dict[str, Any]) -> dict[str, Any]:
    quarters = [
        name for name in _QUARTERS if name in values and "width" in values and values[name] * 4 == values["width"]
    ]
    return values | dict.fromkeys(quarters)


def _heads(pooler: bool) -> tuple[Head, ...]:
    markers = ("mobilebert.pooler.dense.weight",) if pooler else ()
    found = bert_heads("MobileBert", "mobilebert.")
    names = {head.ours: tuple(name for name in head.markers if ".pooler." not in name) for head in found}
    return tuple(replace(head, markers=names[head.ours] + (markers if head.pools else ())) for head in found)


def _names(pooler: bool) -> MobileNames:
    return MobileNames(
        "mobilebert",
        "MobileBERT",
        ("mobilebert",),
        "mobilebert.",
        "MobileBertModel",
        encoder=_ENCODER,
        words=(*BERT_WORDS, ("head.words.output.extra.weight", "cls.predictions.dense.weight")),
        heads=_heads(pooler),
        duplicates=BERT_TWICE,
        pooler="pooler.dense" if pooler else "",
        activation=("hidden_act", "relu"),
        fields={
            **FIELDS,
            "embedding": "embedding_size",
            "bottleneck": "intra_bottleneck_size",
            "feed_forwards": "num_feedforward_networks",
        },
        sizes={
            **SIZES,
            "embedding.words.weight": ("vocabulary", "embedding"),
            "embedding.positions.weight": ("max_length", "width"),
            "encoder.blocks.0.narrow.weight": ("bottleneck",),
        },
        expected={
            "trigram_input": (True, True),
            "use_bottleneck": (True, True),
            "use_bottleneck_attention": (False, False),
            "key_query_shared_bottleneck": (True, True),
            "normalization_type": ("no_norm", "no_norm"),
        },
        written={"classifier_activation": pooler},
        pooling="pooler" if pooler else "first",
    )


LAYOUTS = (*_names(pooler=True).layouts(), *_names(pooler=False).layouts())
