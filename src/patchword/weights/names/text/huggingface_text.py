"""How Hugging Face names a family of text models: one table, from which the layouts of all its heads are made."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.core.tensor_files import Tensors
from patchword.weights.names.configs import huggingface_config, require
from patchword.weights.names.name_table import Layout, Row, Shapes, rows

Pairs = tuple[tuple[str, str | tuple[str, ...]], ...]  # our name, and theirs or several of theirs joined
ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu-tanh", "gelu_pytorch_tanh": "gelu-tanh", "relu": "relu"}
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
    "entrance.words.weight": ("vocabulary", "width"),
    "entrance.positions.weight": ("max_length",),
    "entrance.segments.weight": ("segments",),
    "encoder.blocks.0.feed_forward.sublayer.up.weight": ("hidden",),
}


@dataclass(frozen=True)
class Head:
    """Our head, their class, the names that tell it, and what they call our last map and our pooler."""

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
    """kinds: their model_type, the one we write first. prefix: before the encoder's names under a head.

    encoder: pairs without the prefix; words: pairs of the head that tells words, with whole names. twice: their names
    of the words' matrix and its bias, which are there once more than with us. pooler: of the encoder, without the
    prefix; "" if it has none. first: the row of the table of positions where ours begin.
    activation: their field and the value it has by default; "" if there is none.
    told: fields whose values follow from nothing else. expected: fields of which we know one value, with the default.
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
    written: Mapping[str, Any] = field(default_factory=dict)  # fields of theirs that always have one value
    dropped: tuple[str, ...] = ("embeddings.position_ids",)  # without the prefix; 0, 1, 2, ... in older files
    counts_blocks: bool = True
    pooling: str = "pooler"  # how a text becomes one vector under their heads
    needs: Mapping[str, Any] = field(default_factory=dict)  # fields of ours that they have only one value for
    also_for: tuple[str, ...] = ()  # other families of ours that are written under these names

    def layouts(self) -> tuple[Layout, ...]:
        """The first layout whose names are in a file is the file's, so those with more names stand first."""
        found = [self._with_head(head) for head in self.heads]
        starts = ("", self.prefix)
        if self.pooler:
            found += [self._bare(start, "pooled", "pooler", (f"{start}{self.pooler}.weight",)) for start in starts]
            found += [self._bare(start, "vector", "mean", ()) for start in starts]
        else:
            found += [self._bare(start, "tokens", self.pooling, ()) for start in starts]
        return tuple(found)

    def _with_head(self, head: Head) -> Layout:
        pool = rows(("head.pool.linear.{p}", f"{head.pool}.{{p}}")) if head.pool else ()
        linear = rows(("head.linear.{p}", f"{head.linear}.{{p}}")) if head.linear else ()
        told = {"head": head.ours, "pool": self.pooling}
        return TiedLayout(
            "huggingface",
            self.family,
            self._rows(self.prefix, own_pooler=not head.pool) + rows(*self.words) + pool + linear,
            (f"{self.prefix}{self.table}", *head.markers),
            self._sizes_with_classes if head.ours in ("classes", "tags") else self.read_sizes,
            told,
            self.read_config,
            self.write_config,
            (*self.duplicates, *(start + name for name in self.dropped for start in ("", self.prefix))),
            {**self.needs, "position": "learned", "head": head.ours} | ({"pool": self.pooling} if head.pools else {}),
            self.also_for,
            model_types=self.model_types,
            tied=(self.duplicates[0] if self.duplicates else "", f"{self.prefix}{self.table}"),
        )

    def _bare(self, prefix: str, head: str, pool: str, names: tuple[str, ...]) -> Layout:
        told = {"head": head, "pool": pool}
        return Layout(
            "huggingface",
            self.family,
            self._rows(prefix, own_pooler=True),
            (prefix + self.table, *names),
            self.read_sizes,
            told,
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
        """All but the number of heads."""
        told: dict[str, Any] = {}
        if self.counts_blocks:
            told["depth"] = sum(name.endswith("attention.sublayer.output.weight") for name in shapes)
        for name, fields in self.sizes.items():
            told |= dict(zip(fields, shapes.get(name, ()), strict=False))
        return told | ({"max_length": told["max_length"] - self.first} if "max_length" in told else {})

    def _sizes_with_classes(self, shapes: Shapes) -> dict[str, Any]:
        return self.read_sizes(shapes) | {"classes": shapes["head.linear.weight"][0]}

    def read_config(self, config: Mapping[str, Any]) -> dict[str, Any]:
        require(self.title, config, self.expected)
        told = {ours: config[theirs] for ours, theirs in self.fields.items() if theirs in config}
        if "max_length" in told:
            told["max_length"] -= self.first
        if self.activation[0]:
            told["activation"] = self._read_activation(config.get(*self.activation))
        return told | _sentence_vector(config.get("sentence_transformers"))

    def _read_activation(self, name: Any) -> str:
        if name not in ACTIVATIONS:
            field, expected = self.activation[0], " or ".join(ACTIVATIONS)
            raise UserError(
                f"this {self.title} differs from the paper's", expected=f"{field} {expected}", got=str(name)
            )
        return ACTIVATIONS[name]

    def write_config(self, card: Card) -> dict[str, Any]:
        architecture = next((head.theirs for head in self.heads if head.ours == card.config["head"]), self.bare)
        told = {theirs: card.config[ours] for ours, theirs in self.fields.items()} | dict(self.written)
        if "max_length" in self.fields:
            told[self.fields["max_length"]] += self.first
        if self.activation[0]:
            told[self.activation[0]] = next(
                name for name, ours in ACTIVATIONS.items() if ours == card.config["activation"]
            )
        written = huggingface_config(card, architecture, self.model_types[0], told)
        has_classes = card.config["head"] in ("classes", "tags")  # a span's two outputs are their default
        return {name: value for name, value in written.items() if has_classes or name not in ("id2label", "label2id")}


@dataclass(frozen=True)
class TiedLayout(Layout):
    """The words' matrix is one with their table; a file in which the two differ is another model.

    twin: their names of the matrix and of the table.
    """

    tied: tuple[str, str] = ("", "")

    def to_ours(self, tensors: Mapping[str, Tensor]) -> tuple[Tensors, list[str]]:
        matrix, table = tensors.get(self.tied[0]), tensors.get(self.tied[1])
        if matrix is not None and table is not None and not torch.equal(matrix, table):
            raise UserError("this model scores words by another matrix than their table", expected="tied weights")
        return super().to_ours(tensors)


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
