"""Position encodings of text models, interchangeable like those of images (`layers/embedding/image_position.py`)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import nn

from patchword.layers.attention.position import Position
from patchword.layers.attention.relative_vectors import RelativeVectors
from patchword.layers.embedding.floater import FloaterTextPositions
from patchword.layers.embedding.fourier import FourierTextPositions
from patchword.layers.embedding.sinusoids import NoTextPositions, Sinusoids


@dataclass(frozen=True)
class TextPosition:
    """A position encoding of texts, as two functions that build its parts; by default each does nothing.

    on_tokens(width, length): a module from positions to vectors, which are added to the word embeddings.
    in_attention(width, heads): a `Position` inside attention.
    """

    on_tokens: Callable[[int, int], nn.Module] = lambda width, length: NoTextPositions()
    in_attention: Callable[[int, int], Position] = lambda width, heads: Position()


TextPositionName = Literal[
    "none", "learned", "sinusoidal", "sinusoidal-halves", "sinusoidal-t2t", "shaw", "fourier", "floater"
]
"""The names of the position encodings of text models."""

LEARNED = TextPosition(on_tokens=lambda width, length: nn.Embedding(length, width))  # a table, as BERT

TEXT_POSITIONS: dict[TextPositionName, TextPosition] = {
    "none": TextPosition(),
    "learned": LEARNED,
    "sinusoidal": TextPosition(on_tokens=lambda width, length: Sinusoids(width)),  # as the Transformer's paper
    "sinusoidal-halves": TextPosition(on_tokens=lambda width, length: Sinusoids(width, "halves")),
    "sinusoidal-t2t": TextPosition(on_tokens=lambda width, length: Sinusoids(width, "t2t")),
    "shaw": TextPosition(in_attention=lambda width, heads: RelativeVectors(width // heads)),
    "fourier": TextPosition(on_tokens=lambda width, length: FourierTextPositions(width)),
    "floater": TextPosition(on_tokens=lambda width, length: FloaterTextPositions(width)),
}
"""The position encoding of text models for each name."""
