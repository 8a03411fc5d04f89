"""Classification with one label per example."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import torch.nn.functional as F
from torch import Tensor


class Outcome(NamedTuple):
    """The contribution of a micro-batch to the mean loss of its batch, and its number of correct predictions."""

    loss: Tensor
    right: Tensor


class Labelled(Protocol):
    """Inputs with labels: (batch,) class ids, or (batch, classes) class probabilities of mixed examples."""

    @property
    def inputs(self) -> Tensor: ...

    @property
    def labels(self) -> Tensor: ...


class Classification:
    """Cross-entropy. smoothing: label smoothing, the probability that is spread over all classes.

    weights: (classes,) class weights. The loss of a batch is then divided by the sum of its weights, as in
    torch.nn.CrossEntropyLoss; one of mixed examples by their number, since the weights have mean 1 over the data.
    """

    def __init__(
        self, model: Callable[[Tensor], Tensor], smoothing: float = 0.0, weights: Tensor | None = None
    ) -> None:
        self.model, self.smoothing, self.weights = model, smoothing, weights

    def __call__(self, piece: Labelled, batch: Labelled) -> Outcome:
        scores = self.model(piece.inputs)
        loss = F.cross_entropy(
            scores.float(), piece.labels, self.weights, reduction="sum", label_smoothing=self.smoothing
        )
        return Outcome(loss / self._total(batch), right(scores.detach(), piece.labels))

    def _total(self, batch: Labelled) -> Tensor | int:
        """Return what the loss is divided by: of the whole batch, so that micro-batches and processes add up."""
        if self.weights is None or batch.labels.dim() != 1:
            return len(batch.labels)
        return self.weights[batch.labels].sum()


def right(scores: Tensor, labels: Tensor) -> Tensor:
    """Return the number of correct predictions; a mixed example counts with the probability of the predicted class."""
    answers = scores.argmax(-1)
    if labels.dim() == 1:
        return (answers == labels).sum()
    return labels.gather(-1, answers[:, None]).sum()
