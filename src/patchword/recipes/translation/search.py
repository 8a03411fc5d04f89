"""Translates many texts with greedy or beam search."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from patchword.data.text.batching.pair_batches import padded_text, pair_batch_sizes
from patchword.data.text.batching.ragged import Ragged
from patchword.layers import Translator
from patchword.objectives.generation.beam_search import beam_search
from patchword.objectives.generation.sampling import Greedy, generate
from patchword.objectives.generation.translating import TranslatingSteps
from patchword.recipes.translation.data import Languages
from patchword.training.step import autocast

Tokens = tuple[int, ...]
BEYOND = 50  # maximum extra tokens of a translation over its source (Vaswani et al., 2017, section 6.1)
_BATCH = 4096  # source tokens per batch


@dataclass(frozen=True)
class Search:
    """Options of decoding.

    beams: 1 is greedy search. penalty: exponent of the length penalty (Wu et al., 2016); 0.6 in the Transformer paper.
    """

    beams: int = 5
    penalty: float = 0.6


def _nothing(done: int) -> None:
    pass


@torch.inference_mode()
def translated(
    model: Translator,
    languages: Languages,
    source: Ragged,
    search: Search,
    *,
    precision: str = "float32",
    advance: Callable[[int], None] = _nothing,
) -> list[Tokens]:
    """Return the tokens of the best translation of each source. advance: called with the number of completed texts"""
    device = next(model.parameters()).device
    found: list[Tokens] = [()] * len(source)
    ordered = source.lengths.argsort(stable=True)
    for index in ordered.split(pair_batch_sizes(source.lengths[ordered], _BATCH)):
        text = padded_text(source.take(index), languages.source.pad or 0, device)
        with autocast(precision, device):
            steps = TranslatingSteps(model, text, languages.begin, beyond=BEYOND, never=never_written(model, languages))
            answers = _searched(steps, search, languages.end)
        for number, tokens in zip(index.tolist(), answers, strict=True):
            found[number] = tokens
        advance(len(index))
    return found


def _searched(steps: TranslatingSteps, search: Search, end: int) -> list[Tokens]:
    most = int(steps.room.max())
    if search.beams == 1:
        return [text.tokens for text in generate(steps, Greedy(), most, [end])]
    return [texts[0].tokens for texts in beam_search(steps, search.beams, most, [end], search.penalty)]


def never_written(model: Translator, languages: Languages) -> list[int]:
    """Return the tokens that are excluded: special tokens except the end, and embedding rows without an entry."""
    tokenizer = languages.target
    specials = [number for number in tokenizer.specials if number != languages.end]
    return [*specials, *range(tokenizer.vocabulary, model.writing.words.num_embeddings)]


def in_words(languages: Languages, tokens: Sequence[Tokens]) -> list[str]:
    """Return tokens as text on one line."""
    return [" ".join(languages.target.decode(text).split()) for text in tokens]
