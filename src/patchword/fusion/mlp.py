"""Fused feed-forwards: up and activation; the whole residual; the residual with the output projection before it."""

from typing import cast

from torch import Tensor, nn

from patchword.core.scope import Scope
from patchword.fusion.attention import FusedAttention
from patchword.fusion.patterns import (
    Fused,
    activation_name,
    are_inactive,
    can_be_inactive,
    is_affine_norm,
    is_biased_linear,
    is_exactly,
    is_plain,
    is_pre_norm,
    mlp_weights,
)
from patchword.fusion.rewrite import with_children
from patchword.kernels.common.availability import needs_grad
from patchword.kernels.mlp.fused_mlp import fused_mlp, has_fused_mlp_kernel
from patchword.kernels.mlp.linear_gelu import has_linear_gelu_kernel, linear_gelu
from patchword.kernels.mlp.out_proj_mlp import has_out_proj_mlp_kernel, out_proj_mlp
from patchword.kernels.mlp.reference import OutProjection, out_proj_mlp_reference
from patchword.layers.block import Block, Residual
from patchword.layers.feed_forward import FeedForward


class LinearGelu(Fused):
    """A feed-forward whose first matrix and activation are one kernel."""

    def __init__(self, original: FeedForward, activation: str) -> None:
        super().__init__()
        self.original: FeedForward = original
        self.activation = activation

    @classmethod
    def of(cls, module: nn.Module) -> "LinearGelu | None":
        if not isinstance(module, FeedForward) or not is_exactly(module, FeedForward):
            return None
        activation = activation_name(module.activation)
        return cls(module, activation) if activation is not None and is_biased_linear(module.up) else None

    def forward(self, tokens: Tensor, scope: Scope) -> Tensor:
        """(batch, tokens, width) -> (batch, tokens, width)"""
        part = self.original
        if not has_linear_gelu_kernel(tokens, part.up.weight, part.up.bias):
            return cast(Tensor, part(tokens, scope))
        hidden = linear_gelu(tokens, part.up.weight, part.up.bias, self.activation)
        return cast(Tensor, part.down(part.dropout(hidden)))


class FusedMLP(Fused):
    """x + feed_forward(norm(x)) as one kernel."""

    def __init__(self, original: Residual) -> None:
        super().__init__()
        self.original: Residual = original

    @classmethod
    def of(cls, module: nn.Module) -> "FusedMLP | None":
        if not is_pre_norm(module) or not isinstance(module.sublayer, LinearGelu) or not is_affine_norm(module.norm):
            return None
        part = module.sublayer.original
        if not is_biased_linear(part.down) or not can_be_inactive(part.dropout):
            return None
        return cls(module)

    @property
    def norm(self) -> nn.LayerNorm:
        return cast(nn.LayerNorm, self.original.norm)

    @property
    def feed_forward(self) -> FeedForward:
        return cast(LinearGelu, self.original.sublayer).original

    @property
    def activation(self) -> str:
        return cast(LinearGelu, self.original.sublayer).activation

    def is_plain(self) -> bool:
        """True if neither dropout nor drop path is active."""
        return is_plain(self.original) and are_inactive(self.feed_forward.dropout)

    def forward(self, tokens: Tensor, scope: Scope) -> Tensor:
        """(batch, tokens, width) -> (batch, tokens, width)"""
        weights = mlp_weights(self.norm, self.feed_forward)
        if self.is_plain() and has_fused_mlp_kernel(tokens, weights):
            return fused_mlp(tokens, weights, self.norm.eps, self.activation)
        return cast(Tensor, self.original(tokens, scope))


class OutProjMLP(nn.Module):
    """x = x + attention(norm(x)), then x + feed_forward(norm(x)): the attention's output projection and all that
    follows as one kernel. Elsewhere the two residuals run one after the other, each fused by itself."""

    def __init__(self, attention: FusedAttention, mlp: FusedMLP) -> None:
        super().__init__()
        self.attention, self.mlp = attention, mlp

    @classmethod
    def of(cls, first: nn.Module, second: nn.Module) -> "OutProjMLP | None":
        if not isinstance(first, FusedAttention) or not isinstance(second, FusedMLP):
            return None
        return cls(first, second) if is_biased_linear(first.attention.output) else None

    def forward(self, tokens: Tensor, scope: Scope) -> Tensor:
        """(batch, tokens, width) -> (batch, tokens, width)"""
        output, mlp = self.attention.attention.output, self.mlp
        weights = mlp_weights(mlp.norm, mlp.feed_forward)
        plain = self.attention.can_split(scope) and mlp.is_plain()
        if not plain or not has_out_proj_mlp_kernel(tokens, output.weight, output.bias, weights):
            return cast(Tensor, mlp(self.attention(tokens, scope), scope))
        branch = self.attention.attended(tokens, scope)
        # the kernel was chosen before the branch was there; only now it is known whether the branch needs a gradient
        run = out_proj_mlp_reference if needs_grad(branch) else out_proj_mlp
        before = OutProjection(branch, output.weight, output.bias)
        return run(tokens, before, weights, mlp.norm.eps, mlp.activation)


def fuse_out_proj_mlp(module: nn.Module) -> Block | None:
    """A block in which each attention that a feed-forward follows is joined with it; None if there is none."""
    if not isinstance(module, Block):
        return None
    joined, children = dict[str, nn.Module](), list(module.named_children())
    while children:
        name, residual = children.pop(0)
        both = OutProjMLP.of(residual, children[0][1]) if children else None
        if both is not None:
            children.pop(0)
        joined[name] = residual if both is None else both
    return None if len(joined) == len(module._modules) else with_children(module, joined)
