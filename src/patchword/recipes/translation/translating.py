"""Translates the user's texts with a trained run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from patchword.core.device import pick_device
from patchword.core.errors import UserError
from patchword.data.text.batching.ragged import Ragged
from patchword.layers import Translator
from patchword.objectives.generation.translating import attends_to_source
from patchword.recipes.text.inference.input import TextInput
from patchword.recipes.text.inference.reader import folder_of
from patchword.recipes.translation.alignment import Alignment, WordAttention, aligned, word_attention
from patchword.recipes.translation.data import Languages, encoded
from patchword.recipes.translation.run import open_translator
from patchword.recipes.translation.search import Search, in_words, never_written, translated
from patchword.recipes.translation.tracing import SearchTrace, next_tokens, trace


@dataclass(frozen=True)
class Translating:
    """A trained translator. A text that is too long for it is an error before anything is translated.

    name: what the user opened, for messages
    """

    model: Translator
    languages: Languages
    name: str = ""

    @classmethod
    def open(cls, name: str, device: str = "auto") -> "Translating":
        model, source, target = open_translator(Path(folder_of(name)))
        return cls.of(model, Languages(source, target), device, name)

    @classmethod
    def of(cls, model: Translator, languages: Languages, device: str = "auto", name: str = "") -> "Translating":
        """Move a translator to its device, in evaluation mode."""
        return cls(model.to(pick_device(device)).eval(), languages, name)

    @property
    def has_attention(self) -> bool:
        """True if the decoder attends to the source."""
        return attends_to_source(self.model)

    def sources(self, asked: Sequence[TextInput]) -> Ragged:
        where = str(asked[0].place.get("file", "the command line"))
        longest = int(self.model.card.config["max_length"])
        return encoded(self.languages.source, [one.text for one in asked], longest, where)

    def texts(self, source: Ragged, search: Search, advance: Callable[[int], None]) -> list[str]:
        found = translated(self.model, self.languages, source, search, advance=advance)
        return in_words(self.languages, found)

    def alignment(self, source: Ragged, search: Search) -> tuple[str, Alignment]:
        """Return the translation of one text with its cross-attention."""
        self._require_one(source)
        tokens = translated(self.model, self.languages, source, search)[0]
        return in_words(self.languages, [tokens])[0], aligned(
            self.model, self.languages, torch.as_tensor(source.values), tokens
        )

    def trace(self, source: Ragged, search: Search, prefix: Sequence[int] = ()) -> SearchTrace:
        """Translate one text and record every step of the search. prefix: tokens with which the translation starts."""
        self._require_one(source)
        return trace(self.model, self.languages, torch.as_tensor(source.values), search, self.checked(prefix))

    def next_tokens(self, source: Ragged, prefix: Sequence[int], top: int = 10) -> list[tuple[int, float]]:
        """Return the most probable tokens after a prefix of the translation of one text, with log-probabilities."""
        self._require_one(source)
        return next_tokens(self.model, self.languages, torch.as_tensor(source.values), self.checked(prefix), top)

    def attention(self, source: Ragged, tokens: Sequence[int]) -> WordAttention:
        """Return the attention between the words of one text and those of a translation, in every layer."""
        self._require_one(source)
        return word_attention(self.model, self.languages, torch.as_tensor(source.values), tokens)

    def checked(self, prefix: Sequence[int]) -> Sequence[int]:
        """Return the tokens of a prefix; raise an error if they cannot start a translation."""
        longest = self.model.writing.longest - 1
        if len(prefix) >= longest:
            raise UserError("the start of the translation is too long", expected=f"fewer than {longest} tokens")
        excluded = {*never_written(self.model, self.languages), self.languages.end}
        known = range(self.model.writing.words.num_embeddings)
        wrong = next((token for token in prefix if token in excluded or token not in known), None)
        if wrong is not None:
            raise UserError(
                "the start of the translation is not text", expected="tokens of words", got=f"token {wrong}"
            )
        return prefix

    @staticmethod
    def _require_one(source: Ragged) -> None:
        if len(source) != 1:
            raise UserError("this is for one text", expected="one text", got=f"{len(source):,}")
