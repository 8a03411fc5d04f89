"""The reference implementations of the MLP kernels, in PyTorch."""

from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor

FORMS = ("gelu", "gelu-tanh", "quick-gelu")  # the activations that the kernels support


class Weights(NamedTuple):
    """scale, shift: (width,) of the norm. up: (hidden, width) and down: (width, hidden), with their biases"""

    scale: Tensor
    shift: Tensor
    up: Tensor
    up_bias: Tensor
    down: Tensor
    down_bias: Tensor


class OutProjection(NamedTuple):
    """The output projection of attention. branch: (..., width), its input. matrix: (width, width), with its bias"""

    branch: Tensor
    matrix: Tensor
    bias: Tensor


def activation_reference(hidden: Tensor, form: str) -> Tensor:
    """Applies a form of GELU. form: one of FORMS"""
    if form == "quick-gelu":
        return hidden * (1.702 * hidden).sigmoid()
    return F.gelu(hidden, approximate="tanh" if form == "gelu-tanh" else "none")


def bias_gelu_reference(hidden: Tensor, bias: Tensor) -> Tensor:
    return F.gelu(hidden + bias)


def linear_gelu_reference(tokens: Tensor, up: Tensor, bias: Tensor, form: str) -> Tensor:
    return activation_reference(F.linear(tokens, up, bias), form)


def fused_mlp_reference(tokens: Tensor, weights: Weights, eps: float, form: str) -> Tensor:
    normed = F.layer_norm(tokens, tokens.shape[-1:], weights.scale, weights.shift, eps)
    hidden = linear_gelu_reference(normed, weights.up, weights.up_bias, form)
    return tokens + F.linear(hidden, weights.down, weights.down_bias)


def out_proj_mlp_reference(tokens: Tensor, before: OutProjection, weights: Weights, eps: float, form: str) -> Tensor:
    branch, matrix, bias = before
    return fused_mlp_reference(tokens + F.linear(branch, matrix, bias), weights, eps, form)
