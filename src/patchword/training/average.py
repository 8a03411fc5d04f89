"""An exponential moving average of the weights, which evaluates better than the last ones."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Average:
    """Follows a model's parameters; with decay 0 it is the model itself and costs nothing."""

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
