"""Attention: project, let each pattern attend with its share of the heads, project back."""

from collections.abc import Callable, Sequence
from typing import cast

from torch import Tensor, nn

from patchword.core.errors import UserError
from patchword.core.scope import Scope
from patchword.layers.attention.core import Pattern, ScaledDotProduct
from patchword.layers.attention.projection import LinearProjection, Projected


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
        self.projection = projection or LinearProjection(width)
        scale = scale if scale is not None else (width // heads) ** -0.5
        self.core = core or ScaledDotProduct(heads // len(self.patterns), scale, dropout)
        self.output = nn.Linear(width, width)

    def forward(self, tokens: Tensor, scope: Scope) -> Tensor:
        """(batch, tokens, width) -> (batch, tokens, width)"""
        project = cast(Callable[[Tensor, Scope], Projected], self.projection)
        projected = project(tokens, scope)
        if scope.cache is not None and not projected.fixed:
            projected = scope.cache.extend(self, projected)
        patterns = [cast(Pattern, pattern) for pattern in self.patterns]
        return cast(Tensor, self.output(self.core.over(projected, patterns, scope.grid)))


def _largest_divisor(width: int, limit: int) -> int:
    return next(heads for heads in range(min(limit, width), 0, -1) if width % heads == 0)
