"""Layouts of language models whose output matrix is the word embedding, or one of its own."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.core.tensor_files import Tensors
from patchword.weights.names.name_table import Layout, rows

_BIAS, _OWN = "head.words.output.bias", "head.words.output.linear.{p}"


@dataclass(frozen=True)
class TiedLayout(Layout):
    """The output matrix is tied to the embedding; a file in which the two differ is refused, unless its config says so.

    tied: their names of the output matrix and of the embedding.
    copies: their tensors that are written with the values of others, and are not read.
    """

    tied: tuple[str, str] = ("", "")
    copies: Mapping[str, str] = field(default_factory=dict)

    def for_config(self, config: Mapping[str, Any]) -> Layout:
        return self if config.get("tie_word_embeddings", True) else self._untied()

    def writing(self, card: Card) -> Layout:
        return self if card.config.get("tied", True) else self._untied()

    def _untied(self) -> Layout:
        """Return the layout of files with an output matrix of its own, and its bias beside it."""
        own = self.tied[0].removesuffix(".weight")
        if not own:
            return self
        biases = [row.theirs[0] for row in self.table if row.ours == _BIAS]
        unread = {name: f"{own}.bias" for name in biases if name != f"{own}.bias"}
        return replace(
            self,
            table=tuple(row for row in self.table if row.ours != _BIAS) + rows((_OWN, f"{own}.{{p}}")),
            dropped=(*(name for name in self.dropped if not name.startswith(f"{own}.")), *unread),
            tied=("", ""),
            copies=unread,
        )

    def to_ours(self, tensors: Mapping[str, Tensor]) -> tuple[Tensors, list[str]]:
        matrix, table = tensors.get(self.tied[0]), tensors.get(self.tied[1])
        if matrix is not None and table is not None and not torch.equal(matrix, table):
            expected = "tied weights, or tie_word_embeddings false in config.json"
            raise UserError("the output matrix differs from the word embedding", expected=expected)
        return super().to_ours(tensors)

    def to_theirs(self, tensors: Mapping[str, Tensor]) -> Tensors:
        found = super().to_theirs(tensors)
        return found | {copy: found[name].clone() for copy, name in self.copies.items() if name in found}
