"""Position encodings of texts that have no weights.

A module maps positions, integers of any shape, to one vector each, which is added to the word embedding.
"""

import math
from typing import Literal

import torch
from torch import Tensor, nn

from patchword.core.errors import UserError

Layout = Literal["interleaved", "halves", "t2t"]


class NoTextPositions(nn.Module):
    """No position encoding on the tokens: a text is a bag of words unless attention encodes positions."""

    def forward(self, places: Tensor) -> Tensor:
        return torch.zeros((), device=places.device)


class Sinusoids(nn.Module):
    """Sines and cosines of the position (Vaswani et al., 2017, 3.5), for texts of any length."""

    def __init__(self, width: int, layout: Layout = "interleaved") -> None:
        super().__init__()
        if width % 2:
            raise UserError("sinusoidal positions", expected="an even width: a sine and a cosine each", got=width)
        self.width: int = width
        self.layout: Layout = layout

    def extra_repr(self) -> str:
        return f"width={self.width}, {self.layout}"

    def forward(self, places: Tensor) -> Tensor:
        """(...) -> (..., width)"""
        return sinusoids_at(places, self.width, self.layout)


def sinusoids_at(places: Tensor, width: int, layout: Layout) -> Tensor:
    """(...) -> (..., width), in one of the three layouts in use.

    interleaved: channel 2i is sin(t / 10000^(2i/d)), channel 2i + 1 its cosine: the paper, XLM.
    halves: the same numbers, all sines before all cosines: Marian.
    t2t: halves, with the exponent i / (d/2 - 1), so that the last wavelength is 10000 * 2 pi exactly:
        tensor2tensor, fairseq (which counts positions from 2).
    """
    pairs = width // 2
    last = pairs if layout != "t2t" else max(pairs - 1, 1)
    frequencies = torch.exp(torch.arange(pairs, device=places.device) * (-math.log(10_000.0) / last))
    angles = places[..., None] * frequencies
    waves = angles.sin(), angles.cos()
    return torch.stack(waves, dim=-1).flatten(-2) if layout == "interleaved" else torch.cat(waves, dim=-1)
