"""The mean loss of a model over a sample, as a function of its weights: value, gradient, Hessian times a vector.

The sample is read in pieces, whose shares add up to the whole, so the size of a piece changes memory and not the answer
(but for rounding). Everything is in the precision of the weights, without TF32, and in evaluation mode: no dropout, and
batch norms use the statistics that training left.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from patchword.core.errors import UserError
from patchword.layers import plain_attention


class Value(NamedTuple):
    """The mean loss, and the share of right answers, which is not a number where nothing can be right."""

    loss: float
    accuracy: float


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class SampleLoss:
    """pieces: from a size to the sample in pieces of so many examples, as often as it is asked.
    share: of a piece, its part of the mean loss and of the share of right answers, open to gradients.
    tick: is called after every piece.
    """

    model: nn.Module
    pieces: Callable[[int], Iterable[Any]]
    share: Callable[[Any], tuple[Tensor, Tensor]]
    size: int = 128
    count: int = 1  # examples of the sample
    tick: Callable[[], None] = field(default=_nothing, compare=False)

    @cached_property
    def parameters(self) -> list[nn.Parameter]:
        return [parameter for parameter in self.model.parameters() if parameter.requires_grad]

    @cached_property
    def weights(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters)

    @property
    def passes(self) -> int:
        """pieces of the sample"""
        return -(-self.count // self.size)

    def in_pieces(self) -> str:
        """how the sample is read, in words"""
        return f"{self.passes} batches of {self.size}" if self.passes > 1 else "one batch"

    def zeros(self, *leading: int) -> Tensor:
        """(..., weights)"""
        first = self.parameters[0]
        return torch.zeros(*leading, self.weights, dtype=first.dtype, device=first.device)

    @torch.no_grad()
    def value(self) -> Value:
        """Where the weights are now."""
        loss, right = self.totals().tolist()
        return Value(_finite(loss), right)

    @torch.no_grad()
    def totals(self) -> Tensor:
        """(2,) loss and accuracy, still on the device, and not looked at"""
        with evaluating(self.model):
            shares = [self.share(piece) for piece in self._pieces()]
        return torch.stack([torch.stack((loss, right.to(loss))) for loss, right in shares]).sum(0)

    def gradient(self) -> tuple[float, Tensor]:
        """The loss and its gradient, (weights,)."""
        total, losses = self.zeros(), []
        with evaluating(self.model):
            for piece in self._pieces():
                loss = self.share(piece)[0]
                total += flat(torch.autograd.grad(loss, self.parameters, materialize_grads=True))
                losses.append(loss.detach())
        return _finite(float(torch.stack(losses).sum())), total

    def products(self, vectors: Tensor) -> Tensor:
        """(count, weights) -> (count, weights): the Hessian times each, exact: the gradient is differentiated again"""
        total = torch.zeros_like(vectors)
        with evaluating(self.model), plain_attention(self.model):
            for piece in self._pieces():
                self._add_products(piece, vectors, total)
        if not bool(total.isfinite().all()):
            raise UserError(
                "the second derivative of the loss is not a number", hint="the weights may be far too large"
            )
        return total

    def _add_products(self, piece: Any, vectors: Tensor, total: Tensor) -> None:
        gradient = torch.autograd.grad(self.share(piece)[0], self.parameters, create_graph=True, materialize_grads=True)
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
        """(weights,) -> one tensor for each parameter, of its shape"""
        pieces = vector.split([parameter.numel() for parameter in self.parameters])
        return [part.view_as(parameter) for part, parameter in zip(pieces, self.parameters, strict=True)]

    @contextmanager
    def walking(self) -> Iterator[Callable[[Tensor], None]]:
        """Yields what puts the weights so far from where they are, (weights,); afterwards they are back, bit by bit."""
        kept = [parameter.detach().clone() for parameter in self.parameters]

        @torch.no_grad()
        def go(step: Tensor) -> None:
            for parameter, start, part in zip(self.parameters, kept, self.parts(step), strict=True):
                parameter.copy_(start + part)

        try:
            yield go
        finally:
            with torch.no_grad():
                for parameter, start in zip(self.parameters, kept, strict=True):
                    parameter.copy_(start)

    def _pieces(self) -> Iterator[Any]:
        for piece in self.pieces(self.size):
            yield piece
            self.tick()


def flat(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat([part.reshape(-1) for part in parts])


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode, and products of float32 numbers that a GPU does not round to TF32."""
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
        raise UserError("the loss over the sample is not a number", got=loss, hint="were the weights saved whole?")
    return loss
