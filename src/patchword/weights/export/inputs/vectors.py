"""Padded texts whose words are vectors of other models."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

from patchword.core.card import Card
from patchword.layers.model import Model
from patchword.layers.text.frozen_vectors import Frozen
from patchword.weights.export.inputs.base import OUTPUT, InputTensors, about


@dataclass(frozen=True)
class VectorInputs:
    """Padded texts of any number of words."""

    card: Card
    batch: int | None
    names: tuple[str, ...] = ("vectors", "mask")

    def examples(self) -> list[InputTensors]:
        counts = [self.batch] * 2 if self.batch else [1, 3]
        return [self._texts(count, words) for count, words in zip(counts, (17, 40), strict=True)]

    def traced(self) -> InputTensors:
        return self._texts(self.batch or 2, 5)

    def shapes(self) -> Any:
        batch, words = {} if self.batch else {0: Dim("batch", min=1)}, Dim("words", min=1)
        return ({**batch, 1: words},) * len(self.names)

    def module(self, model: Model) -> nn.Module:
        return _VectorAdapter(model)

    def notes(self) -> dict[str, str]:
        count, config = self.batch or "batch", self.card.config
        sources = ", then ".join(
            f"{layers} layers of {wide} channels, lowest first" if layers > 1 else f"{wide} channels"
            for layers, wide in config["sources"]
        )
        each = "words, " if config["head"] == "tags" else ""
        return {
            "input": f"{', '.join(self.names)}: float32 ({count}, words, {self._channels()}), int64 ({count}, words). "
            f"Per word {sources}; zeros if a source does not know the word; 1 for words and 0 for padding on the right",
            "output": f"{OUTPUT}, float32 ({count}, {each}{config['classes']}): logits, in the order of labels",
            **about(self.card),
        }

    def _channels(self) -> int:
        return sum(layers * wide for layers, wide in self.card.config["sources"])

    def _texts(self, count: int, words: int) -> InputTensors:
        """Return noise; every text except the first is padded, and its first word is unknown."""
        generator = torch.Generator().manual_seed(count)
        vectors = torch.randn(count, words, self._channels(), generator=generator)
        vectors[1:, 0] = 0
        lengths = (words - 2 * torch.arange(count)).clamp(min=1)[:, None]
        return vectors, (torch.arange(words) < lengths).long()


class _VectorAdapter(nn.Module):
    """Calls a model over frozen vectors with plain tensors."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        return self.model(Frozen(vectors, mask.bool()))
