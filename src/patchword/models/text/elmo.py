"""ELMo (Peters et al., 2018): a character CNN and two LSTM layers per direction, pretrained to predict the next and the
previous word.

A text is the characters of its words, with a start word and an end word: `Text.ids` has a third axis, the characters,
as `CharacterReader` makes it; or it indexes the rows of `Text.spelling`, so that each distinct word is computed once. A
token has three states: its character vector, repeated twice, and both directions of each of the two layers.

Heads:
- "tokens": a learned mixture of the three states per token, the input of a tagger or a classifier
- "words": the next and the previous word, as ELMo was trained
- "classes": per text, from the mean of its tokens; "tags": a class per token; both over the mixture

Deviation: the published model carried its state from one batch to the next; here every text starts from zero.
"""

from dataclasses import dataclass
from typing import Literal, cast

import torch
from pydantic import NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor, nn

from patchword.core.errors import UserError
from patchword.core.text import Text
from patchword.layers import (
    BidirectionalEncoder,
    CharacterEmbedding,
    ClippedLstm,
    LastLayer,
    MeanPool,
    Model,
    ScalarMix,
    SequenceHead,
    TokenClassificationHead,
    Tokens,
)
from patchword.models.registry import Family, Probability, Variant

PUBLISHED = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))


@dataclass(frozen=True, kw_only=True)
class ElmoConfig:
    """Sizes of an ELMo. A token's vector has 2 * `width` channels: `width` per direction."""

    symbols: PositiveInt = 262  # bytes, marks and padding
    characters: PositiveInt = 50  # per word, with the marks of its start and end
    character_width: PositiveInt = 16
    filters: tuple[tuple[PositiveInt, PositiveInt], ...] = PUBLISHED  # (kernel size, number of filters)
    highways: NonNegativeInt = 2
    activation: Literal["relu", "tanh"] = "relu"
    width: PositiveInt = 512  # per direction
    cell: PositiveInt = 4096
    depth: PositiveInt = 2
    cell_clip: PositiveFloat = 3.0
    output_clip: PositiveFloat = 3.0
    vocabulary: NonNegativeInt = 0  # size of the vocabulary of the language model
    classes: NonNegativeInt = 0
    head: Literal["tokens", "words", "classes", "tags"] = "tokens"
    dropout: Probability = 0.1  # on the input of each layer
    head_dropout: Probability = 0.5  # on the mixture, before classes and tags

    @property
    def tokens(self) -> int:
        """The length of the example text for which parameters and MACs are counted."""
        return 128

    def example(self, tokens: int | None = None) -> Text:
        """Return an example text, to count costs and draw figures; every word is computed, even if repeated."""
        return Text(torch.zeros(1, tokens or self.tokens, self.characters, dtype=torch.int64))


class TwoWayHead(nn.Module):
    """Predicts the next word from the forward half of a token, the previous one from the other; one shared matrix."""

    def __init__(self, width: int, vocabulary: int) -> None:
        super().__init__()
        self.words = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor, text: Text, table: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, tokens, 2 * width) -> twice (batch, tokens, vocabulary), or (count, vocabulary) at `predict_at`"""
        asked = tokens if text.predict_at is None else tokens.flatten(0, 1)[text.predict_at]
        forwards, backwards = asked.chunk(2, -1)
        return self.words(forwards), self.words(backwards)


class Elmo(Model):
    """A character embedding, a bidirectional encoder, a mixture of its layers and a head."""

    def __init__(
        self,
        embedding: CharacterEmbedding,
        encoder: BidirectionalEncoder,
        mixture: ScalarMix | LastLayer,
        head: nn.Module,
    ) -> None:
        super().__init__()
        self.embedding, self.encoder, self.mixture, self.head = embedding, encoder, mixture, head

    def forward(self, text: Text | Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Return the output of the head. A tensor (batch, words, characters) is a batch without padding."""
        text = text if isinstance(text, Text) else Text(text)
        words = self.embedding(text.ids) if text.spelling is None else self._spelled(text.ids, text.spelling)
        tokens = self.mixture(self._read(words, text))
        return cast(Tensor | tuple[Tensor, Tensor], self.head(tokens, text, self.embedding.characters.weight))

    def encode(self, text: Text) -> list[Tensor]:
        """Return all states of all tokens, start and end words included: each (batch, tokens, 2 * width)."""
        words = self.embedding.once(text.ids) if text.spelling is None else self._spelled(text.ids, text.spelling)
        return self._read(words, text)

    def _spelled(self, ids: Tensor, words: Tensor) -> Tensor:
        return cast(Tensor, self.embedding(words[None])[0][ids])

    def _read(self, tokens: Tensor, text: Text) -> list[Tensor]:
        if text.packed is not None:
            states = self.encoder(text.packed.pad(tokens), text.packed.cu_seqlens.diff())
            return [text.packed.join(state) for state in states]
        batch, words = tokens.shape[:2]
        lengths = tokens.new_full((batch,), words, dtype=torch.int64) if text.mask is None else text.mask.sum(1)
        return cast(list[Tensor], self.encoder(tokens, lengths))

    def states(self, text: Text) -> list[Tensor]:
        """Return the three states of the words, without start and end: each (batch, words, 2 * width).

        Word k of each text is at index k; the values after the last word of a shorter text are arbitrary.
        """
        if text.packed is not None:
            raise UserError(
                "word states are not available for packed texts", expected="padded texts", got="packed texts"
            )
        return [state[:, 1:-1] for state in self.encode(text)]


def build(c: ElmoConfig) -> Elmo:
    activation = nn.ReLU() if c.activation == "relu" else nn.Tanh()
    if max(size for size, _ in c.filters) > c.characters:
        raise UserError("a filter is wider than a word", expected=f"{c.characters} characters at most", got=c.filters)
    embedding = CharacterEmbedding(
        c.symbols, c.character_width, c.filters, c.width, highways=c.highways, activation=activation
    )
    embedding.begin()
    layers = [
        ClippedLstm(c.width, c.cell, c.width, cell_clip=c.cell_clip, output_clip=c.output_clip) for _ in range(c.depth)
    ]
    mixture = LastLayer() if c.head == "words" else ScalarMix(c.depth + 1)
    return Elmo(embedding, BidirectionalEncoder(layers, c.dropout), mixture, head(c))


def head(c: ElmoConfig) -> nn.Module:
    counted = {"words": "vocabulary", "classes": "classes", "tags": "classes"}.get(c.head)
    if counted and not getattr(c, counted):
        raise UserError(f"head {c.head!r} needs field {counted!r}", expected=f"e.g. {counted}=2", got=f"{counted}=0")
    match c.head:
        case "tokens":
            return Tokens()
        case "words":
            return TwoWayHead(c.width, c.vocabulary)
        case "classes":
            return SequenceHead(MeanPool(), 2 * c.width, c.classes, c.head_dropout)
        case "tags":
            return TokenClassificationHead(2 * c.width, c.classes, c.head_dropout)


SMALL = ElmoConfig(width=128, cell=1024, highways=1)
MEDIUM = ElmoConfig(width=256, cell=2048, highways=1)

FAMILY = Family(
    name="elmo",
    title="ELMo",
    paper="arXiv:1802.05365",
    build=build,
    read="characters",
    variants={  # including the 4 weights of the mixture; MACs of 128 words
        "small": Variant(SMALL, 13_593_316, 2_838_757_376),
        "medium": Variant(MEDIUM, 28_027_748, 4_684_251_136),
        "original": Variant(ElmoConfig(), 93_600_868, 13_072_859_136),
    },
)
