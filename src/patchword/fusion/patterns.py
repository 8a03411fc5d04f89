"""Questions that the fusion rules ask about modules: exact class, hooks, weights that a kernel reads."""

from typing import TypeGuard

from torch import nn

from patchword.kernels.common.hooks import has_hooks
from patchword.kernels.common.hooks import is_exactly as is_exactly
from patchword.kernels.mlp.reference import Weights
from patchword.layers.activation import Gelu, QuickGelu
from patchword.layers.block import Norm, Residual
from patchword.layers.drop_path import DropPath
from patchword.layers.dropout import Dropout
from patchword.layers.feed_forward import FeedForward

_ACTIVATIONS: dict[type[nn.Module], str] = {Gelu: "gelu", QuickGelu: "quick-gelu"}


class Fused(nn.Module):
    """A module in place of `original`: it runs a fused kernel where the inputs allow it, and else the original.

    The parameters are those of the original. `original` is a module of the given model, or a copy of one in which a
    submodule is fused.
    """

    original: nn.Module


def is_linear(module: nn.Module) -> TypeGuard[nn.Linear]:
    return is_exactly(module, nn.Linear)


def is_biased_linear(module: nn.Module) -> TypeGuard[nn.Linear]:
    return is_linear(module) and module.bias is not None


def is_affine_norm(module: nn.Module) -> TypeGuard[nn.LayerNorm]:
    """A layer norm with scale and shift; it has both, or only a scale, or neither."""
    return is_exactly(module, nn.LayerNorm) and module.bias is not None


def activation_name(module: nn.Module) -> str | None:
    """The name of an activation that kernels know; None for others."""
    if has_hooks(module):
        return None
    if type(module) is nn.GELU:
        return "gelu-tanh" if module.approximate == "tanh" else "gelu"
    return _ACTIVATIONS.get(type(module))


def can_be_inactive(module: nn.Module) -> bool:
    """True for modules that pass everything through in evaluation."""
    return is_exactly(module, Dropout, nn.Dropout, DropPath, nn.Identity)


def are_inactive(*modules: nn.Module) -> bool:
    """True if modules of which `can_be_inactive` is true pass everything through now."""
    return not any(module.training and _rate(module) > 0 for module in modules)


def _rate(module: nn.Module) -> float:
    if isinstance(module, nn.Dropout):
        return module.p
    return module.rate if isinstance(module, DropPath) else 0.0


def is_pre_norm(module: nn.Module) -> TypeGuard[Residual]:
    """x + f(norm(x)), with nothing but f in the branch in evaluation"""
    if not isinstance(module, Residual) or not is_exactly(module, Residual) or module.where is not Norm.PRE:
        return False
    return all(map(can_be_inactive, (module.scale, module.dropout, module.drop_path)))


def is_plain(residual: Residual) -> bool:
    """True if such a residual has nothing but f in the branch now."""
    return are_inactive(residual.scale, residual.dropout, residual.drop_path)


def mlp_weights(norm: nn.LayerNorm, part: FeedForward) -> Weights:
    return Weights(norm.weight, norm.bias, part.up.weight, part.up.bias, part.down.weight, part.down.bias)
