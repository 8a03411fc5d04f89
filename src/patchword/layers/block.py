"""The residual is the unit; a block is residuals run in order."""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import cast

from torch import Tensor, nn

from patchword.core.scope import Scope
from patchword.layers.drop_path import DropPath
from patchword.layers.dropout import Dropout
from patchword.layers.residual_add import residual_add


class Norm(Enum):
    """Where a residual applies its norm."""

    PRE = "x + f(norm(x))"
    POST = "norm(x + f(x))"
    BRANCH = "x + norm(f(x))"


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
        self.dropout = Dropout(dropout)
        self.drop_path = DropPath(drop_path)

    def extra_repr(self) -> str:
        return self.where.value

    def forward(self, tokens: Tensor, scope: Scope) -> Tensor:
        if self.where is Norm.PRE:
            return self._add(tokens, self.sublayer(self.norm(tokens), scope))
        if self.where is Norm.BRANCH:
            return self._add(tokens, self.norm(self.sublayer(tokens, scope)))
        return cast(Tensor, self.norm(self._add(tokens, self.sublayer(tokens, scope))))

    def _add(self, tokens: Tensor, branch: Tensor) -> Tensor:
        return residual_add(tokens, self.drop_path(self.scale(self.dropout(branch))))


class Block(nn.Module):
    """Named residuals run in order: an encoder has two, a decoder three. Never subclassed."""

    def __init__(self, **residuals: Residual) -> None:
        super().__init__()
        for name, residual in residuals.items():
            self.add_module(name, residual)

    def forward(self, tokens: Tensor, scope: Scope) -> Tensor:
        for residual in self.children():
            tokens = residual(tokens, scope)
        return tokens


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
