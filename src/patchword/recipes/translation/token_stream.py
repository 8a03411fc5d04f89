"""Translates one text greedily, one token at a time."""

from collections.abc import Iterator

import torch

from patchword.data.text.batching.pair_batches import padded_text
from patchword.data.text.batching.ragged import Ragged
from patchword.objectives.generation.sampling import Greedy, stream
from patchword.objectives.generation.translating import TranslatingSteps
from patchword.recipes.translation.search import BEYOND, in_words, never_written
from patchword.recipes.translation.translating import Translating

_HALF = "\ufffd"  # replacement character of an incomplete UTF-8 sequence


class TranslationStream:
    """A translation that grows by one token per step; in the end that of a search with one beam.

    Nothing is computed before the first step.
    """

    def __init__(self, translating: Translating, source: Ragged) -> None:
        self._translating, self._source = translating, source
        self._tokens: list[int] = []
        self._steps = self._generated()
        self._shown = 0

    @property
    def text(self) -> str:
        """The translation, as far as it is."""
        return in_words(self._translating.languages, [tuple(self._tokens)])[0]

    def step(self) -> str | None:
        """Generate a token and return what it adds to the text; None after the end.

        Nothing is added by a token that ends inside a character. The text so far can change with the next token, e.g. a
        space before a comma; what was returned stays, and `text` is the translation.
        """
        token = next(self._steps, None)
        if token is None:
            return None
        self._tokens.append(token)
        text = self.text.rstrip(_HALF)
        before, self._shown = self._shown, max(self._shown, len(text))
        return text[before:]

    def _generated(self) -> Iterator[int]:
        model, languages = self._translating.model, self._translating.languages
        device = next(model.parameters()).device
        source = padded_text(self._source.take(torch.tensor([0])), languages.source.pad or 0, device)
        never = never_written(model, languages)
        steps = TranslatingSteps(model, source, languages.begin, beyond=BEYOND, never=never)
        for tokens, _ in stream(steps, Greedy(), int(steps.room.max()), [languages.end]):
            if tokens[0] == languages.end:
                return
            yield tokens[0]
