"""Padded texts."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.core.text import Text
from patchword.layers import BlockSparse, Pattern
from patchword.layers.model import Model
from patchword.weights.export.inputs.base import OUTPUT, InputTensors, about


@dataclass(frozen=True)
class TextInputs:
    """Padded texts of any length up to the model's maximum, or of one length."""

    card: Card
    batch: int | None
    tokens: int | None = None
    names: tuple[str, ...] = ("ids", "segments", "mask")

    def examples(self) -> list[InputTensors]:
        lengths = [self.tokens or min(length, self._longest()) for length in (17, 40)]
        counts = [self.batch] * 2 if self.batch else [1, 3]
        return [self._texts(count, length) for count, length in zip(counts, lengths, strict=True)]

    def traced(self) -> InputTensors:
        return self._texts(self.batch or 2, self.tokens or min(13, self._longest()))

    def shapes(self) -> Any:
        open_axes: dict[int, Any] = {}
        if not self.tokens:
            open_axes[1] = Dim("tokens", min=3, max=self._longest())  # [CLS], a word, [SEP]
        if not self.batch:
            open_axes[0] = Dim("batch", min=1)
        return (open_axes,) * len(self.names)

    def module(self, model: Model) -> nn.Module:
        self._check_length(model)
        return _TextAdapter(model)

    def _check_length(self, model: Model) -> None:
        """Block-sparse attention is another graph for each number of blocks."""
        if self.tokens is not None:
            return
        partitions = [part.partition for part in model.modules() if isinstance(part, Pattern)]
        if any(isinstance(part, BlockSparse) and part.is_sparse(self._longest()) for part in partitions):
            raise UserError(
                f"{self.card.model!r} with block-sparse attention cannot be exported for all lengths at once",
                expected="one number of tokens",
                got=f"any number up to {self._longest()}",
                hint="--tokens N, or export(..., tokens=N); shorter texts are then padded to it",
            )

    def notes(self) -> dict[str, str]:
        count, length, config = self.batch or "batch", self.tokens or "tokens", self.card.config
        shape = f"int64 ({count}, {length})" + ("" if self.tokens else f", at most {self._longest()} tokens")
        answers = {
            "tokens": f"({count}, {length}, {config['width']}): the outputs of the last block",
            "words": f"({count}, {length}, {config['vocabulary']}): logits of the vocabulary",
            "tags": f"({count}, {length}, {config['classes']}): logits, in the order of labels",
            "span": f"({count}, {length}, 2): logits of the start and of the end of the answer",
            "classes": f"({count}, {config['classes']}): logits, in the order of labels",
            "next": f"({count}, 2): logits of 'the second text follows' and 'it does not'",
        }
        whole = f"({count}, {config['width']}): one vector per text"
        return {
            "input": f"{', '.join(self.names)}: {shape}. Token ids with special tokens; 0 for the "
            "first text and 1 for the second of a pair; 1 for tokens and 0 for padding",
            "output": f"{OUTPUT}, float32 {answers.get(config['head'], whole)}",
            **about(self.card),
        }

    def _longest(self) -> int:
        return int(self.card.config["max_length"])

    def _texts(self, count: int, length: int) -> InputTensors:
        """Return random tokens; every text except the first is padded."""
        generator = torch.Generator().manual_seed(count)
        ids = torch.randint(0, self.card.config["vocabulary"], (count, length), generator=generator)
        lengths = (length - 2 * torch.arange(count)).clamp(min=1)[:, None]
        places = torch.arange(length)
        segments = (places >= lengths // 2).long() if self.card.config.get("segments", 0) > 1 else 0 * ids
        return ids, segments, (places < lengths).long()


class _TextAdapter(nn.Module):
    """Calls a text model with plain tensors."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, segments: Tensor, mask: Tensor) -> Tensor:
        return self.model(Text(ids, segments, mask.bool()))
