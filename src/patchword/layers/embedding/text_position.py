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
class TextScheme:
    """on_tokens(width, length) makes what turns places into vectors, in_attention(width, heads) what acts inside."""

    on_tokens: Callable[[int, int], nn.Module] = lambda width, length: NoPlaces()
    in_attention: Callable[[int, int], Position] = lambda width, heads: Position()


TextSchemeName = Literal[
    "none", "learned", "sinusoidal", "sinusoidal-halves", "sinusoidal-t2t", "shaw", "fourier", "floater"
]

LEARNED = TextScheme(on_tokens=lambda width, length: nn.Embedding(length, width))  # a table, as BERT

TEXT_SCHEMES: dict[TextSchemeName, TextScheme] = {
    "none": TextScheme(),
    "learned": LEARNED,
    "sinusoidal": TextScheme(on_tokens=lambda width, length: Sinusoids(width)),  # as the Transformer's paper
    "sinusoidal-halves": TextScheme(on_tokens=lambda width, length: Sinusoids(width, "halves")),
    "sinusoidal-t2t": TextScheme(on_tokens=lambda width, length: Sinusoids(width, "t2t")),
    "shaw": TextScheme(in_attention=lambda width, heads: RelativeVectors(width // heads)),
    "fourier": TextScheme(on_tokens=lambda width, length: FourierPlaces(width)),
    "floater": TextScheme(on_tokens=lambda width, length: FloaterPlaces(width)),
}
