"""The sublayer that transforms each token by itself."""

from typing import cast

from torch import Tensor, nn

from patchword.core.scope import Scope
from patchword.kernels.mlp.activated_linear import activated_linear
from patchword.layers.activation import Gelu
from patchword.layers.dropout import Dropout, is_inactive


class FeedForward(nn.Module):
    """down(dropout(activation(up(x))))"""

    def __init__(self, width: int, hidden: int, activation: nn.Module | None = None, dropout: float = 0.0) -> None:
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.activation = activation or Gelu()
        self.dropout = Dropout(dropout)
        self.down = nn.Linear(hidden, width)

    def forward(self, tokens: Tensor, scope: Scope) -> Tensor:
        """(batch, tokens, width) -> (batch, tokens, width)"""
        hidden = activated_linear(tokens, self.up, self.activation, drops=not is_inactive(self.dropout))
        return cast(Tensor, self.down(self.dropout(hidden)))
