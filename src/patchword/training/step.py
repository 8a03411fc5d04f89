"""A step: from a batch to one change of the weights."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch
from torch import Tensor

Precision = str  # "float32" or "bfloat16"


class Batch(Protocol):
    """What a step is taken on. `weight`: how many terms the mean of its loss has (examples, masked words, tags)."""

    @property
    def weight(self) -> int: ...

    @property
    def device(self) -> torch.device: ...

    def split(self, parts: int) -> Sequence[Any]:
        """the same batch in so many pieces, or fewer"""
        ...


class Outcome(Protocol):
    """What an objective answers: a loss to descend, and how many of its terms were right."""

    @property
    def loss(self) -> Tensor: ...

    @property
    def right(self) -> Tensor: ...


# A piece, and the batch it is of: the piece's share of the batch's mean loss, so that pieces add up to the whole.
Objective = Callable[[Any, Any], Outcome]


class Step(Protocol):
    """Returns the summed loss and the number of right answers of the batch, still on the device."""

    def __call__(self, batch: Any, rate: float) -> tuple[Tensor, Tensor]: ...


class PlainStep:
    """Gradient of the batch, in `parts` pieces if it is too large for the memory; clip; descend.

    Its two halves can be had by themselves, so that a step that needs another gradient asks for `gradient` elsewhere
    and descends in the same way.
    """

    def __init__(
        self,
        objective: Objective,
        optimizer: torch.optim.Optimizer,
        *,
        clip: float = 0.0,
        parts: int = 1,
        precision: Precision = "float32",
    ) -> None:
        self.objective, self.optimizer = objective, optimizer
        self.clip, self.parts, self.precision = clip, parts, precision

    def __call__(self, batch: Batch, rate: float) -> tuple[Tensor, Tensor]:
        told = self.gradient(batch)
        self.descend(rate)
        return told

    def gradient(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Adds that of the batch's mean loss to what the weights hold; the summed loss and the right answers."""
        loss, right = torch.zeros((), device=batch.device), torch.zeros((), device=batch.device)
        for piece in batch.split(self.parts):
            with autocast(self.precision, batch.device):
                outcome = self.objective(piece, batch)
            outcome.loss.backward()
            loss += outcome.loss.detach() * batch.weight
            right += outcome.right
        return loss, right

    def descend(self, rate: float) -> None:
        """Clips the gradient that the weights hold, follows it, and forgets it."""
        if self.clip:
            torch.nn.utils.clip_grad_norm_(self.weights(), self.clip, foreach=True)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group.get("share", 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def weights(self) -> list[Tensor]:
        """all that are trained"""
        return [parameter for group in self.optimizer.param_groups for parameter in group["params"]]


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[object]:
    return torch.autocast(device.type, torch.bfloat16) if precision == "bfloat16" else nullcontext()
