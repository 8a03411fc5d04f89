"""Positional schemes of texts, made exchangeable as those of images are (`layers/embedding/image_position.py`)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import nn

from patchword.layers.attention.position import Position
from patchword.layers.attention.relative_vectors import RelativeVectors
from patchword.layers.embedding.floater import FloaterPlaces
from patchword.layers.embedding.fourier import FourierPlaces
from patchword.layers.embedding.sinusoids import NoPlaces, Sinusoids


@dataclass(frozen=True)
class TextPosition:
    """on_tokens(width, length) makes what turns places into vectors, in_attention(width, heads) what acts inside."""

    on_tokens: Callable[[int, int], nn.Module] = lambda width, length: NoPlaces()
    in_attention: Callable[[int, int], Position] = lambda width, heads: Position()


TextPositionName = Literal[
    "none", "learned", "sinusoidal", "sinusoidal-halves", "sinusoidal-t2t", "shaw", "fourier", "floater"
]

LEARNED = TextPosition(on_tokens=lambda width, length: nn.Embedding(length, width))  # a table, as BERT

TEXT_POSITIONS: dict[TextPositionName, TextPosition] = {
    "none": TextPosition(),
    "learned": LEARNED,
    "sinusoidal": TextPosition(on_tokens=lambda width, length: Sinusoids(width)),  # as the Transformer's paper
    "sinusoidal-halves": TextPosition(on_tokens=lambda width, length: Sinusoids(width, "halves")),
    "sinusoidal-t2t": TextPosition(on_tokens=lambda width, length: Sinusoids(width, "t2t")),
    "shaw": TextPosition(in_attention=lambda width, heads: RelativeVectors(width // heads)),
    "fourier": TextPosition(on_tokens=lambda width, length: FourierPlaces(width)),
    "floater": TextPosition(on_tokens=lambda width, length: FloaterPlaces(width)),
}
