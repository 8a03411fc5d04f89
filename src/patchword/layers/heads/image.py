"""Heads of image models: from the last tokens to the logits."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from patchword.core.grid import Grid

Pool = Callable[[Tensor, Grid], Tensor]


def first_token(tokens: Tensor, grid: Grid) -> Tensor:
    """Return the [CLS] token."""
    return tokens[:, 0]


def mean_of_patches(tokens: Tensor, grid: Grid) -> Tensor:
    """Return the mean of the patch tokens, without the leading tokens."""
    return tokens[:, grid.prefix :].mean(1)


class ClassHead(nn.Module):
    """A linear map from the pooled tokens to the logits of the classes."""

    def __init__(self, width: int, classes: int, pool: Pool = first_token) -> None:
        super().__init__()
        self.pool = pool
        self.linear = nn.Linear(width, classes)

    def forward(self, tokens: Tensor, grid: Grid) -> Tensor:
        """(batch, tokens, width) -> (batch, classes)"""
        scores: Tensor = self.linear(self.pool(tokens, grid))
        return scores


def average_logits(scores: Tensor, distilled: Tensor) -> Tensor:
    """Return the mean of the logits of both heads."""
    return (scores + distilled) / 2


def both(scores: Tensor, distilled: Tensor) -> tuple[Tensor, Tensor]:
    """Return the logits of both heads as a pair."""
    return scores, distilled


class DistilledHead(nn.Module):
    """DeiT's two heads, on the [CLS] and on the distillation token.

    Its output is the mean of the two logits, in training and in evaluation. An objective that trains the heads
    separately uses `pair`, or runs the model inside `separate_heads`. (The paper's text adds softmaxes; the authors'
    code and their published figures average the logits.)
    """

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, classes)
        self.distilled = nn.Linear(width, classes)
        self.join: Callable[[Tensor, Tensor], Any] = average_logits

    def forward(self, tokens: Tensor, grid: Grid) -> Any:
        """(batch, tokens, width) -> (batch, classes)"""
        return self.join(*self.pair(tokens, grid))

    def pair(self, tokens: Tensor, grid: Grid) -> tuple[Tensor, Tensor]:
        """Return the logits of both heads, each (batch, classes)."""
        return self.linear(tokens[:, 0]), self.distilled(tokens[:, 1])


@contextmanager
def separate_heads(head: DistilledHead) -> Iterator[None]:
    """Inside this context the model returns the pair of logits, compiled or not."""
    before, head.join = head.join, both
    try:
        yield
    finally:
        head.join = before
