"""Translates the user's texts with a trained run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from patchword.core.device import pick_device
from patchword.core.errors import UserError
from patchword.data.text.batching.ragged import Ragged
from patchword.layers import Translator
from patchword.recipes.text.inference.input import TextInput
from patchword.recipes.text.inference.reader import folder_of
from patchword.recipes.translation.alignment import Alignment, aligned
from patchword.recipes.translation.data import Languages, encoded
from patchword.recipes.translation.run import open_translator
from patchword.recipes.translation.search import Search, in_words, translated


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

    def sources(self, asked: Sequence[TextInput]) -> Ragged:
        where = str(asked[0].place.get("file", "the command line"))
        longest = int(self.model.card.config["max_length"])
        return encoded(self.languages.source, [one.text for one in asked], longest, where)

    def texts(self, source: Ragged, search: Search, advance: Callable[[int], None]) -> list[str]:
        found = translated(self.model, self.languages, source, search, advance=advance)
        return in_words(self.languages, found)

    def alignment(self, source: Ragged, search: Search) -> tuple[str, Alignment]:
        """Return the translation of one text with its cross-attention."""
        if len(source) != 1:
            raise UserError("an alignment is that of one text", expected="one text", got=f"{len(source):,}")
        tokens = translated(self.model, self.languages, source, search)[0]
        return in_words(self.languages, [tokens])[0], aligned(
            self.model, self.languages, torch.as_tensor(source.values), tokens
        )
