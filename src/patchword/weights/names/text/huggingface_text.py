"""Hugging Face's names of a text family: one table, from which the layouts of all heads are built."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.weights.names.configs import huggingface_config, refuse_heads, require
from patchword.weights.names.name_table import Layout, Row, Shapes, rows
from patchword.weights.names.text.tied import TiedLayout

Pairs = tuple[
    tuple[str, str | tuple[str, ...]], ...
]  # (our name, their name or several of theirs that are concatenated)
ACTIVATIONS = {  # several names of theirs for one function; the first one is written
    **{"gelu": "gelu", "gelu_python": "gelu", "relu": "relu", "silu": "silu", "swish": "silu"},
    **dict.fromkeys(("gelu_new", "gelu_fast", "gelu_accurate", "gelu_pytorch_tanh", "gelu_python_tanh"), "gelu-tanh"),
}
FIELDS = {
    "vocabulary": "vocab_size",
    "width": "hidden_size",
    "depth": "num_hidden_layers",
    "heads": "num_attention_heads",
    "hidden": "intermediate_size",
    "max_length": "max_position_embeddings",
    "segments": "type_vocab_size",
    "norm_eps": "layer_norm_eps",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
}
SIZES: dict[str, tuple[str, ...]] = {
    "embedding.words.weight": ("vocabulary", "width"),
    "embedding.positions.weight": ("max_length",),
    "embedding.segments.weight": ("segments",),
    "encoder.blocks.0.feed_forward.sublayer.up.weight": ("hidden",),
}


@dataclass(frozen=True)
class Head:
    """A head: our name, their class, tensor names that identify it, their names of our last linear layer and pooler."""

    ours: str
    theirs: str
    markers: tuple[str, ...]
    linear: str = ""
    pool: str = ""

    @property
    def pools(self) -> bool:
        return self.ours not in ("words", "tags", "span")


@dataclass(frozen=True)
class TextNames:
    """model_types: their `model_type` values; the first one is written. prefix: of the encoder's names under a head.

    encoder: name pairs without the prefix. words: name pairs of the language modelling head, with full names.
    duplicates: their names of the output matrix and bias that are copies of other tensors. pooler: name of the
    encoder's pooler without the prefix; "" if it has none. first: the row of their position table where ours begins.
    activation: their field and its default value; "" if there is none. expected: see `require`.
    """

    family: str
    title: str
    model_types: tuple[str, ...]
    prefix: str
    bare: str
    encoder: Pairs
    words: Pairs
    heads: tuple[Head, ...]
    table: str = "embeddings.word_embeddings.weight"
    duplicates: tuple[str, ...] = ()
    pooler: str = "pooler.dense"
    first: int = 0
    activation: tuple[str, str] = ("hidden_act", "gelu")
    fields: Mapping[str, str] = field(default_factory=lambda: FIELDS)
    sizes: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: SIZES)
    expected: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    written: Mapping[str, Any] = field(default_factory=dict)  # their fields with a constant value
    dropped: tuple[str, ...] = (
        "embeddings.position_ids",
    )  # without the prefix; 0, 1, 2, ... in older files, not learned
    counts_blocks: bool = True
    pooling: str = "pooler"  # how their heads pool a text into one vector
    needs: Mapping[str, Any] = field(default_factory=dict)  # our fields for which they support only one value
    also_for: tuple[str, ...] = ()  # other families that are saved under these names
    unread: tuple[str, ...] = ()  # classes of theirs whose tensors have the names of another head

    def layouts(self) -> tuple[Layout, ...]:
        """Return all layouts. The first match is used, so layouts with more distinct names come first."""
        found = [self._with_head(head) for head in self.heads]
        starts = ("", self.prefix)
        if self.pooler:
            found += [self._bare(start, "pooled", "pooler", (f"{start}{self.pooler}.weight",)) for start in starts]
            found += [self._bare(start, "vector", "mean", ()) for start in starts]
            found += [self._bare("", "tokens", "mean", ())]  # the same names, so it is only written
        else:
            found += [self._bare(start, "tokens", self.pooling, ()) for start in starts]
        return tuple(found)

    def _with_head(self, head: Head) -> Layout:
        pool = rows(("head.pool.linear.{p}", f"{head.pool}.{{p}}")) if head.pool else ()
        linear = rows(("head.linear.{p}", f"{head.linear}.{{p}}")) if head.linear else ()
        implied = {"head": head.ours, "pool": self.pooling}
        return TiedLayout(
            "huggingface",
            self.family,
            self._rows(self.prefix, own_pooler=not head.pool) + rows(*self.words) + pool + linear,
            (f"{self.prefix}{self.table}", *head.markers),
            self._sizes_of(head),
            implied,
            self.read_config,
            self.write_config,
            (*self.duplicates, *(start + name for name in self.dropped for start in ("", self.prefix))),
            {**self.needs, "position": "learned", "head": head.ours} | ({"pool": self.pooling} if head.pools else {}),
            self.also_for,
            model_types=self.model_types,
            tied=(self.duplicates[0] if self.duplicates else "", f"{self.prefix}{self.table}"),
        )

    def _bare(self, prefix: str, head: str, pool: str, names: tuple[str, ...]) -> Layout:
        implied = {"head": head, "pool": pool}
        return Layout(
            "huggingface",
            self.family,
            self._rows(prefix, own_pooler=True),
            (prefix + self.table, *names),
            self.read_sizes,
            implied,
            self.read_config,
            self.write_config,
            tuple(start + name for name in self.dropped for start in ("", self.prefix)),
            {**self.needs, "position": "learned", "head": head} | ({"pool": pool} if head != "tokens" else {}),
            self.also_for,
            model_types=self.model_types,
        )

    def _rows(self, prefix: str, own_pooler: bool) -> tuple[Row, ...]:
        def named(theirs: str | tuple[str, ...]) -> str | tuple[str, ...]:
            return prefix + theirs if isinstance(theirs, str) else tuple(prefix + name for name in theirs)

        pooler = (("head.pool.linear.{p}", f"{self.pooler}.{{p}}"),) if self.pooler and own_pooler else ()
        return rows(*((ours, named(theirs)) for ours, theirs in (*self.encoder, *pooler)))

    def read_sizes(self, shapes: Shapes) -> dict[str, Any]:
        """Infer all sizes except the number of heads."""
        values: dict[str, Any] = {}
        if self.counts_blocks:
            values["depth"] = sum(name.endswith("attention.sublayer.output.weight") for name in shapes)
        for name, fields in self.sizes.items():
            values |= dict(zip(fields, shapes.get(name, ()), strict=False))
        return values | ({"max_length": values["max_length"] - self.first} if "max_length" in values else {})

    def _sizes_of(self, head: Head) -> Callable[[Shapes], dict[str, Any]]:
        if head.ours in ("classes", "tags"):
            return self._sizes_with_classes
        return self._sizes_of_two if head.linear else self.read_sizes

    def _sizes_with_classes(self, shapes: Shapes) -> dict[str, Any]:
        return self.read_sizes(shapes) | {"classes": shapes["head.linear.weight"][0]}

    def _sizes_of_two(self, shapes: Shapes) -> dict[str, Any]:
        """Infer the sizes of a span's start and end, or of a yes or no about two sentences."""
        (outputs, *_) = shapes["head.linear.weight"] or (0,)
        if outputs != 2:
            got = f"{outputs} outputs"
            raise UserError(f"this {self.title} has an unsupported head", expected="2 labels in id2label", got=got)
        return self.read_sizes(shapes)

    def read_config(self, config: Mapping[str, Any]) -> dict[str, Any]:
        require(self.title, config, self.expected)
        refuse_heads(self.title, config, self.unread, [head.theirs for head in self.heads])
        values = {ours: config[theirs] for ours, theirs in self.fields.items() if theirs in config}
        values["tied"] = config.get("tie_word_embeddings", True)
        if "max_length" in values:
            values["max_length"] -= self.first
        if self.activation[0]:
            values["activation"] = self._read_activation(config.get(*self.activation))
        return values | _sentence_vector(config.get("sentence_transformers"))

    def _read_activation(self, name: Any) -> str:
        if name not in ACTIVATIONS:
            field, expected = self.activation[0], " or ".join(ACTIVATIONS)
            raise UserError(
                f"this {self.title} differs from the paper's", expected=f"{field} {expected}", got=str(name)
            )
        return ACTIVATIONS[name]

    def write_config(self, card: Card) -> dict[str, Any]:
        architecture = next((head.theirs for head in self.heads if head.ours == card.config["head"]), self.bare)
        values = {theirs: card.config[ours] for ours, theirs in self.fields.items()} | dict(self.written)
        if "max_length" in self.fields:
            values[self.fields["max_length"]] += self.first
        if self.activation[0]:
            values[self.activation[0]] = next(
                name for name, ours in ACTIVATIONS.items() if ours == card.config["activation"]
            )
        values |= {} if card.config.get("tied", True) else {"tie_word_embeddings": False}
        written = huggingface_config(card, architecture, self.model_types[0], values)
        has_classes = card.config["head"] in ("classes", "tags")  # a span's two outputs are their default
        return {name: value for name, value in written.items() if has_classes or name not in ("id2label", "label2id")}


def _sentence_vector(settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """Read the head of a sentence-transformers folder: pooling and normalisation."""
    if not settings:
        return {}
    modes, chosen = {"cls": "first", "mean": "mean"}, _pooling_modes(settings["pooling"])
    if len(chosen) != 1 or chosen[0] not in modes:
        raise UserError("unsupported pooling", expected=" or ".join(modes), got=", ".join(chosen) or "none")
    return {"head": "vector" if settings["normalize"] else "pooled", "pool": modes[chosen[0]]}


def _pooling_modes(settings: Mapping[str, Any]) -> list[str]:
    """Return the active pooling modes; older folders have one field per mode."""
    if named := settings.get("pooling_mode"):
        return [named] if isinstance(named, str) else [str(name) for name in named]
    start, end = "pooling_mode_", "_tokens?$"
    return [re.sub(end, "", name.removeprefix(start)) for name, on in settings.items() if name.startswith(start) and on]
