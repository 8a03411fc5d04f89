"""The residual is the unit; a block is residuals run in order."""

from enum import Enum

import torch
from torch import Tensor, nn

from patchword.core.errors import UserError
from patchword.core.scope import Scope


class Norm(Enum):
    """Where the norm of a residual stands."""

    PRE = "x + f(norm(x))"
    POST = "norm(x + f(x))"
    BRANCH = "x + norm(f(x))"


class DropPath(nn.Module):
    """Stochastic depth: drops the branch of a whole sample, and scales the kept ones up so that the mean stays."""

    def __init__(self, rate: float = 0.0) -> None:
        super().__init__()
        if not 0 <= rate < 1:
            raise UserError("the rate of stochastic depth", expected="at least 0 and less than 1", got=rate)
        self.rate = rate

    def extra_repr(self) -> str:
        return f"rate={self.rate:.3g}"

    def forward(self, branch: Tensor) -> Tensor:
        if not self.training or self.rate == 0.0:
            return branch
        keep = 1.0 - self.rate
        shape = (branch.shape[0],) + (1,) * (branch.ndim - 1)
        return branch * torch.empty(shape, dtype=branch.dtype, device=branch.device).bernoulli_(keep).div_(keep)


class LayerScale(nn.Module):
    """A learned factor for each channel of a branch, small at the start."""

    def __init__(self, width: int, initial: float = 1e-5) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.full((width,), initial))

    def forward(self, branch: Tensor) -> Tensor:
        return branch * self.factor


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
        if self.where is Norm.PRE:
            return tokens + self._branch(self.sublayer(self.norm(tokens), scope))
        if self.where is Norm.BRANCH:
            return tokens + self._branch(self.norm(self.sublayer(tokens, scope)))
        after: Tensor = self.norm(tokens + self._branch(self.sublayer(tokens, scope)))
        return after

    def _branch(self, branch: Tensor) -> Tensor:
        kept: Tensor = self.drop_path(self.scale(self.dropout(branch)))
        return kept


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
