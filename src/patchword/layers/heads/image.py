"""Heads: from the last tokens to the answer."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from patchword.core.grid import Grid

Pool = Callable[[Tensor, Grid], Tensor]


def first_token(tokens: Tensor, grid: Grid) -> Tensor:
    """the [CLS] token"""
    return tokens[:, 0]


def mean_of_patches(tokens: Tensor, grid: Grid) -> Tensor:
    """the mean of all tokens but the prefix"""
    return tokens[:, grid.prefix :].mean(1)


class ClassHead(nn.Module):
    """One linear map from the pooled tokens to a score for each class."""

    def __init__(self, width: int, classes: int, pool: Pool = first_token) -> None:
        super().__init__()
        self.pool = pool
        self.linear = nn.Linear(width, classes)

    def forward(self, tokens: Tensor, grid: Grid) -> Tensor:
        """(batch, tokens, width) -> (batch, classes)"""
        scores: Tensor = self.linear(self.pool(tokens, grid))
        return scores


def mean_of_both(scores: Tensor, distilled: Tensor) -> Tensor:
    return (scores + distilled) / 2


def both(scores: Tensor, distilled: Tensor) -> tuple[Tensor, Tensor]:
    return scores, distilled


class DistilledHead(nn.Module):
    """DeiT's two heads, on the [CLS] and on the distillation token.

    Called, it answers the mean of the two scores, in training as in evaluation, so that there is one kind of answer;
    an objective that teaches the heads apart asks for `pair`, or the whole model inside `heads_apart`. (The paper's
    text adds softmaxes; the authors' code and their published figures average the scores.)
    """

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, classes)
        self.distilled = nn.Linear(width, classes)
        self.join: Callable[[Tensor, Tensor], Any] = mean_of_both

    def forward(self, tokens: Tensor, grid: Grid) -> Any:
        """(batch, tokens, width) -> (batch, classes)"""
        return self.join(*self.pair(tokens, grid))

    def pair(self, tokens: Tensor, grid: Grid) -> tuple[Tensor, Tensor]:
        return self.linear(tokens[:, 0]), self.distilled(tokens[:, 1])


@contextmanager
def heads_apart(head: DistilledHead) -> Iterator[None]:
    """Inside, its model answers the pair of scores, compiled or not."""
    before, head.join = head.join, both
    try:
        yield
    finally:
        head.join = before
