"""Attention: project, let each pattern attend with its share of the heads, project back."""

from collections.abc import Callable, Sequence
from typing import cast

from torch import Tensor, nn

from patchword.core.errors import UserError
from patchword.core.scope import Scope
from patchword.kernels.common.availability import is_on_cuda
from patchword.kernels.norm_linear.operation import has_linear_residual_kernel, linear_residual
from patchword.layers.attention.core import Pattern, ScaledDotProduct
from patchword.layers.attention.projection import LinearProjection, Projected
from patchword.layers.watched import has_hooks


class Attention(nn.Module):
    """The only attention in the library; families differ in the parts they pass.

    core: what compares queries with keys, if not scale and dropout say all of it.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        projection: nn.Module | None = None,
        patterns: Sequence[Pattern] = (),
        scale: float | None = None,
        dropout: float = 0.0,
        core: ScaledDotProduct | None = None,
    ) -> None:
        super().__init__()
        self.patterns = nn.ModuleList(patterns or [Pattern()])
        if width % heads:
            raise UserError(
                f"width {width} cannot be shared by {heads} heads",
                expected="a width that the number of heads divides",
                got=f"{width} / {heads} = {width / heads:.2f}",
                hint=f"try heads={_largest_divisor(width, heads)} or width={max(1, round(width / heads)) * heads}",
            )
        if heads % len(self.patterns):
            raise UserError(f"{heads} heads cannot be shared by {len(self.patterns)} patterns")
        self.width, self.projection = width, projection or LinearProjection(width)
        scale = scale if scale is not None else (width // heads) ** -0.5
        self.core = core or ScaledDotProduct(heads // len(self.patterns), scale, dropout)
        self.output = nn.Linear(width, width)

    @property
    def head_width(self) -> int:
        return self.width // (self.core.heads * len(self.patterns))

    def forward(self, tokens: Tensor, scope: Scope) -> Tensor:
        """(batch, tokens, width) -> (batch, tokens, width)"""
        return cast(Tensor, self.output(self._attended(self._projected(tokens, scope), scope)))

    def at_once(self, tokens: Tensor, norm: nn.Module, scope: Scope) -> Tensor | None:
        """tokens + self(norm(tokens)), the norm part of the first product and the sum part of the last where there are
        kernels; None where there is neither, or where someone watches. Tokens read themselves, not a memory."""
        if not self._may_be_split(tokens, scope):
            return None
        projected, adds = self._normed_and_projected(tokens, norm, scope), self._adds(tokens, tokens)
        if projected is None and not adds:
            return None
        attended = self._attended(projected or self._projected(norm(tokens), scope), scope)
        if adds and self._adds(tokens, attended):
            return linear_residual(tokens, attended, self.output.weight, self.output.bias)
        return tokens + cast(Tensor, self.output(attended))

    def but_output(self, tokens: Tensor, norm: nn.Module, scope: Scope) -> Tensor | None:
        """Of self(norm(tokens)) all but the last product, for who has a kernel for it; None as with at_once."""
        if not self._may_be_split(tokens, scope) or has_hooks(self.output):
            return None
        projected = self._normed_and_projected(tokens, norm, scope)
        return self._attended(projected or self._projected(norm(tokens), scope), scope)

    def _may_be_split(self, tokens: Tensor, scope: Scope) -> bool:
        if not is_on_cuda(tokens) or scope.memory is not None:
            return False
        return type(self) is Attention and not has_hooks(self)

    def _normed_and_projected(self, tokens: Tensor, norm: nn.Module, scope: Scope) -> Projected | None:
        part = self.projection
        return part.at_once(tokens, norm, scope) if isinstance(part, LinearProjection) else None

    def _projected(self, tokens: Tensor, scope: Scope) -> Projected:
        return cast(Callable[[Tensor, Scope], Projected], self.projection)(tokens, scope)

    def _attended(self, projected: Projected, scope: Scope) -> Tensor:
        if scope.cache is not None and not projected.fixed:
            projected = scope.cache.extend(self, projected)
        patterns = [cast(Pattern, pattern) for pattern in self.patterns]
        return self.core.over(projected, patterns, scope.grid)

    def _adds(self, tokens: Tensor, branch: Tensor) -> bool:
        """whether the output is added by a kernel; a branch that is not known yet is asked for as tokens"""
        part = self.output
        if type(part) is not nn.Linear or has_hooks(part):
            return False
        return has_linear_residual_kernel(tokens, branch, part.weight, part.bias)


def _largest_divisor(width: int, limit: int) -> int:
    return next(heads for heads in range(min(limit, width), 0, -1) if width % heads == 0)
