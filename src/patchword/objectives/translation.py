"""What a model that writes a text for a text learns: the next word of the target, everywhere at once."""

from collections.abc import Callable
from typing import Protocol

import torch.nn.functional as F
from torch import Tensor

from patchword.core.text import Pair
from patchword.objectives.classification import Outcome


class PairPiece(Protocol):
    """Texts with what was written for each."""

    @property
    def pair(self) -> Pair:
        """on the device; the places of its target are the tokens that have a next one"""
        ...

    @property
    def asked_targets(self) -> Tensor:
        """(places,) the next token behind each of the places, on the device"""
        ...

    @property
    def weight(self) -> int:
        """how many there are"""
        ...


class NextWords:
    """Cross-entropy of the next word, averaged over words and not over texts; right are words.

    smoothing: the share of the target that goes to all words of the vocabulary alike; the paper's is 0.1.
    """

    def __init__(self, model: Callable[[Pair], Tensor], smoothing: float = 0.0) -> None:
        self.model, self.smoothing = model, smoothing

    def __call__(self, piece: PairPiece, batch: PairPiece) -> Outcome:
        scores, targets = self.model(piece.pair).float(), piece.asked_targets
        summed = F.cross_entropy(scores, targets, reduction="sum", label_smoothing=self.smoothing)
        return Outcome(summed / batch.weight, (scores.detach().argmax(-1) == targets).sum())
