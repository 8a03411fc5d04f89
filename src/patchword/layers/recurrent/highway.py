"""Highway layer: a gated residual layer."""

import torch
from torch import Tensor, nn


class Highway(nn.Module):
    """t * relu(W x) + (1 - t) * x with the gate t = sigmoid(W_t x) (Srivastava et al., 2015, equation 3)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.candidate, self.gate = nn.Linear(width, width), nn.Linear(width, width)
        self.activation = nn.ReLU()

    def forward(self, tokens: Tensor) -> Tensor:
        """(..., width) -> (..., width)"""
        candidate = self.activation(self.candidate(tokens))
        return torch.lerp(tokens.to(candidate.dtype), candidate, self.gate(tokens).sigmoid())

    def begin(self) -> None:
        """Initialize with N(0, 1 / width); the gate starts nearly closed, so that most of the input passes."""
        for linear in (self.candidate, self.gate):
            nn.init.normal_(linear.weight, std=linear.in_features**-0.5)
        nn.init.zeros_(self.candidate.bias)
        nn.init.constant_(self.gate.bias, -2.0)
