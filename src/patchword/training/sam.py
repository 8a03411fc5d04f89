"""SAM: a step that looks for flat ground (Foret et al., 2020)."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from patchword.training.step import Batch, PlainStep

TINY = 1e-12  # keeps a gradient of zero from being divided by


class Ascent(Protocol):
    """From weights and their gradients to what is added to each weight; all together are one long vector."""

    def __call__(self, weights: list[Tensor], gradients: list[Tensor]) -> list[Tensor]: ...


@dataclass(frozen=True)
class Steepest:
    """e = rho g / ||g||: where, to first order, the loss is highest within a ball of radius rho."""

    rho: float

    def __call__(self, weights: list[Tensor], gradients: list[Tensor]) -> list[Tensor]:
        return list(torch._foreach_mul(gradients, self.rho / (norm(gradients) + TINY)))


@dataclass(frozen=True)
class Adaptive:
    """ASAM (Kwon et al., 2021): e = rho w^2 g / || |w| g ||, a ball as wide along each weight as that weight is large,
    so that scaling the weights of a network without changing what it computes does not change its step.

    As in the code that most use; the paper adds 0.01 to each |w|. Its rho is larger, about 2.
    """

    rho: float

    def __call__(self, weights: list[Tensor], gradients: list[Tensor]) -> list[Tensor]:
        scaled = list(torch._foreach_mul(gradients, weights))  # the sign of a weight does not matter for the norm
        return list(torch._foreach_mul(torch._foreach_mul(scaled, weights), self.rho / (norm(scaled) + TINY)))


def norm(tensors: list[Tensor]) -> Tensor:
    """of all of them as one vector"""
    length: Tensor = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(tensors)))
    return length


class SharpnessAware:
    """min over w of the largest loss near w: climb by the ascent, and descend from w by the gradient found up there.

    It costs two gradients a step. Both are of the whole batch, however many pieces or processes it is worked on in. The
    first is not clipped, since only its direction matters; the second is, as in the plain step. What is told is the
    loss at w.

    As in the authors' code both passes draw the same random numbers (dropout, stochastic depth), so that both see one
    function, and only the first one, which sees the true weights, changes running statistics.

    plain: the step that this one takes at the top.
    model: whose buffers (running statistics, ranges) both passes begin with, and only the first one changes.
    """

    def __init__(self, plain: PlainStep, model: nn.Module, ascent: Ascent) -> None:
        self.plain, self.model, self.ascent = plain, model, ascent

    def __call__(self, batch: Batch, rate: float) -> tuple[Tensor, Tensor]:
        told = self.gradient(batch)
        self.descend(rate)
        return told

    def gradient(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The one found at the top; what is told is of the true weights."""
        noted, back = copies(self.model.buffers()), drawing(batch.device)
        told = self.plain.gradient(batch)
        with self.at_the_top(), with_buffers(self.model, noted):
            back()
            self.plain.gradient(batch)
        return told

    def descend(self, rate: float) -> Tensor:
        return self.plain.descend(rate)

    @contextmanager
    def at_the_top(self) -> Iterator[None]:
        """Inside, the weights are where the gradient they held has led; then exactly where they were."""
        with torch.no_grad():
            weights = [weight for weight in self.plain.weights() if weight.grad is not None]
            gradients = [weight.grad for weight in weights if weight.grad is not None]
            kept = copies(weights)  # not the way back, which would round
            torch._foreach_add_(weights, self.ascent(weights, gradients))
        self.plain.optimizer.zero_grad(set_to_none=True)
        try:
            yield
        finally:
            put(weights, kept)  # all that moved, also where no gradient came back


@contextmanager
def with_buffers(model: nn.Module, earlier: list[Tensor]) -> Iterator[None]:
    """Inside, the model's buffers are as they were earlier; whatever it notes down there is forgotten."""
    buffers = list(model.buffers())
    now = copies(buffers)
    put(buffers, earlier)
    try:
        yield
    finally:
        put(buffers, now)


def copies(tensors: Iterable[Tensor]) -> list[Tensor]:
    originals = list(tensors)
    found = [torch.empty_like(tensor, requires_grad=False) for tensor in originals]
    put(found, originals)
    return found


@torch.no_grad()
def put(places: list[Tensor], values: list[Tensor]) -> None:
    """Copies each value to its place, all of one type at once: hundreds of small copies would keep a GPU waiting."""
    pairs = list(zip(places, values, strict=True))
    for kind in {place.dtype for place in places}:
        chosen = [(place, value) for place, value in pairs if place.dtype == kind]
        torch._foreach_copy_([place for place, _ in chosen], [value for _, value in chosen])


def drawing(device: torch.device) -> Callable[[], None]:
    """A way back to the random numbers that come next, on the CPU and on the device."""
    on_cpu = torch.get_rng_state()
    if device.type == "cpu":
        return lambda: torch.set_rng_state(on_cpu)
    there = torch.get_device_module(device)
    on_device = there.get_rng_state(device)  # named, since the module's own default may be another one

    def back() -> None:
        torch.set_rng_state(on_cpu)
        there.set_rng_state(on_device, device)

    return back
