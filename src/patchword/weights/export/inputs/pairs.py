"""Pairs of texts: a source, and the known tokens of its translation."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

from patchword.core.card import Card
from patchword.core.text import Pair, Text
from patchword.layers.model import Model
from patchword.weights.export.inputs.base import OUTPUT, InputTensors, about


@dataclass(frozen=True)
class PairInputs:
    """Padded source texts, and target texts as far as they are known; both of any length up to the model's maximum."""

    card: Card
    batch: int | None
    names: tuple[str, ...] = ("source", "mask", "target")

    def examples(self) -> list[InputTensors]:
        counts = [self.batch] * 2 if self.batch else [1, 3]
        return [self._pairs(count, *lengths) for count, lengths in zip(counts, ((17, 40), (40, 11)), strict=True)]

    def traced(self) -> InputTensors:
        return self._pairs(self.batch or 2, 13, 7)

    def shapes(self) -> Any:
        batch = {} if self.batch else {0: Dim("batch", min=1)}
        source, target = (Dim(f"{name}_tokens", min=1, max=self._longest()) for name in ("source", "target"))
        return {**batch, 1: source}, {**batch, 1: source}, {**batch, 1: target}

    def module(self, model: Model) -> nn.Module:
        return _PairAdapter(model)

    def notes(self) -> dict[str, str]:
        count, config = self.batch or "batch", self.card.config
        vocabulary = config["target_vocabulary"] or config["vocabulary"]
        return {
            "input": f"{', '.join(self.names)}: int64 ({count}, source_tokens), ({count}, source_tokens), ({count}, "
            f"target_tokens), at most {self._longest()} tokens each. Token ids of the source; 1 for its tokens and 0 "
            "for its padding; token ids of the target: a start token, then the known tokens, padded on the right",
            "output": f"{OUTPUT}, float32 ({count}, target_tokens, {vocabulary}): logits of the token after each token "
            "of the target",
            **about(self.card),
        }

    def _longest(self) -> int:
        return int(self.card.config["max_length"])

    def _pairs(self, count: int, source: int, target: int) -> InputTensors:
        """Return random tokens; every source except the first is padded."""
        generator, config = torch.Generator().manual_seed(count), self.card.config
        source, target = min(source, self._longest()), min(target, self._longest())
        lengths = (source - 2 * torch.arange(count)).clamp(min=1)[:, None]
        vocabulary = config["target_vocabulary"] or config["vocabulary"]
        return (
            torch.randint(0, config["vocabulary"], (count, source), generator=generator),
            (torch.arange(source) < lengths).long(),
            torch.randint(0, vocabulary, (count, target), generator=generator),
        )


class _PairAdapter(nn.Module):
    """Calls a translator with plain tensors. The target needs no mask: a token attends only to those before it."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Tensor, mask: Tensor, target: Tensor) -> Tensor:
        return self.model(Pair(Text(source, mask=mask.bool()), Text(target)))
