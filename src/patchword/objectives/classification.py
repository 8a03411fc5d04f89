"""One label for each example."""

from collections.abc import Callable
from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor


class Outcome(NamedTuple):
    """The mean loss of some examples, and how many of them were right."""

    loss: Tensor
    right: Tensor


class Classification:
    """Cross-entropy; `smoothing` moves that share of the target from the label to all classes alike."""

    def __init__(self, model: Callable[[Tensor], Tensor], smoothing: float = 0.0) -> None:
        self.model, self.smoothing = model, smoothing

    def __call__(self, inputs: Tensor, labels: Tensor) -> Outcome:
        scores = self.model(inputs)
        loss = F.cross_entropy(scores.float(), labels, label_smoothing=self.smoothing)
        return Outcome(loss, (scores.detach().argmax(-1) == labels).sum())
