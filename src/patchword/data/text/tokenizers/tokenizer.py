"""Text into pieces and their numbers, and back. The `tokenizers` library does the work.

Special tokens are never read out of text: "[SEP]" in a user's data is five ordinary characters. Whoever builds a
model's input adds the specials by their ids; `encode_masked` alone knows "[MASK]".
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
import tokenizers
from numpy.typing import NDArray

from patchword.core.errors import UserError
from patchword.data.progress import Progress, nothing
from patchword.data.text.tokenizers.encoding import (
    ANY_PLACE,
    BERT_PLACE,
    SPACES,
    Encoding,
    encoded,
    encoded_words,
    ids_of,
)
from patchword.data.text.tokenizers.loading import library_of
from patchword.data.text.tokenizers.vocabulary import Lexicon
from patchword.data.text.tokenizers.vocabulary_config import Wanted
from patchword.data.text.tokenizers.vocabulary_training import Casing, Kind


class Tokenizer(Lexicon):
    """A vocabulary and the rules that cut text into its entries."""

    @classmethod
    def train(
        cls,
        files: Sequence[Path],
        vocabulary: int = 30_000,
        casing: Casing | None = None,
        least: int | None = None,
        progress: Progress = nothing,
        kind: Kind = "wordpiece",
    ) -> "Tokenizer":
        """A vocabulary learned from text files, .jsonl files, or folders of them.

        `casing`: uncased unless told otherwise, but for bytes. `least` is how often a piece must be seen, twice unless
        told. `progress` is told the bytes read, and the bytes in all.
        """
        wanted = Wanted(kind, vocabulary, casing, least)
        return cls(wanted.library(wanted.from_files(files, progress)))

    @classmethod
    def train_on(
        cls,
        texts: Iterable[str],
        vocabulary: int = 30_000,
        casing: Casing | None = None,
        least: int | None = None,
        kind: Kind = "wordpiece",
    ) -> "Tokenizer":
        """A vocabulary learned from texts, which are taken once."""
        wanted = Wanted(kind, vocabulary, casing, least)
        return cls(wanted.library(wanted.from_texts(texts)))

    @classmethod
    def read(cls, path: Path, casing: Casing | None = None) -> "Tokenizer":
        """From a folder as Hugging Face writes it, a tokenizer.json, a vocab.txt, or a vocab.json beside a merges.txt.

        A vocab.txt does not say whether it is cased: the settings beside it do, or `casing`, else its entries.
        """
        found = cls(*library_of(Path(path), casing), origin=str(path))
        if casing and casing != found.casing:
            raise UserError(f"{path} has rules of its own", expected=casing, got=found.casing)
        return found

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        """The pieces of each text, without special tokens. A long text is taken in parts, with the same result."""
        return [self._unspelled(found) for found in encoded(self._library, texts, self._place)]

    def encode_masked(self, texts: Sequence[str]) -> list[Encoding]:
        """As `encode`, but "[MASK]" in the text is the mask token; all other specials stay ordinary characters."""
        mask = self.require_mask()
        found = encoded(self._masked, texts, SPACES if self._is_bert else ANY_PLACE)
        return [self._unspelled(one, mask) for one in found]

    def encode_words(self, sentences: Sequence[Sequence[str]]) -> list[Encoding]:
        """Sentences that are words already. `words` numbers the words given, `starts` and `ends` count within a word.

        Words have the pieces of running text, in which all but the first have a space in front. A word of which nothing
        is left, such as a lone control character, is one unknown piece.
        """
        found = encoded_words(self._library, sentences, self.stand_in, self.spaced)
        return [self._unspelled(one) for one in found]

    def ids_of(self, texts: Sequence[str]) -> list[NDArray[np.int32]]:
        """The ids that `encode` gives, and nothing else: faster, for large amounts of text."""
        found = ids_of(self._library, texts, self._place)
        return found if self._allowed is None else [self._allowed[ids] for ids in found]

    @cached_property
    def _allowed(self) -> NDArray[np.int32] | None:
        """(vocabulary,) what an entry is when text is read, where specials are pieces like any: those are unknown."""
        if self._settings["model"]["type"] != "Unigram" or self.unknown is None:
            return None
        found = np.arange(self.vocabulary, dtype=np.int32)
        found[list(self.specials)] = self.unknown
        return found

    def _unspelled(self, found: Encoding, mask: int | None = None) -> Encoding:
        """Without special tokens, but for the mask asked for."""
        if self._allowed is None:
            return found
        return replace(found, ids=np.where(found.ids == mask, found.ids, self._allowed[found.ids]))

    @cached_property
    def _place(self) -> re.Pattern[str]:
        """Where a long text may be cut. BERT's marks and Chinese characters are words by themselves, unless an added
        token can hold one."""
        if not self._is_bert:
            return ANY_PLACE
        marks = all(token["special"] for token in self._settings["added_tokens"])
        return BERT_PLACE if marks and self._settings["normalizer"]["handle_chinese_chars"] else SPACES

    @cached_property
    def _masked(self) -> tokenizers.Tokenizer:
        """Specials are passed over in text, so the mask must not be one here. It takes the space that a word would."""
        added = [
            token | ({"special": False, "lstrip": token["lstrip"] or self.spaced} if token["id"] == self.mask else {})
            for token in self._settings["added_tokens"]
        ]
        library = tokenizers.Tokenizer.from_str(json.dumps(self._settings | {"added_tokens": added}))
        library.encode_special_tokens = True
        return library
