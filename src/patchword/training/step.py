"""A training step: micro-batches -> backward -> clip -> optimizer.

`PlainStep` is the core of every step. `SharpnessAware` and `OomRetry` change how the gradient is computed,
`NonFiniteGuard` decides whether it is applied; `recipes/steps.py` puts them together in one function, `build_step`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch
from torch import Tensor

from patchword.training.batch import Batch as Batch
from patchword.training.monitor import StepMonitor
from patchword.training.parallel.gradient_sync import LOCAL, GradientSync, full

Precision = str  # "float32" or "bfloat16"


class Outcome(Protocol):
    """The result of an objective: the loss to minimize, and the number of correct predictions."""

    @property
    def loss(self) -> Tensor: ...

    @property
    def right(self) -> Tensor: ...


# objective(micro_batch, batch): the micro-batch's part of the mean loss of the batch, so that the parts add up to it
Objective = Callable[[Any, Any], Outcome]


class Step(StepMonitor, ABC):
    """Changes the weights once per call."""

    @abstractmethod
    def __call__(self, batch: Batch, learning_rate: float) -> tuple[Tensor, Tensor]:
        """Return the summed loss and the number of correct predictions of the batch, still on the device."""


class ComputesGradient(Protocol):
    """Computes the gradient of a batch: `PlainStep`, `SharpnessAware`, or `OomRetry` around one of them."""

    def gradient(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Add the gradient to `.grad` of the weights; return the summed loss and the correct predictions."""
        ...


class PlainStep(Step):
    """Computes the gradient in `micro_batches` micro-batches, clips it, and calls the optimizer.

    clip: maximum norm of the gradient; 0 does not clip.
    gradient_sync: sums the gradient over the processes of the run.
    """

    def __init__(
        self,
        objective: Objective,
        optimizer: torch.optim.Optimizer,
        *,
        clip_norm: float = 0.0,
        micro_batches: int = 1,
        precision: Precision = "float32",
        gradient_sync: GradientSync = LOCAL,
    ) -> None:
        self.objective, self.optimizer, self.gradient_sync = objective, optimizer, gradient_sync
        self.clip_norm, self.micro_batches, self.precision = clip_norm, micro_batches, precision

    def __call__(self, batch: Batch, learning_rate: float) -> tuple[Tensor, Tensor]:
        loss, correct = self.gradient(batch)
        self.update(learning_rate)
        return loss, correct

    def gradient(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Add the gradient of the batch's mean loss to `.grad`; return the summed loss and the correct predictions."""
        loss, correct = torch.zeros((), device=batch.device), torch.zeros((), device=batch.device)
        micro_batches = batch.split(self.micro_batches)
        for index, micro_batch in enumerate(micro_batches, 1):
            with autocast(self.precision, batch.device):
                outcome = self.objective(micro_batch, batch)
            start = nan_unless_finite(outcome.loss)
            self.gradient_sync.backward(outcome.loss, start, last=index == len(micro_batches))
            loss += outcome.loss.detach() * batch.weight
            correct += outcome.right
        loss, correct = self.gradient_sync.finish(loss, correct)
        return loss, correct

    def update(self, learning_rate: float) -> Tensor:
        """Clip the gradient, apply the optimizer and reset the gradient. Return (): True if it was non-finite.

        A non-finite gradient is not applied: weights, moments and step counts stay bit-equal.
        """
        nonfinite = ~self._clip().isfinite()
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate * group.get("lr_scale", 1.0)
        self._apply_optimizer_unless(nonfinite)
        self.optimizer.zero_grad(set_to_none=True)
        return nonfinite

    def _clip(self) -> Tensor:
        """Clip the gradient, unless `clip_norm` is 0. Return its norm before clipping."""
        if self.clip_norm:
            return full(torch.nn.utils.clip_grad_norm_(self.weights(), self.clip_norm, foreach=True))
        gradients = [weight.grad for weight in self.weights() if weight.grad is not None]
        return full(torch.nn.utils.get_total_norm(gradients, foreach=True))

    def _apply_optimizer_unless(self, nonfinite: Tensor) -> None:
        """Apply the optimizer if the gradient is finite.

        A fused optimizer checks the flag on the device, so that the host does not wait for the GPU.
        """
        if getattr(self.optimizer, "_step_supports_amp_scaling", False) and nonfinite.device.type in ("cpu", "cuda"):
            self.optimizer.found_inf = nonfinite.float()  # type: ignore[attr-defined]  # set as GradScaler does
            self.optimizer.step()
            del self.optimizer.found_inf  # type: ignore[attr-defined]  # and removed as GradScaler does
        elif not bool(nonfinite):
            self.optimizer.step()

    def weights(self) -> list[Tensor]:
        """Return all weights that the optimizer trains."""
        return [parameter for group in self.optimizer.param_groups for parameter in group["params"]]


def nan_unless_finite(loss: Tensor) -> Tensor:
    """Return the gradient that the backward pass starts with: 1, or NaN for a non-finite loss.

    So checking the gradient is enough, and every process that it is summed with finds the NaN, too.
    """
    return loss.detach() * 0 + 1


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[object]:
    """Return the autocast context of a precision; float32 needs none."""
    return torch.autocast(device.type, torch.bfloat16) if precision == "bfloat16" else nullcontext()
