"""One label for each example."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import torch.nn.functional as F
from torch import Tensor


class Outcome(NamedTuple):
    """The share that some examples have in the mean loss of their batch, and how many of them were right."""

    loss: Tensor
    right: Tensor


class Labelled(Protocol):
    """labels: (batch,) of numbers of classes, or (batch, classes) of each class's share in a mixed example"""

    @property
    def inputs(self) -> Tensor: ...

    @property
    def labels(self) -> Tensor: ...


class Classification:
    """Cross-entropy; `smoothing` moves that share of the target from the label to all classes alike."""

    def __init__(self, model: Callable[[Tensor], Tensor], smoothing: float = 0.0) -> None:
        self.model, self.smoothing = model, smoothing

    def __call__(self, piece: Labelled, batch: Labelled) -> Outcome:
        scores = self.model(piece.inputs)
        loss = F.cross_entropy(scores.float(), piece.labels, reduction="sum", label_smoothing=self.smoothing)
        return Outcome(loss / len(batch.labels), right(scores.detach(), piece.labels))


def right(scores: Tensor, labels: Tensor) -> Tensor:
    """How many answers are right; of a mixed example, the share that the answered class has in it."""
    answers = scores.argmax(-1)
    if labels.dim() == 1:
        return (answers == labels).sum()
    return labels.gather(-1, answers[:, None]).sum()
