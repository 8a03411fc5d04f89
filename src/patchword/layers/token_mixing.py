"""Mixing of tokens without attention."""

from torch import Tensor, nn

from patchword.core.errors import UserError
from patchword.core.scope import Scope
from patchword.layers.feed_forward import FeedForward


class TokenMixing(nn.Module):
    """Mixer: a feed-forward along the tokens of each channel; so the number of tokens is fixed."""

    def __init__(self, tokens: int, hidden: int, activation: nn.Module | None = None) -> None:
        super().__init__()
        self.tokens = tokens
        self.feed_forward = FeedForward(tokens, hidden, activation)

    def forward(self, tokens: Tensor, scope: Scope) -> Tensor:
        """(batch, tokens, width) -> (batch, tokens, width)"""
        if tokens.shape[1] != self.tokens:
            raise UserError(
                "a Mixer's weights belong to one number of patches",
                expected=f"{self.tokens} patches",
                got=tokens.shape[1],
                hint="resize the image to the model's size, or create the model with image=...",
            )
        mixed: Tensor = self.feed_forward(tokens.transpose(1, 2), scope)
        return mixed.transpose(1, 2)
