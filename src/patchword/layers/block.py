"""The residual is the unit; a block is residuals run in order."""

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import cast

import torch
from torch import Tensor, nn

from patchword.core.scope import Scope
from patchword.layers.drop_path import DropPath
from patchword.layers.dropout import Dropout, is_idle
from patchword.layers.residual_add import residual_add
from patchword.layers.watched import has_hooks


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
            whole = self._at_once(tokens, scope)
            return self._sum(tokens, self.sublayer(self.norm(tokens), scope)) if whole is None else whole
        if self.where is Norm.BRANCH:
            return self._sum(tokens, self.norm(self.sublayer(tokens, scope)))
        after: Tensor = self.norm(self._sum(tokens, self.sublayer(tokens, scope)))
        return after

    def _at_once(self, tokens: Tensor, scope: Scope) -> Tensor | None:
        """A sublayer may offer at_once(tokens, norm, scope): tokens + itself(norm(tokens)) in fewer steps, or None. It
        is asked if nothing else stands between."""
        offered: Callable[[Tensor, nn.Module, Scope], Tensor | None] | None = getattr(self.sublayer, "at_once", None)
        return None if offered is None or not self._is_bare() else offered(tokens, self.norm, scope)

    def _is_bare(self) -> bool:
        return all(map(is_idle, (self.scale, self.dropout, self.drop_path)))

    def _is_alone(self) -> bool:
        return self.where is Norm.PRE and self._is_bare() and not has_hooks(self)

    def with_next(self, following: "Residual", tokens: Tensor, scope: Scope) -> Tensor | None:
        """Both residuals in fewer steps, or None. This sublayer may offer but_output(tokens, norm, scope), all but its
        product `output`, and the other's behind(tokens, output, norm), which answers with a function of what that
        product is given."""
        ends, begins = getattr(self.sublayer, "but_output", None), getattr(following.sublayer, "behind", None)
        if ends is None or begins is None or not all(each._is_alone() for each in (self, following)):
            return None
        finish = begins(tokens, self.sublayer.output, following.norm)
        branch = None if finish is None else ends(tokens, self.norm, scope)
        return None if branch is None else cast(Tensor, finish(branch))

    def _sum(self, tokens: Tensor, branch: Tensor) -> Tensor:
        return residual_add(tokens, self.drop_path(self.scale(self.dropout(branch))))


class Block(nn.Module):
    """Named residuals run in order: an encoder has two, a decoder three. Never subclassed."""

    def __init__(self, **residuals: Residual) -> None:
        super().__init__()
        for name, residual in residuals.items():
            self.add_module(name, residual)

    def forward(self, tokens: Tensor, scope: Scope) -> Tensor:
        residuals, number = list(self.children()), 0
        while number < len(residuals):
            one, other = residuals[number], residuals[number + 1] if number + 1 < len(residuals) else None
            both = None
            if type(one) is Residual and type(other) is Residual:  # nothing that is wrapped, or has a way of its own
                both = one.with_next(other, tokens, scope)
            tokens = one(tokens, scope) if both is None else both
            number += 1 if both is None else 2
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
