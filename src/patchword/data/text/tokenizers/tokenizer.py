"""Tokenizer: converts text to token ids and back, with the `tokenizers` library.

Special tokens are never parsed from text: "[SEP]" in a user's data is five ordinary characters. Code that builds a
model's input adds special tokens by their ids; only `encode_masked` parses "[MASK]".
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
from patchword.data.progress import Progress, no_progress
from patchword.data.text.tokenizers.encoding import (
    BERT_BREAK,
    SPACE_BREAK,
    WORD_BREAK,
    Encoding,
    encoded,
    encoded_words,
    ids_of,
)
from patchword.data.text.tokenizers.loading import load_library
from patchword.data.text.tokenizers.vocabulary import TokenVocabulary
from patchword.data.text.tokenizers.vocabulary_config import VocabularyConfig
from patchword.data.text.tokenizers.vocabulary_training import Casing, VocabularyKind


class Tokenizer(TokenVocabulary):
    """A vocabulary and the rules that split text into its entries."""

    @classmethod
    def train(
        cls,
        files: Sequence[Path],
        vocabulary: int = 30_000,
        casing: Casing | None = None,
        least: int | None = None,
        progress: Progress = no_progress,
        kind: VocabularyKind = "wordpiece",
    ) -> "Tokenizer":
        """Train a tokenizer on text files, .jsonl files, or folders of them.

        casing: default is uncased, for byte-level vocabularies cased. least: minimum count of a piece, default 2.
        progress: called with bytes (read, total).
        """
        wanted = VocabularyConfig(kind, vocabulary, casing, least)
        return cls(wanted.library(wanted.from_files(files, progress)))

    @classmethod
    def train_on(
        cls,
        texts: Iterable[str],
        vocabulary: int = 30_000,
        casing: Casing | None = None,
        least: int | None = None,
        kind: VocabularyKind = "wordpiece",
    ) -> "Tokenizer":
        """Train a tokenizer on texts, which are iterated once."""
        wanted = VocabularyConfig(kind, vocabulary, casing, least)
        return cls(wanted.library(wanted.from_texts(texts)))

    @classmethod
    def read(cls, path: Path, casing: Casing | None = None) -> "Tokenizer":
        """Load a Hugging Face folder, a tokenizer.json, a vocab.txt, or a vocab.json with its merges.txt.

        A vocab.txt has no casing: it is taken from `casing`, else from the settings file, else guessed from the
        entries.
        """
        found = cls(*load_library(Path(path), casing), origin=str(path))
        if casing and casing != found.casing:
            raise UserError(f"{path} has another casing", expected=casing, got=found.casing)
        return found

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        """Encode texts without special tokens. A long text is encoded in parts, with the same result."""
        return [self._without_specials(found) for found in encoded(self._library, texts, self._break)]

    def encode_masked(self, texts: Sequence[str]) -> list[Encoding]:
        """Like `encode`, but "[MASK]" in the text is the mask token; other special tokens stay ordinary characters."""
        mask = self.require_mask()
        found = encoded(self._masked, texts, SPACE_BREAK if self._is_bert else WORD_BREAK)
        return [self._without_specials(one, mask) for one in found]

    def encode_words(self, sentences: Sequence[Sequence[str]]) -> list[Encoding]:
        """Encode sentences that are split into words. `starts` and `ends` of the result count within a word.

        Words get the tokens of running text, where every word except the first has a space before it. A word without
        tokens, such as a single control character, becomes one unknown token.
        """
        found = encoded_words(self._library, sentences, self.placeholder, self.spaced)
        return [self._without_specials(one) for one in found]

    def ids_of(self, texts: Sequence[str], enough: int | None = None) -> list[NDArray[np.int32]]:
        """Return only the ids of `encode`; faster for large amounts of text.

        enough: if given, the ids of a very long text may end after this many; the rest is not read.
        """
        found = ids_of(self._library, texts, self._break, enough)
        return found if self._allowed is None else [self._allowed[ids] for ids in found]

    @cached_property
    def _allowed(self) -> NDArray[np.int32] | None:
        """Return a table of allowed ids, (vocabulary,): special tokens that a unigram model produces become unknown."""
        if self._settings["model"]["type"] != "Unigram" or self.unknown is None:
            return None
        found = np.arange(self.vocabulary, dtype=np.int32)
        found[list(self.specials)] = self.unknown
        return found

    def _without_specials(self, found: Encoding, mask: int | None = None) -> Encoding:
        """Replace special tokens by the unknown token, except the given mask."""
        if self._allowed is None:
            return found
        return replace(found, ids=np.where(found.ids == mask, found.ids, self._allowed[found.ids]))

    @cached_property
    def _break(self) -> re.Pattern[str]:
        """Return the pattern of positions where a long text may be split.

        In BERT, punctuation marks and Chinese characters are separate words, unless an added token can contain one.
        """
        if not self._is_bert:
            return WORD_BREAK
        marks = all(token["special"] for token in self._settings["added_tokens"])
        return BERT_BREAK if marks and self._settings["normalizer"]["handle_chinese_chars"] else SPACE_BREAK

    @cached_property
    def _masked(self) -> tokenizers.Tokenizer:
        """A copy of the library's tokenizer in which the mask is not special, so that it is parsed from text."""
        added = [
            token | ({"special": False, "lstrip": token["lstrip"] or self.spaced} if token["id"] == self.mask else {})
            for token in self._settings["added_tokens"]
        ]
        library = tokenizers.Tokenizer.from_str(json.dumps(self._settings | {"added_tokens": added}))
        library.encode_special_tokens = True
        return library
