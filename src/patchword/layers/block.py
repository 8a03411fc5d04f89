"""The residual is the unit; a block is residuals run in order."""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor, nn

from patchword.core.scope import Scope
from patchword.layers.drop_path import DropPath
from patchword.layers.feed_forward import FeedForward, is_watched
from patchword.layers.gradient import short_gradient


class Norm(Enum):
    """Where the norm of a residual stands."""

    PRE = "x + f(norm(x))"
    POST = "norm(x + f(x))"
    BRANCH = "x + norm(f(x))"


class LayerScale(nn.Module):
    """A learned factor for each channel of a branch, small at the start."""

    def __init__(self, width: int, initial: float = 1e-5) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.full((width,), initial))

    def forward(self, branch: Tensor) -> Tensor:
        return branch * self.factor


class Stream(NamedTuple):
    """Tokens between two residuals. waiting: a branch that is still to be added, by a kernel that reads both if the
    next residual has one"""

    tokens: Tensor
    waiting: Tensor | None = None

    def whole(self) -> Tensor:
        return self.tokens if self.waiting is None else short_gradient(self.tokens + self.waiting)


class Residual(nn.Module):
    """A sublayer, its norm and the path around both; `where` places the norm."""

    def __init__(
        self,
        sublayer: nn.Module,
        norm: nn.Module,
        where: Norm = Norm.PRE,
        *,
        dropout: float = 0.0,
        drop_path: float = 0.0,
        scale: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.norm, self.sublayer, self.where = norm, sublayer, where
        self.scale = scale or nn.Identity()
        self.dropout = nn.Dropout(dropout)
        self.drop_path = DropPath(drop_path)

    def extra_repr(self) -> str:
        return self.where.value

    def forward(self, tokens: Tensor, scope: Scope) -> Tensor:
        return self.onto(Stream(tokens), scope).whole()

    def onto(self, stream: Stream, scope: Scope) -> Stream:
        """The same between other residuals, which may add the branch."""
        done = self._at_once(stream)
        if done is not None:
            return Stream(done)
        tokens = stream.whole()
        before = self.norm(tokens) if self.where is Norm.PRE else tokens
        after = self.sublayer(before, scope)
        branch = self.drop_path(self.scale(self.dropout(self.norm(after) if self.where is Norm.BRANCH else after)))
        stream = Stream(tokens, branch)
        return Stream(self.norm(stream.whole())) if self.where is Norm.POST else stream

    def _at_once(self, stream: Stream) -> Tensor | None:
        """A feed-forward may be one kernel with its norm and its sum, if nothing else stands between."""
        if self.where is not Norm.PRE or not isinstance(self.sublayer, FeedForward):
            return None
        drops = self.training and (self.dropout.p or self.drop_path.rate)
        if drops or type(self.scale) is not nn.Identity:
            return None
        return self.sublayer.at_once(stream.tokens, self.norm, stream.waiting)


class Block(nn.Module):
    """Named residuals run in order: an encoder has two, a decoder three. Never subclassed."""

    def __init__(self, **residuals: Residual) -> None:
        super().__init__()
        for name, residual in residuals.items():
            self.add_module(name, residual)

    def forward(self, tokens: Tensor, scope: Scope) -> Tensor:
        stream = Stream(tokens)
        for residual in self.children():
            if isinstance(residual, Residual) and not is_watched(residual):
                stream = residual.onto(stream, scope)
            else:
                stream = Stream(residual(stream.whole(), scope))
        return stream.whole()


def pre_norm_block(
    width: int,
    attention: nn.Module,
    feed_forward: nn.Module,
    *,
    eps: float,
    dropout: float = 0.0,
    drop_path: float = 0.0,
    before: Mapping[str, Residual] = MappingProxyType({}),
) -> Block:
    """x + attention(norm(x)), then x + feed_forward(norm(x)); residuals `before` both, such as CPE, run first."""

    def residual(sublayer: nn.Module) -> Residual:
        return Residual(sublayer, nn.LayerNorm(width, eps), dropout=dropout, drop_path=drop_path)

    return Block(**before, attention=residual(attention), feed_forward=residual(feed_forward))
