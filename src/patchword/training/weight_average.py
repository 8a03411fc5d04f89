"""Averages of the weights over many steps, which often validate better than the last weights."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class WeightAverage:
    """Exponential moving average of a model's parameters; with decay 0 it is the model itself and costs nothing."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model, self.decay = model, decay
        self.shadow = {name: p.detach().clone() for name, p in model.named_parameters()} if decay else {}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Include the current weights. Called after every step."""
        if self.shadow:
            decay = min(self.decay, (1 + step) / (10 + step))  # shorter at first, when the weights change fast
            current = [p.detach() for _, p in self.model.named_parameters()]
            torch._foreach_lerp_(list(self.shadow.values()), current, 1 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Give the model the averaged weights inside the `with` block."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for name, parameter in self.model.named_parameters():
            if name in self.shadow:
                current: Tensor = parameter.detach().clone()
                parameter.copy_(self.shadow[name])
                self.shadow[name].copy_(current)


class EpochAverage(WeightAverage):
    """Mean of the weights at the ends of the last `epochs` epochs (checkpoint averaging, Vaswani et al., 2017, 6.1).

    All of these weights are kept in memory, and are in every checkpoint.

    steps: per epoch
    """

    def __init__(self, model: nn.Module, epochs: int, steps: int) -> None:
        super().__init__(model, 0.0)
        self.epochs, self.steps = epochs, steps
        self.shadow = {name: p.detach().new_zeros(epochs, *p.shape) for name, p in model.named_parameters()}
        self.shadow["taken"] = torch.zeros((), dtype=torch.int64)  # epochs so far; a key of checkpoints

    @torch.no_grad()
    def update(self, step: int) -> None:
        if step % self.steps == 0:
            index = int(self.shadow["taken"]) % self.epochs
            for name, parameter in self.model.named_parameters():
                self.shadow[name][index] = parameter
            self.shadow["taken"] += 1

    @contextmanager
    def applied(self) -> Iterator[None]:
        current = {name: p.detach().clone() for name, p in self.model.named_parameters()}
        count = min(int(self.shadow["taken"]), self.epochs)
        self._load({name: self.shadow[name][:count].mean(0) for name in current} if count else current)
        try:
            yield
        finally:
            self._load(current)

    @torch.no_grad()
    def _load(self, weights: dict[str, Tensor]) -> None:
        for name, parameter in self.model.named_parameters():
            parameter.copy_(weights[name])
