"""What the configs of all text families share."""

from dataclasses import dataclass

import torch
from pydantic import NonNegativeInt, PositiveInt

from patchword.core.text import Text


@dataclass(frozen=True, kw_only=True)
class TextConfig:
    """Sizes of what goes in and what comes out."""

    vocabulary: PositiveInt = 30522
    positions: PositiveInt = 512  # tokens of the longest text
    classes: NonNegativeInt = 0  # of a head that has classes

    @property
    def tokens(self) -> int:
        """of a text of the usual length, for which models are counted"""
        return min(128, self.positions)

    def example(self, tokens: int | None = None) -> Text:
        """A text, for counting and drawing."""
        return Text(torch.zeros(1, tokens or self.tokens, dtype=torch.int64))
