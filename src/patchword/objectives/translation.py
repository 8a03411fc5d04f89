"""The objective of sequence-to-sequence models: predict the next word at every position of the target."""

from collections.abc import Callable
from typing import Protocol

import torch.nn.functional as F
from torch import Tensor

from patchword.core.text import Pair
from patchword.objectives.classification import Outcome


class PairPiece(Protocol):
    """Pairs of source and target texts."""

    @property
    def pair(self) -> Pair:
        """Return the pair on the device; `predict_at` of the target are the tokens that have a next one."""
        ...

    @property
    def asked_targets(self) -> Tensor:
        """Return (count,): the next token at each of `predict_at`, on the device."""
        ...

    @property
    def weight(self) -> int:
        """The number of target tokens."""
        ...


class NextWords:
    """Cross-entropy of the next word, averaged over words, not over texts. Correct predictions are words.

    smoothing: label smoothing, the probability that is spread over the vocabulary; 0.1 in the paper.
    """

    def __init__(self, model: Callable[[Pair], Tensor], smoothing: float = 0.0) -> None:
        self.model, self.smoothing = model, smoothing

    def __call__(self, piece: PairPiece, batch: PairPiece) -> Outcome:
        scores, targets = self.model(piece.pair).float(), piece.asked_targets
        summed = F.cross_entropy(scores, targets, reduction="sum", label_smoothing=self.smoothing)
        return Outcome(summed / batch.weight, (scores.detach().argmax(-1) == targets).sum())
