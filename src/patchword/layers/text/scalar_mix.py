"""One vector of the several that the layers of a model have for a token."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class ScalarMix(nn.Module):
    """scale * sum_k softmax(weights)_k h_k (Peters et al., 2018, equation 1); all layers count alike at first."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(layers))
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, states: Sequence[Tensor]) -> Tensor:
        """(batch, tokens, width), once a layer -> (batch, tokens, width)"""
        shares = (self.scale * self.weights.softmax(0)).unbind(0)
        mixed = shares[0] * states[0]
        for share, state in zip(shares[1:], states[1:], strict=True):
            mixed = mixed + share * state
        return mixed


class LastLayer(nn.Module):
    """The last layer alone, which tells the words when a language model is trained."""

    def forward(self, states: Sequence[Tensor]) -> Tensor:
        """(batch, tokens, width), once a layer -> (batch, tokens, width)"""
        return states[-1]
