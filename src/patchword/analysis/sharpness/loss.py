"""The mean loss of a model over a sample as a function of its weights: value, gradient, Hessian-vector product.

The sample is read in batches whose contributions add up, so the batch size changes memory but not the result (except
for rounding). Everything is computed in the precision of the weights, without TF32, and in evaluation mode: no dropout,
and batch norms use the statistics of training.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from patchword.core.errors import UserError
from patchword.layers import reference_attention


class Value(NamedTuple):
    """The mean loss and the accuracy, which is NaN for tasks without one."""

    loss: float
    accuracy: float


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class SampleLoss:
    """A loss over a sample.

    batches: from a batch size to the batches of the sample; it can be called again.
    contribution: from a batch to its contribution to the mean loss and to the accuracy, differentiable.
    tick: called after every batch.
    """

    model: nn.Module
    batches: Callable[[int], Iterable[Any]]
    contribution: Callable[[Any], tuple[Tensor, Tensor]]
    size: int = 128
    count: int = 1  # examples in the sample
    tick: Callable[[], None] = field(default=_nothing, compare=False)

    @cached_property
    def parameters(self) -> list[nn.Parameter]:
        return [parameter for parameter in self.model.parameters() if parameter.requires_grad]

    @cached_property
    def weights(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters)

    @property
    def passes(self) -> int:
        """The number of batches of the sample."""
        return -(-self.count // self.size)

    def batches_text(self) -> str:
        """Return e.g. "16 batches of 128"."""
        return f"{self.passes} batches of {self.size}" if self.passes > 1 else "one batch"

    def zeros(self, *leading: int) -> Tensor:
        """(..., weights)"""
        first = self.parameters[0]
        return torch.zeros(*leading, self.weights, dtype=first.dtype, device=first.device)

    @torch.no_grad()
    def value(self) -> Value:
        """Return loss and accuracy at the current weights."""
        loss, right = self.totals().tolist()
        return Value(_finite(loss), right)

    @torch.no_grad()
    def totals(self) -> Tensor:
        """(2,) loss and accuracy, still on the device."""
        with evaluating(self.model):
            parts = [self.contribution(batch) for batch in self._batches()]
        return torch.stack([torch.stack((loss, right.to(loss))) for loss, right in parts]).sum(0)

    def gradient(self) -> tuple[float, Tensor]:
        """Return the loss and its gradient, (weights,)."""
        total, losses = self.zeros(), []
        with evaluating(self.model):
            for batch in self._batches():
                loss = self.contribution(batch)[0]
                total += flat(torch.autograd.grad(loss, self.parameters, materialize_grads=True))
                losses.append(loss.detach())
        return _finite(float(torch.stack(losses).sum())), total

    def products(self, vectors: Tensor) -> Tensor:
        """(count, weights) -> (count, weights): exact Hessian-vector products, by differentiating the gradient."""
        total = torch.zeros_like(vectors)
        with evaluating(self.model), reference_attention(self.model):
            for batch in self._batches():
                self._add_products(batch, vectors, total)
        if not bool(total.isfinite().all()):
            raise UserError("the second derivative of the loss is not finite", hint="the weights may be far too large")
        return total

    def _add_products(self, batch: Any, vectors: Tensor, total: Tensor) -> None:
        gradient = torch.autograd.grad(
            self.contribution(batch)[0], self.parameters, create_graph=True, materialize_grads=True
        )
        curved = [index for index, part in enumerate(gradient) if part.requires_grad]
        for number, vector in enumerate(vectors):
            if not curved:
                return
            parts = self.parts(vector)
            twice = torch.autograd.grad(
                [gradient[index] for index in curved],
                self.parameters,
                [parts[index] for index in curved],
                retain_graph=number + 1 < len(vectors),
                materialize_grads=True,
            )
            total[number] += flat(twice)

    def parts(self, vector: Tensor) -> list[Tensor]:
        """(weights,) -> one tensor per parameter, in its shape."""
        flat_parts = vector.split([parameter.numel() for parameter in self.parameters])
        return [part.view_as(parameter) for part, parameter in zip(flat_parts, self.parameters, strict=True)]

    @contextmanager
    def moved_weights(self) -> Iterator[Callable[[Tensor], None]]:
        """Yield a function that moves the weights by (weights,) from their start; on exit they are restored exactly."""
        kept = [parameter.detach().clone() for parameter in self.parameters]

        @torch.no_grad()
        def move_to(step: Tensor) -> None:
            for parameter, start, part in zip(self.parameters, kept, self.parts(step), strict=True):
                parameter.copy_(start + part)

        try:
            yield move_to
        finally:
            with torch.no_grad():
                for parameter, start in zip(self.parameters, kept, strict=True):
                    parameter.copy_(start)

    def _batches(self) -> Iterator[Any]:
        for batch in self.batches(self.size):
            yield batch
            self.tick()


def flat(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat([part.reshape(-1) for part in parts])


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Run in evaluation mode, without TF32."""
    before = {module: module.training for module in model.modules()}
    convolutions, products = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    model.eval()
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = convolutions, products
        for module, training in before.items():
            module.training = training


def _finite(loss: float) -> float:
    if not loss - loss == 0:
        raise UserError("the loss over the sample is not finite", got=loss, hint="the saved weights may be damaged")
    return loss
