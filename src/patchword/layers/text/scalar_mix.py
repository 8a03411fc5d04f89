"""Combine the outputs of all layers into one vector per token."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class ScalarMix(nn.Module):
    """scale * sum_k softmax(weights)_k h_k (Peters et al., 2018, equation 1); initially the mean of the layers."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(layers))
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, states: Sequence[Tensor]) -> Tensor:
        """(batch, tokens, width), one per layer -> (batch, tokens, width)"""
        weights = (self.scale * self.weights.softmax(0)).unbind(0)
        mixed = weights[0] * states[0]
        for weight, state in zip(weights[1:], states[1:], strict=True):
            mixed = mixed + weight * state
        return mixed


class LastLayer(nn.Module):
    """Selects the last layer, from which a language model predicts words."""

    def forward(self, states: Sequence[Tensor]) -> Tensor:
        """(batch, tokens, width), one per layer -> (batch, tokens, width)"""
        return states[-1]
