"""Fused attention residuals: the norm joins the first product, the sum joins the last."""

from typing import cast

from torch import Tensor, nn

from patchword.core.scope import Scope
from patchword.fusion.patterns import Fused, is_affine_norm, is_exactly, is_linear, is_plain, is_pre_norm
from patchword.kernels.norm_linear.operation import (
    has_layer_norm_linear_kernel,
    has_linear_residual_kernel,
    layer_norm_linear,
    linear_residual,
)
from patchword.layers.attention.attention import Attention
from patchword.layers.attention.projection import LinearProjection, Projected
from patchword.layers.block import Residual


class FusedAttention(Fused):
    """x + attention(norm(x)): layer_norm_linear for queries, keys and values, linear_residual for the output, each
    where there is a kernel."""

    def __init__(self, original: Residual) -> None:
        super().__init__()
        self.original: Residual = original
        self.fuses_norm = _is_linear_projection(self.attention.projection) and is_affine_norm(original.norm)
        self.fuses_sum = is_linear(self.attention.output)

    @property
    def attention(self) -> Attention:
        return cast(Attention, self.original.sublayer)

    @classmethod
    def of(cls, module: nn.Module) -> "FusedAttention | None":
        if not is_pre_norm(module) or not isinstance(module.sublayer, Attention):
            return None
        return cls(module) if is_exactly(module.sublayer, Attention) else None

    def can_split(self, scope: Scope) -> bool:
        """True if nothing but the attention is in the branch now, and tokens attend to tokens, not to a memory."""
        return scope.memory is None and is_plain(self.original)

    def forward(self, tokens: Tensor, scope: Scope) -> Tensor:
        """(batch, tokens, width) -> (batch, tokens, width)"""
        if not self.can_split(scope):
            return cast(Tensor, self.original(tokens, scope))
        projected, adds = self._normed_and_projected(tokens, scope), self._adds(tokens, tokens)
        if projected is None and not adds:
            return cast(Tensor, self.original(tokens, scope))
        output, attended = self.attention.output, self._attended(tokens, projected, scope)
        if adds and self._adds(tokens, attended):
            return linear_residual(tokens, attended, output.weight, output.bias)
        return tokens + cast(Tensor, output(attended))

    def attended(self, tokens: Tensor, scope: Scope) -> Tensor:
        """attention(norm(tokens)) before the output projection"""
        return self._attended(tokens, self._normed_and_projected(tokens, scope), scope)

    def _attended(self, tokens: Tensor, projected: Projected | None, scope: Scope) -> Tensor:
        attention = self.attention
        return attention.attend(projected or attention.project(self.original.norm(tokens), scope), scope)

    def _normed_and_projected(self, tokens: Tensor, scope: Scope) -> Projected | None:
        """by one kernel; None where there is none"""
        if not self.fuses_norm:
            return None
        norm, projection = cast(nn.LayerNorm, self.original.norm), cast(LinearProjection, self.attention.projection)
        joint = projection.joint
        if not has_layer_norm_linear_kernel(tokens, norm.weight, norm.bias, joint.weight, joint.bias):
            return None
        fused = layer_norm_linear(tokens, norm.weight, norm.bias, joint.weight, joint.bias, norm.eps)
        return projection.split(fused, scope)

    def _adds(self, tokens: Tensor, branch: Tensor) -> bool:
        """True if a kernel adds the output to the tokens; before the branch is there, the tokens stand for it"""
        output = self.attention.output
        return self.fuses_sum and has_linear_residual_kernel(tokens, branch, output.weight, output.bias)


def _is_linear_projection(module: nn.Module) -> bool:
    return isinstance(module, LinearProjection) and is_exactly(module, LinearProjection) and is_linear(module.joint)
