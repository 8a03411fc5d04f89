"""SAM: sharpness-aware minimization (Foret et al., 2020)."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from patchword.training.step import Batch, PlainStep, Step

TINY = 1e-12  # avoids a division by zero


class Ascent(Protocol):
    """Returns the perturbation of each weight from the weights and their gradients; norms are over all of them."""

    def __call__(self, weights: list[Tensor], gradients: list[Tensor]) -> list[Tensor]: ...


@dataclass(frozen=True)
class Steepest:
    """SAM's perturbation: e = rho g / ||g||, which to first order maximizes the loss within a ball of radius rho."""

    rho: float

    def __call__(self, weights: list[Tensor], gradients: list[Tensor]) -> list[Tensor]:
        return list(torch._foreach_mul(gradients, self.rho / (global_norm(gradients) + TINY)))


@dataclass(frozen=True)
class Adaptive:
    """ASAM's perturbation (Kwon et al., 2021): e = rho w^2 g / || |w| g ||.

    The ball is as wide along each weight as that weight is large, so that a rescaling of the weights that does not
    change the function does not change the step. As in the most used code, 0.01 is not added to |w|, which the paper
    does. rho is larger than SAM's, about 2.
    """

    rho: float

    def __call__(self, weights: list[Tensor], gradients: list[Tensor]) -> list[Tensor]:
        scaled = list(torch._foreach_mul(gradients, weights))  # the sign of a weight does not change the norm
        return list(torch._foreach_mul(torch._foreach_mul(scaled, weights), self.rho / (global_norm(scaled) + TINY)))


def global_norm(tensors: list[Tensor]) -> Tensor:
    """Return the norm of all tensors as one vector."""
    length: Tensor = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(tensors)))
    return length


class SharpnessAware(Step):
    """Minimizes the largest loss near the weights: perturbs them by the ascent, and applies the gradient found there.

    Each step computes two gradients, both of the whole batch, whatever the number of micro-batches or processes. The
    first is not clipped, since only its direction matters; the second is, as in the plain step. The loss that is
    returned is that of the unperturbed weights.

    As in the authors' code both passes draw the same random numbers (dropout, stochastic depth), so that both see the
    same function, and only the first pass changes running statistics.

    plain: computes both gradients and applies the second.
    model: its buffers (running statistics, ranges) are the same at the start of both passes.
    """

    def __init__(self, plain: PlainStep, model: nn.Module, ascent: Ascent) -> None:
        self.plain, self.model, self.ascent = plain, model, ascent

    def __call__(self, batch: Batch, learning_rate: float) -> tuple[Tensor, Tensor]:
        loss, correct = self.gradient(batch)
        self.plain.update(learning_rate)
        return loss, correct

    def gradient(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Compute the gradient at the perturbed weights; return loss and correct predictions of the true weights."""
        buffers, restore_rng = clones(self.model.buffers()), save_rng(batch.device)
        loss, correct = self.plain.gradient(batch)
        with self.perturbed(), with_buffers(self.model, buffers):
            restore_rng()
            self.plain.gradient(batch)
        return loss, correct

    @contextmanager
    def perturbed(self) -> Iterator[None]:
        """Add the ascent to the weights and reset their gradients, inside the `with` block.

        Afterwards the weights are bit-equal to before.
        """
        with torch.no_grad():
            weights = [weight for weight in self.plain.weights() if weight.grad is not None]
            gradients = [weight.grad for weight in weights if weight.grad is not None]
            unperturbed = clones(weights)  # subtracting the perturbation would round
            torch._foreach_add_(weights, self.ascent(weights, gradients))
        self.plain.optimizer.zero_grad(set_to_none=True)
        try:
            yield
        finally:
            copy_all(weights, unperturbed)  # also weights without a gradient in the second pass


@contextmanager
def with_buffers(model: nn.Module, earlier: list[Tensor]) -> Iterator[None]:
    """Give the model these earlier buffers inside the `with` block; changes made there are dropped."""
    buffers = list(model.buffers())
    now = clones(buffers)
    copy_all(buffers, earlier)
    try:
        yield
    finally:
        copy_all(buffers, now)


def clones(tensors: Iterable[Tensor]) -> list[Tensor]:
    originals = list(tensors)
    found = [torch.empty_like(tensor, requires_grad=False) for tensor in originals]
    copy_all(found, originals)
    return found


@torch.no_grad()
def copy_all(targets: list[Tensor], values: list[Tensor]) -> None:
    """Copy each value to its target, with one call per dtype: hundreds of small copies would leave a GPU idle."""
    pairs = list(zip(targets, values, strict=True))
    for dtype in {target.dtype for target in targets}:
        chosen = [(target, value) for target, value in pairs if target.dtype == dtype]
        torch._foreach_copy_([target for target, _ in chosen], [value for _, value in chosen])


def save_rng(device: torch.device) -> Callable[[], None]:
    """Save the random number generators of the CPU and the device; return a function that restores them."""
    on_cpu = torch.get_rng_state()
    if device.type == "cpu":
        return lambda: torch.set_rng_state(on_cpu)
    module = torch.get_device_module(device)
    on_device = module.get_rng_state(device)  # passed on, since the module's default device may differ

    def restore() -> None:
        torch.set_rng_state(on_cpu)
        module.set_rng_state(on_device, device)

    return restore
