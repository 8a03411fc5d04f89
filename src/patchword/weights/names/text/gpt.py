"""The names of GPT and GPT-2 in Hugging Face's files, whose matrices are transposed compared with nn.Linear.

A file of the encoder alone is also a language model: the output weights are tied to the embedding, so the head has no
weights of its own. It is a bare encoder only if the config names the encoder's class.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.core.tensor_files import Tensors
from patchword.weights.names.configs import huggingface_config, refuse_heads, require
from patchword.weights.names.name_table import Layout, Shapes, rows
from patchword.weights.names.text.huggingface_text import ACTIVATIONS, Pairs
from patchword.weights.names.text.tied import TiedLayout

_TRANSPOSED = re.compile(r".*\.c_(attn|proj|fc)\.weight")
_BLOCK = "encoder.blocks.{i}."
_BLOCKS: Pairs = (
    (_BLOCK + "attention.sublayer.projection.joint.{p}", "h.{i}.attn.c_attn.{p}"),
    (_BLOCK + "attention.sublayer.output.{p}", "h.{i}.attn.c_proj.{p}"),
    (_BLOCK + "attention.norm.{p}", "h.{i}.ln_1.{p}"),
    (_BLOCK + "feed_forward.sublayer.up.{p}", "h.{i}.mlp.c_fc.{p}"),
    (_BLOCK + "feed_forward.sublayer.down.{p}", "h.{i}.mlp.c_proj.{p}"),
    (_BLOCK + "feed_forward.norm.{p}", "h.{i}.ln_2.{p}"),
)
_PREFIX = "transformer."
_FIELDS = {
    "vocabulary": "vocab_size",
    "width": "n_embd",
    "depth": "n_layer",
    "heads": "n_head",
    "max_length": "n_positions",
    "norm_eps": "layer_norm_epsilon",
    "dropout": "resid_pdrop",
    "attention_dropout": "attn_pdrop",
    "padding": "pad_token_id",
}
_EXPECTED = {"add_cross_attention": (False, False)}
_SCALES = {"scaled": "scale_attn_weights", "scaled_by_block": "scale_attn_by_inverse_layer_idx"}
_END = 50256  # GPT-2's end-of-text id, transformers' default for every vocabulary


class GptLayout(TiedLayout):
    """Matrices of blocks are (inputs, outputs) in the file."""

    def to_ours(self, tensors: Mapping[str, Tensor]) -> tuple[Tensors, list[str]]:
        return super().to_ours(_transposed(tensors))

    def to_theirs(self, tensors: Mapping[str, Tensor]) -> Tensors:
        return _transposed(super().to_theirs(tensors))


def _transposed(tensors: Mapping[str, Tensor]) -> Tensors:
    return {
        name: tensor.T.contiguous() if _TRANSPOSED.fullmatch(name) and tensor.ndim == 2 else tensor
        for name, tensor in tensors.items()
    }


@dataclass(frozen=True)
class GptNames:
    """stem: prefix of their class names. heads: (our head, suffix of their class, their name of our last linear layer).

    activation: their config field. activations: its values -> ours, the default first.
    inner: their field of the feed-forward's width; "" if it is always four times the model's width.
    more: our fields that only this family has -> theirs.
    """

    family: str
    title: str
    model_type: str
    stem: str
    rows: Pairs
    heads: tuple[tuple[str, str, str], ...]
    activation: str
    activations: Mapping[str, str]
    inner: str
    more: Mapping[str, str] = field(default_factory=dict)

    @property
    def fields(self) -> dict[str, str]:
        """Our fields -> theirs."""
        return {**_FIELDS, **self.more}

    def layouts(self) -> tuple[Layout, ...]:
        """Return all layouts. The first match is used, so the language model, which has no linear layer, comes last."""
        found = (self._layout(_PREFIX, head, linear, head) for head, _, linear in self.heads)
        return (*found, self._layout("", "words", "", "tokens"))

    def _layout(self, prefix: str, head: str, linear: str, needed: str) -> Layout:
        """Return the layout of a head. needed: the head of the models that are saved with this layout."""
        pairs = [(ours, f"{prefix}{theirs}") for ours, theirs in self.rows]
        table = pairs[0][1]
        return GptLayout(
            "huggingface",
            self.family,
            rows(*pairs, *([("head.linear.{p}", f"{linear}.{{p}}")] if linear else [])),
            (table, f"{prefix}h.0.attn.c_attn.weight", *([f"{linear}.weight"] if linear else [])),
            sizes,
            {"head": head, **({"classes": 0} if head == "span" else {})},
            self.read_config,
            self.write_config,
            ("lm_head.weight", f"{prefix}h.{{i}}.attn.bias", f"{prefix}h.{{i}}.attn.masked_bias"),
            {"head": needed, "position": "learned", **({"pool": "last"} if head == "classes" else {})},
            tied=("lm_head.weight", table),
        )

    def read_config(self, config: Mapping[str, Any]) -> dict[str, Any]:
        require(self.title, config, _EXPECTED)
        known = [self.stem + end for _, end, _ in self.heads]
        refuse_heads(self.title, config, (f"{self.stem}DoubleHeadsModel",), known)
        activation = config.get(self.activation, next(iter(self.activations)))
        if activation not in self.activations:
            expected = f"{self.activation} {' or '.join(self.activations)}"
            raise UserError(f"this {self.title} differs from the paper's", expected=expected, got=activation)
        values = {ours: config[theirs] for ours, theirs in self.fields.items() if theirs in config}
        bare = {"head": "tokens"} if config.get("architectures") == [f"{self.stem}Model"] else {}
        tied = bool(config.get("tie_word_embeddings", True))
        return values | {"activation": self.activations[activation], "tied": tied} | bare

    def write_config(self, card: Card) -> dict[str, Any]:
        config = card.config
        names = {ours: theirs for theirs, ours in reversed(list(self.activations.items()))}
        hidden, usual = config["hidden"], 4 * config["width"]
        if config["activation"] not in names or (hidden != usual and not self.inner):
            raise UserError(
                f"huggingface has no such {self.title}",
                expected=f"a feed-forward of width {usual}, {' or '.join(names)}",
                got=f"{hidden}, {config['activation']}",
                hint='use layout="patchword"',
            )
        values = {theirs: config[ours] for ours, theirs in self.fields.items()}
        values |= {"embd_pdrop": config["dropout"], self.activation: names[config["activation"]]}
        values |= {self.inner: hidden} if self.inner else {}
        values |= {"bos_token_id": None, "eos_token_id": None} if config["vocabulary"] <= _END else {}
        values |= {} if config.get("tied", True) else {"tie_word_embeddings": False}
        ends = {ours: theirs for ours, theirs, _ in self.heads}
        written = huggingface_config(card, self.stem + ends.get(config["head"], "Model"), self.model_type, values)
        has_classes = config["head"] in ("classes", "tags")  # a span's two outputs are their default
        return {name: value for name, value in written.items() if has_classes or name not in ("id2label", "label2id")}


def sizes(shapes: Shapes) -> dict[str, Any]:
    """Infer all sizes except the number of heads."""
    up, last = "feed_forward.sublayer.up.weight", shapes.get("head.linear.weight")
    vocabulary, width = shapes["embedding.words.weight"]
    return {
        "vocabulary": vocabulary,
        "width": width,
        "max_length": shapes["embedding.positions.weight"][0],
        "hidden": shapes[f"encoder.blocks.0.{up}"][0],
        "depth": sum(name.endswith(up) for name in shapes),
        **({"classes": last[0]} if last else {}),
    }


GPT = GptNames(
    "gpt",
    "GPT",
    "openai-gpt",
    "OpenAIGPT",
    (
        ("embedding.words.weight", "tokens_embed.weight"),
        ("embedding.positions.weight", "positions_embed.weight"),
        *_BLOCKS,
    ),
    (("classes", "ForSequenceClassification", "score"), ("words", "LMHeadModel", "")),
    "afn",
    {"gelu": "gelu-tanh", "relu": "relu", "silu": "silu", "swish": "silu"},  # their "gelu" is the tanh form
    "",
)
GPT2 = GptNames(
    "gpt2",
    "GPT-2",
    "gpt2",
    "GPT2",
    (
        ("embedding.words.weight", "wte.weight"),
        ("embedding.positions.weight", "wpe.weight"),
        *_BLOCKS,
        ("norm.{p}", "ln_f.{p}"),
    ),
    (
        ("classes", "ForSequenceClassification", "score"),
        ("tags", "ForTokenClassification", "classifier"),
        ("span", "ForQuestionAnswering", "qa_outputs"),
        ("words", "LMHeadModel", ""),
    ),
    "activation_function",
    {"gelu_new": "gelu-tanh", **ACTIVATIONS},
    "n_inner",
    _SCALES,
)
LAYOUTS = (*GPT.layouts(), *GPT2.layouts())
