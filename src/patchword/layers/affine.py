"""Whether parts are torch's own, with all that a kernel reads of them."""

from typing import TypeGuard

from torch import nn


def is_affine(norm: nn.Module, *matrices: nn.Module) -> TypeGuard[nn.LayerNorm]:
    """No other class than torch's own (quantised, parametrised), with all weights and biases."""
    if type(norm) is not nn.LayerNorm or any(type(matrix) is not nn.Linear for matrix in matrices):
        return False
    return all(part.bias is not None for part in (norm, *matrices))  # a norm has both or no weight either
