"""Attention: project, attend by each pattern with its group of heads, project back."""

from collections.abc import Callable, Sequence
from typing import cast

from torch import Tensor, nn

from patchword.core.errors import UserError
from patchword.core.scope import Scope
from patchword.layers.attention.core import Pattern, ScaledDotProduct
from patchword.layers.attention.projection import LinearProjection, Projected


class Attention(nn.Module):
    """The only attention in the library; families differ in the parts they pass.

    core: how queries attend to keys, if not by scaled dot products with this scale and dropout
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
        return cast(Tensor, self.output(self.attend(self.project(tokens, scope), scope)))

    def project(self, tokens: Tensor, scope: Scope) -> Projected:
        """tokens -> queries, keys and values"""
        return cast(Callable[[Tensor, Scope], Projected], self.projection)(tokens, scope)

    def attend(self, projected: Projected, scope: Scope) -> Tensor:
        """queries, keys and values -> (batch, tokens, width), before the output projection"""
        if scope.cache is not None and not projected.static_kv:
            projected = scope.cache.extend(self, projected)
        patterns = [cast(Pattern, pattern) for pattern in self.patterns]
        return cast(Tensor, self.core(projected, patterns, scope.grid))


def _largest_divisor(width: int, limit: int) -> int:
    return next(heads for heads in range(min(limit, width), 0, -1) if width % heads == 0)
