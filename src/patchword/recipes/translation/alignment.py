"""The cross-attention of a translator: which source words it attends to for each word of the translation."""

import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from patchword.core.errors import UserError
from patchword.core.text import Pair, Text
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.layers import Translator
from patchword.objectives.generation.translating import alignment, attends_to_source
from patchword.recipes.translation.data import Languages

END = "(end)"
_MARKS = set(string.punctuation)


@dataclass(frozen=True)
class Alignment:
    """The attention of a translation to its source.

    weights: (target words, source words), each row sums to 1. layer: the decoder layer, counted from 1. layers: the
    number of decoder layers.
    """

    read: tuple[str, ...]
    written: tuple[str, ...]
    weights: Tensor
    layer: int
    layers: int

    def to_json(self) -> dict[str, Any]:
        rounded = [[round(value, 4) for value in row] for row in self.weights.tolist()]
        return {"read": self.read, "written": self.written, "layer": self.layer, "weights": rounded}


@dataclass(frozen=True)
class WordAttention:
    """The attention of a translation to its source in every layer. weights: (layers, target words, source words)."""

    read: tuple[str, ...]
    written: tuple[str, ...]
    weights: Tensor

    @property
    def best(self) -> int:
        """The layer, counted from 0, whose attention covers the source best."""
        return int(coverage(self.weights).argmax())


def require_attention(model: Translator) -> None:
    if not attends_to_source(model):
        raise UserError(
            f"{model.card.model} has no attention",
            expected="a run of a model with attention",
            hint="train one with model.attention=dot",
        )


def aligned(model: Translator, languages: Languages, source: Tensor, tokens: Sequence[int]) -> Alignment:
    """Return the attention between the words of a source and of its translation.

    If there are several layers, the one whose attention covers the source best is taken. The arguments are those of
    `word_attention`.
    """
    found = word_attention(model, languages, source, tokens)
    layer = found.best
    return Alignment(found.read, found.written, found.weights[layer], layer + 1, len(found.weights))


def word_attention(model: Translator, languages: Languages, source: Tensor, tokens: Sequence[int]) -> WordAttention:
    """Return the attention between the words of a source and of its translation in every layer.

    Weights of tokens are merged to words: summed over the tokens of a source word and averaged over the tokens of a
    target word.

    source: (tokens,) with the end token. tokens: the translation, without the end token.
    """
    require_attention(model)
    device = next(model.parameters()).device
    target = torch.tensor([[languages.begin, *tokens]])
    pair = Pair(Text(source.long()[None]), Text(target)).to(device)
    maps = alignment(model, pair)[:, 0].float().cpu()
    read, reading = _words(languages.source, source[:-1].tolist())
    written, writing = _words(languages.target, tokens)
    joined = torch.zeros(len(maps), maps.shape[1], len(read)).index_add(2, reading, maps)
    sums = torch.zeros(len(maps), len(written), len(read)).index_add(1, writing, joined)
    return WordAttention(read, written, sums / torch.bincount(writing)[:, None])


def coverage(weights: Tensor) -> Tensor:
    """Return the mean over source words of the highest attention that each gets: (layers, target, source) -> (layers,).

    The end token does not count, because it collects unused attention.
    """
    return (
        weights[:, :-1, :-1].amax(1).mean(-1) if weights.shape[1] > 1 and weights.shape[2] > 1 else weights.sum((1, 2))
    )


def _words(tokenizer: Tokenizer, ids: Sequence[int]) -> tuple[tuple[str, ...], Tensor]:
    """Return the words of a text with its end token, and the word index of each token; punctuation marks are words."""
    if not len(ids):
        return (END,), torch.zeros(1, dtype=torch.int64)
    marks = np.array([bool(piece) and not set(piece) - _MARKS for piece in tokenizer.written(ids)])
    begins = np.diff(tokenizer.words_of(ids), prepend=-1) > 0
    begins[1:] |= marks[1:] != marks[:-1]
    numbers = np.cumsum(begins) - 1
    words = [tokenizer.decode(np.asarray(ids)[numbers == word]).strip() for word in range(numbers[-1] + 1)]
    return (*words, END), torch.from_numpy(np.append(numbers, len(words))).long()
