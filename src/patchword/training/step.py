"""A step: from a batch to one change of the weights."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch
from torch import Tensor

from patchword.training.parallel.gradient_sync import LOCAL, GradientSync

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


class Halves(Protocol):
    """A step whose two halves can be had by themselves: all that is computed, and the change of the weights."""

    def gradient(self, batch: Any) -> tuple[Tensor, Tensor]: ...

    def descend(self, rate: float) -> Tensor: ...


class PlainStep:
    """Gradient of the batch, in `parts` pieces if it is too large for the memory; clip; descend.

    A step that needs another gradient asks for `gradient` elsewhere and descends in the same way.
    """

    def __init__(
        self,
        objective: Objective,
        optimizer: torch.optim.Optimizer,
        *,
        clip: float = 0.0,
        parts: int = 1,
        precision: Precision = "float32",
        exchange: GradientSync = LOCAL,
    ) -> None:
        self.exchange = exchange  # with the other processes of the run
        self.objective, self.optimizer = objective, optimizer
        self.clip, self.parts, self.precision = clip, parts, precision

    def __call__(self, batch: Batch, rate: float) -> tuple[Tensor, Tensor]:
        told = self.gradient(batch)
        self.descend(rate)
        return told

    def gradient(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Adds that of the batch's mean loss to what the weights hold; the summed loss and the right answers."""
        loss, right = torch.zeros((), device=batch.device), torch.zeros((), device=batch.device)
        pieces = batch.split(self.parts)
        for number, piece in enumerate(pieces, 1):
            with autocast(self.precision, batch.device):
                outcome = self.objective(piece, batch)
            self.exchange.backward(outcome.loss, telling(outcome.loss), last=number == len(pieces))
            loss += outcome.loss.detach() * batch.weight
            right += outcome.right
        loss, right = self.exchange.finish(loss, right)
        return loss, right

    def descend(self, rate: float) -> Tensor:
        """Clips the gradient that the weights hold, follows it, and forgets it; (): True where it was no number.

        Such a gradient is not followed: weights, moments and their count stay as they are, bit by bit.
        """
        bad = ~self._clipped().isfinite()
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group.get("share", 1.0)
        self._step_unless(bad)
        self.optimizer.zero_grad(set_to_none=True)
        return bad

    def _clipped(self) -> Tensor:
        """The norm that the gradient had."""
        if self.clip:
            return _whole(torch.nn.utils.clip_grad_norm_(self.weights(), self.clip, foreach=True))
        gradients = [weight.grad for weight in self.weights() if weight.grad is not None]
        return _whole(torch.nn.utils.get_total_norm(gradients, foreach=True))

    def _step_unless(self, bad: Tensor) -> None:
        """A fused optimizer looks for itself, on the device, so that nobody waits for the GPU; others are told."""
        if getattr(self.optimizer, "_step_supports_amp_scaling", False) and bad.device.type in ("cpu", "cuda"):
            self.optimizer.found_inf = bad.float()  # type: ignore[attr-defined]  # set as GradScaler does
            self.optimizer.step()
            del self.optimizer.found_inf  # type: ignore[attr-defined]  # and taken away, as it does
        elif not bool(bad):
            self.optimizer.step()

    def weights(self) -> list[Tensor]:
        """all that are trained"""
        return [parameter for group in self.optimizer.param_groups for parameter in group["params"]]


def telling(loss: Tensor) -> Tensor:
    """Where its gradient begins: at 1, or at NaN if the loss is no number, so that looking at the gradient is enough,
    and every process that it is shared with sees it, too."""
    return loss.detach() * 0 + 1


def _whole(norm: Tensor) -> Tensor:
    """of all processes, where each holds a part of the weights"""
    gathered: Tensor = norm.full_tensor() if hasattr(norm, "full_tensor") else norm  # DTensor takes a second to import
    return gathered


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[object]:
    return torch.autocast(device.type, torch.bfloat16) if precision == "bfloat16" else nullcontext()
