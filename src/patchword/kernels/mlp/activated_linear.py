"""activation(linear(tokens)), the first half of a feed-forward, by the fastest differentiable path."""

from typing import TypeGuard, cast

import torch.nn.functional as F
from torch import Tensor, nn

from patchword.kernels.common.hooks import has_hooks
from patchword.kernels.mlp.bias_gelu import bias_gelu, has_bias_gelu_kernel
from patchword.kernels.mlp.gelu import Gelu, gelu_overwriting


def activated_linear(tokens: Tensor, linear: nn.Module, activation: nn.Module, *, drops: bool = False) -> Tensor:
    """(..., width) -> (..., hidden). drops: dropout follows, which torch.compile fuses with its own GELU

    A linear layer with a bias and an exact GELU run as one kernel in a compiled model on a GPU, and in place on a CPU
    where no gradient is needed. Modules of other classes, and modules with hooks, are called as they are.
    """
    if not _is_linear(linear) or not _is_gelu(activation):
        return cast(Tensor, activation(linear(tokens)))
    if not drops and has_bias_gelu_kernel(tokens, linear.weight):
        return bias_gelu(F.linear(tokens, linear.weight), linear.bias)
    return gelu_overwriting(linear(tokens))


def _is_linear(module: nn.Module) -> TypeGuard[nn.Linear]:
    """True for nn.Linear with a bias and without hooks. A subclass (quantised, parametrised) may compute otherwise."""
    return type(module) is nn.Linear and module.bias is not None and not has_hooks(module)


def _is_gelu(module: nn.Module) -> bool:
    exact = type(module) is Gelu or (type(module) is nn.GELU and module.approximate == "none")
    return exact and not has_hooks(module)
