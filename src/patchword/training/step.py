"""A step: from a batch to one change of the weights."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import torch
from torch import Tensor

Precision = str  # "float32" or "bfloat16"


class Outcome(Protocol):
    """What an objective answers: a mean loss to descend, and how many of its examples were right."""

    @property
    def loss(self) -> Tensor: ...

    @property
    def right(self) -> Tensor: ...


Objective = Callable[[Tensor, Tensor], Outcome]


class Step(Protocol):
    """Returns the summed loss and the number of right answers of the batch, still on the device."""

    def __call__(self, inputs: Tensor, labels: Tensor, rate: float) -> tuple[Tensor, Tensor]: ...


class PlainStep:
    """Gradient of the batch, in `parts` pieces if it is too large for the memory; clip; descend."""

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

    def __call__(self, inputs: Tensor, labels: Tensor, rate: float) -> tuple[Tensor, Tensor]:
        loss, right = torch.zeros((), device=inputs.device), torch.zeros((), device=inputs.device)
        for piece, truth in zip(inputs.chunk(self.parts), labels.chunk(self.parts), strict=True):
            with autocast(self.precision, inputs.device):
                outcome = self.objective(piece, truth)
            (outcome.loss * (len(piece) / len(inputs))).backward()
            loss += outcome.loss.detach() * len(piece)
            right += outcome.right
        if self.clip:
            torch.nn.utils.clip_grad_norm_(self._parameters(), self.clip, foreach=True)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss, right

    def _parameters(self) -> Iterable[Tensor]:
        return [parameter for group in self.optimizer.param_groups for parameter in group["params"]]


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[object]:
    return torch.autocast(device.type, torch.bfloat16) if precision == "bfloat16" else nullcontext()
