"""The sublayer that treats each token alone."""

from torch import Tensor, nn

from patchword.core.scope import Scope
from patchword.layers.activation import Gelu


class FeedForward(nn.Module):
    """up, activation, down"""

    def __init__(self, width: int, hidden: int, activation: nn.Module | None = None, dropout: float = 0.0) -> None:
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.activation = activation or Gelu()
        self.dropout = nn.Dropout(dropout)
        self.down = nn.Linear(hidden, width)

    def forward(self, tokens: Tensor, scope: Scope) -> Tensor:
        """(batch, tokens, width) -> (batch, tokens, width)"""
        lowered: Tensor = self.down(self.dropout(self.activation(self.up(tokens))))
        return lowered
