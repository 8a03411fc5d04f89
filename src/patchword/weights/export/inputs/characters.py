"""Padded texts whose words are given by their characters."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

from patchword.core.card import Card
from patchword.core.text import Text
from patchword.layers.model import Model
from patchword.weights.export.inputs.base import OUTPUT, InputTensors, about


@dataclass(frozen=True)
class CharacterInputs:
    """Padded texts of any number of words, each word of any number of characters."""

    card: Card
    batch: int | None
    names: tuple[str, ...] = ("characters", "mask")

    def examples(self) -> list[InputTensors]:
        counts, limit = [self.batch] * 2 if self.batch else [1, 3], int(self.card.config["characters"])
        sizes = (17, limit), (40, max(self._widest(), limit // 2))
        return [self._texts(count, *size) for count, size in zip(counts, sizes, strict=True)]

    def traced(self) -> InputTensors:
        return self._texts(self.batch or 2, 5, self._widest() + 2)

    def shapes(self) -> Any:
        batch = {} if self.batch else {0: Dim("batch", min=1)}
        words, characters = Dim("words", min=1), Dim("characters", min=self._widest() + 1)
        return {**batch, 1: words, 2: characters}, {**batch, 1: words}

    def module(self, model: Model) -> nn.Module:
        return _CharacterAdapter(model)

    def notes(self) -> dict[str, str]:
        count, config, limit = self.batch or "batch", self.card.config, self.card.config["characters"]
        answers = {
            "tokens": f"({count}, words, {2 * config['width']}): the mixture of the layers",
            "words": f"({count}, 2, words, {config['vocabulary']}): logits of the word after each word, and of the one "
            "before it",
            "tags": f"({count}, words, {config['classes']}): logits, in the order of labels",
            "classes": f"({count}, {config['classes']}): logits, in the order of labels",
        }
        return {
            "input": f"{', '.join(self.names)}: int64 ({count}, words, characters), ({count}, words). A word: 259, the "
            "bytes of its UTF-8 form plus 1, 260, then 261 as padding; 1 for words and 0 for padding",
            "characters": f"{limit} per word, so only the first {limit - 2} bytes of a longer word; or fewer, if every "
            f"word ends in {self._widest()} or more of padding, which gives the same outputs",
            "words": "a text begins with the word 259, 257, 260 and ends with the word 259, 258, 260, both with their "
            "padding; shorter texts are then padded with words of zeros",
            "output": f"{OUTPUT}, float32 {answers[config['head']]}",
            **about(self.card),
        }

    def _widest(self) -> int:
        """Return the size of the widest filter, which needs as many characters."""
        return int(max(size for size, _ in self.card.config["filters"]))

    def _texts(self, count: int, words: int, characters: int) -> InputTensors:
        """Return random characters; every text except the first is padded."""
        generator = torch.Generator().manual_seed(count)
        ids = torch.randint(1, self.card.config["symbols"], (count, words, characters), generator=generator)
        lengths = (words - 2 * torch.arange(count)).clamp(min=1)[:, None]
        mask = (torch.arange(words) < lengths).long()
        return ids * mask[..., None], mask


class _CharacterAdapter(nn.Module):
    """Calls a model of characters with plain tensors."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, characters: Tensor, mask: Tensor) -> Tensor:
        """Return the output of the head; the two outputs of a language model are stacked in the second axis."""
        answer: Tensor | tuple[Tensor, ...] = self.model(Text(characters, mask=mask.bool()))
        return answer if isinstance(answer, Tensor) else torch.stack(answer, dim=1)
