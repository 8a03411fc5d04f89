"""The names of XLM in Hugging Face's files."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.weights.names.configs import require
from patchword.weights.names.name_table import Layout
from patchword.weights.names.text.huggingface_text import Head, TextNames

_OURS = "encoder.blocks.{i}."
_SUMMARY = {  # how a text becomes one vector; their mean and their last token include the padding of a batch
    "summary_type": ("first", "first"),
    "summary_use_proj": (True, True),
    "summary_activation": (None, None),
    "summary_proj_to_labels": (True, True),
}


class XlmNames(TextNames):
    """The feed-forward is always four times as wide; language embeddings exist if there are several languages.

    Sinusoidal positions are a table in the file like learned ones.
    """

    def read_config(self, config: Mapping[str, Any]) -> dict[str, Any]:
        values = super().read_config(config)
        count = config.get("n_langs", 1)
        values["languages"] = count if count > 1 and config.get("use_lang_emb", True) else 0
        values["activation"] = "gelu" if config.get("gelu_activation", True) else "relu"
        return values

    def _with_head(self, head: Head) -> Layout:
        found = super()._with_head(head)
        return replace(found, read_config=self._read_classifier) if head.ours == "classes" else found

    def _read_classifier(self, config: Mapping[str, Any]) -> dict[str, Any]:
        require("XLM with classes", config, _SUMMARY)
        return self.read_config(config)

    def _bare(self, prefix: str, head: str, pool: str, names: tuple[str, ...]) -> Layout:
        return replace(super()._bare(prefix, head, pool, names), read_config=self._read_bare)

    def _read_bare(self, config: Mapping[str, Any]) -> dict[str, Any]:
        if "XLMForSequenceClassification" in (config.get("architectures") or ()):
            require("XLM with classes", config, _SUMMARY)  # its head may be without weights
        return self.read_config(config)

    def write_config(self, card: Card) -> dict[str, Any]:
        width, hidden, languages = (card.config[field] for field in ("width", "hidden", "languages"))
        activation = card.config["activation"]
        if hidden != 4 * width or activation not in ("gelu", "relu"):
            raise UserError(
                "huggingface has no such XLM",
                expected=f"a feed-forward of width {4 * width}, gelu or relu",
                got=f"{hidden}, {activation}",
                hint='use layout="patchword"',
            )
        values = {"n_langs": languages or 1, "use_lang_emb": bool(languages), "gelu_activation": activation == "gelu"}
        return super().write_config(card) | values


NAMES = XlmNames(
    "xlm",
    "XLM",
    ("xlm",),
    "transformer.",
    "XLMModel",
    encoder=(
        ("embedding.words.weight", "embeddings.weight"),
        ("embedding.positions.weight", "position_embeddings.weight"),
        ("embedding.languages.weight", "lang_embeddings.weight"),
        ("embedding.norm.{p}", "layer_norm_emb.{p}"),
        (
            _OURS + "attention.sublayer.projection.joint.{p}",
            tuple(f"attentions.{{i}}.{name}_lin.{{p}}" for name in "qkv"),
        ),
        (_OURS + "attention.sublayer.output.{p}", "attentions.{i}.out_lin.{p}"),
        (_OURS + "attention.norm.{p}", "layer_norm1.{i}.{p}"),
        (_OURS + "feed_forward.sublayer.up.{p}", "ffns.{i}.lin1.{p}"),
        (_OURS + "feed_forward.sublayer.down.{p}", "ffns.{i}.lin2.{p}"),
        (_OURS + "feed_forward.norm.{p}", "layer_norm2.{i}.{p}"),
    ),
    words=(("head.words.output.bias", "pred_layer.proj.bias"),),
    heads=(
        Head("words", "XLMWithLMHeadModel", ("pred_layer.proj.bias",)),
        Head("span", "XLMForQuestionAnsweringSimple", ("qa_outputs.weight",), "qa_outputs"),
        Head(
            "classes",
            "XLMForSequenceClassification",
            ("sequence_summary.summary.weight",),
            "sequence_summary.summary",
        ),
        Head("tags", "XLMForTokenClassification", ("classifier.weight",), "classifier"),
    ),
    table="embeddings.weight",
    duplicates=("pred_layer.proj.weight",),
    pooler="",
    pooling="first",
    activation=("", ""),
    fields={
        "vocabulary": "vocab_size",
        "width": "emb_dim",
        "depth": "n_layers",
        "heads": "n_heads",
        "max_length": "max_position_embeddings",
        "norm_eps": "layer_norm_eps",
        "dropout": "dropout",
        "attention_dropout": "attention_dropout",
    },
    sizes={
        "embedding.words.weight": ("vocabulary", "width"),
        "embedding.positions.weight": ("max_length",),
        "embedding.languages.weight": ("languages",),
        "encoder.blocks.0.feed_forward.sublayer.up.weight": ("hidden",),
    },
    expected={
        "causal": (False, False),
        "asm": (False, False),
    },
    dropped=("position_ids",),
    unread=("XLMForMultipleChoice", "XLMForQuestionAnswering"),  # one more linear map; a beam search over spans
)
LAYOUTS = NAMES.layouts()
