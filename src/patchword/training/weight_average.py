"""Means of the weights of many steps, which evaluate better than the last ones."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Average:
    """An exponential one: follows a model's parameters; with decay 0 it is the model itself and costs nothing."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model, self.decay = model, decay
        self.shadow = {name: p.detach().clone() for name, p in model.named_parameters()} if decay else {}

    @torch.no_grad()
    def update(self, step: int) -> None:
        if self.shadow:
            decay = min(self.decay, (1 + step) / (10 + step))  # short memory at first, when the weights move fast
            current = [p.detach() for _, p in self.model.named_parameters()]
            torch._foreach_lerp_(list(self.shadow.values()), current, 1 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Inside, the model has the averaged weights."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for name, parameter in self.model.named_parameters():
            if name in self.shadow:
                kept: Tensor = parameter.detach().clone()
                parameter.copy_(self.shadow[name])
                self.shadow[name].copy_(kept)


class EpochAverage(Average):
    """The mean of the weights at the end of the last `epochs` epochs (checkpoint averaging, Vaswani et al., 2017, 6.1).

    steps: of an epoch. All of them are kept, and are in every checkpoint.
    """

    def __init__(self, model: nn.Module, epochs: int, steps: int) -> None:
        super().__init__(model, 0.0)
        self.epochs, self.steps = epochs, steps
        self.shadow = {name: p.detach().new_zeros(epochs, *p.shape) for name, p in model.named_parameters()}
        self.shadow["taken"] = torch.zeros((), dtype=torch.int64)

    @torch.no_grad()
    def update(self, step: int) -> None:
        if step % self.steps == 0:
            place = int(self.shadow["taken"]) % self.epochs
            for name, parameter in self.model.named_parameters():
                self.shadow[name][place] = parameter
            self.shadow["taken"] += 1

    @contextmanager
    def applied(self) -> Iterator[None]:
        kept = {name: p.detach().clone() for name, p in self.model.named_parameters()}
        there = min(int(self.shadow["taken"]), self.epochs)
        self._put({name: self.shadow[name][:there].mean(0) for name in kept} if there else kept)
        try:
            yield
        finally:
            self._put(kept)

    @torch.no_grad()
    def _put(self, weights: dict[str, Tensor]) -> None:
        for name, parameter in self.model.named_parameters():
            parameter.copy_(weights[name])
