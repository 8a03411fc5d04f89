"""Text into pieces and their numbers, and back. The `tokenizers` library does the work.

Special tokens are never read out of text: "[SEP]" in a user's data is five ordinary characters. Whoever builds a
model's input adds the specials by their ids; `encode_masked` alone knows "[MASK]".
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from numpy.typing import ArrayLike, NDArray

from patchword.core.errors import UserError
from patchword.core.files import write_json, write_text
from patchword.data.text.pieces import ANY_PLACE, BERT_PLACE, SPACES, Encoding, encoded, encoded_words, ids_of
from patchword.data.text.special_tokens import KNOWN, mark_special, specials_of
from patchword.data.text.tokenizer_files import library_of
from patchword.data.text.wordpiece import Casing, Progress, learn, learn_from_files, nothing, wordpiece


class Tokenizer:
    """A vocabulary and the rules that cut text into its entries."""

    def __init__(
        self, library: tokenizers.Tokenizer, names: Mapping[str, str] | None = None, origin: str = "the tokenizer"
    ) -> None:
        """`names` are the special tokens by Hugging Face's fields (cls_token ...), where they are not the usual."""
        library.no_truncation()
        library.no_padding()
        library.encode_special_tokens = True
        self._library, self._origin = library, origin
        self._found = specials_of(library, names or {}, origin)
        self.cls, self.sep, self.pad, self.unknown, self.mask = self._found
        self.vocabulary = max(library.get_vocab().values()) + 1
        mark_special(library, self._found)
        added = library.get_added_tokens_decoder()
        marked = {number for number, token in added.items() if token.special}
        self.specials = tuple(sorted(marked | {number for number in self._found if number is not None}))
        self._place = (BERT_PLACE if self._cuts_marks(added.values()) else SPACES) if self._is_bert else ANY_PLACE
        normal = library.normalizer
        self.casing: Casing = "uncased" if normal is not None and "A" not in normal.normalize_str("A") else "cased"

    @classmethod
    def train(
        cls,
        files: Sequence[Path],
        vocabulary: int = 30_000,
        casing: Casing = "uncased",
        least: int = 2,
        progress: Progress = nothing,
    ) -> "Tokenizer":
        """A WordPiece vocabulary learned from text files, .jsonl files, or folders of them.

        `least` is how often a piece must be seen. `progress` is told the bytes read, and the bytes in all.
        """
        return cls(wordpiece(learn_from_files(files, vocabulary, casing, least, progress).entries, casing))

    @classmethod
    def train_on(
        cls, texts: Iterable[str], vocabulary: int = 30_000, casing: Casing = "uncased", least: int = 2
    ) -> "Tokenizer":
        """A WordPiece vocabulary learned from texts, which are taken once."""
        return cls(wordpiece(learn(texts, vocabulary, casing, least).entries, casing))

    @classmethod
    def read(cls, path: Path, casing: Casing | None = None) -> "Tokenizer":
        """From a folder as Hugging Face writes it, a tokenizer.json, or a vocab.txt.

        A vocab.txt does not say whether it is cased: the settings beside it do, or `casing`, else its entries.
        """
        found = cls(*library_of(Path(path), casing), origin=str(path))
        if casing and casing != found.casing:
            raise UserError(f"{path} has rules of its own", expected=casing, got=found.casing)
        return found

    def encode(self, texts: Sequence[str]) -> list[Encoding]:
        """The pieces of each text, without special tokens. A long text is taken in parts, with the same result."""
        return encoded(self._library, texts, self._place)

    def encode_masked(self, texts: Sequence[str]) -> list[Encoding]:
        """As `encode`, but "[MASK]" in the text is the mask token; all other specials stay ordinary characters."""
        self.require_mask()
        return encoded(self._masked, texts, SPACES if self._is_bert else ANY_PLACE)

    def encode_words(self, sentences: Sequence[Sequence[str]]) -> list[Encoding]:
        """Sentences that are words already. `words` numbers the words given, `starts` and `ends` count within a word.

        A word of which nothing is left, such as a lone control character, is one unknown piece.
        """
        return encoded_words(self._library, sentences, self.unknown)

    def ids_of(self, texts: Sequence[str]) -> list[NDArray[np.int32]]:
        """The ids that `encode` gives, and nothing else: faster, for large amounts of text."""
        return ids_of(self._library, texts, self._place)

    def words_of(self, ids: ArrayLike) -> NDArray[np.int32]:
        """The number of the word that each piece belongs to, by the pieces alone; a special token counts as a word."""
        starts: NDArray[np.bool_] = ~self.continues[np.asarray(ids, np.int64)]
        return np.maximum(np.cumsum(starts, dtype=np.int32) - 1, 0)

    def decode(self, ids: ArrayLike) -> str:
        """Readable text, without the special tokens; spaces are where they usually are, not where they were."""
        return self._library.decode(np.asarray(ids, np.int64).tolist(), skip_special_tokens=True)

    def tokens(self, ids: ArrayLike) -> list[str]:
        found = [self._library.id_to_token(number) for number in np.asarray(ids, np.int64).tolist()]
        return ["" if token is None else token for token in found]

    def id_of(self, token: str) -> int | None:
        return self._library.token_to_id(token)

    def require_mask(self) -> int:
        if self.mask is None:
            raise UserError(f"{self._origin} has no [MASK]", hint="masked words need a vocabulary that has this entry")
        return self.mask

    @cached_property
    def continues(self) -> NDArray[np.bool_]:
        """(vocabulary,) True for pieces that go on with a word, which only WordPiece marks: `##ing`."""
        found = np.zeros(self.vocabulary, np.bool_)
        prefix = self._settings["model"].get("continuing_subword_prefix")
        if self._settings["model"]["type"] == "WordPiece" and prefix:
            vocabulary = self._library.get_vocab()
            found[[number for token, number in vocabulary.items() if token.startswith(prefix)]] = True
        return found

    def fingerprint(self) -> str:
        """Differs when any text could be cut otherwise, or a special token has another number."""
        rules = [self._settings[name] for name in ("normalizer", "pre_tokenizer", "model", "added_tokens")]
        return hashlib.sha256(json.dumps([rules, self._found], sort_keys=True).encode()).hexdigest()

    def save(self, folder: Path) -> None:
        """As Hugging Face reads it. tokenizer.json comes last and is preferred: a reader finds the old or the new."""
        names = {
            field: self.tokens([number])[0]
            for field, number in zip(KNOWN, self._found, strict=True)
            if number is not None
        }
        normal: dict[str, Any] = self._settings["normalizer"] or {}
        settings = {
            "do_lower_case": self.casing == "uncased",
            "tokenize_chinese_chars": normal.get("handle_chinese_chars"),
            "strip_accents": normal.get("strip_accents"),
        }
        kind = {"tokenizer_class": "BertTokenizer" if self._is_bert else "PreTrainedTokenizerFast"}
        write_json(folder / "tokenizer_config.json", kind | names | (settings if self._is_bert else {}))
        if self._is_bert:
            write_text(folder / "vocab.txt", "".join(f"{token}\n" for token in self.tokens(range(self.vocabulary))))
        write_text(folder / "tokenizer.json", self._library.to_str(pretty=True))

    @cached_property
    def _settings(self) -> dict[str, Any]:
        return dict(json.loads(self._library.to_str()))

    def _cuts_marks(self, added: Iterable[tokenizers.AddedToken]) -> bool:
        """Whether punctuation and Chinese characters are always words by themselves: no added token may hold one."""
        return all(token.special for token in added) and bool(self._settings["normalizer"]["handle_chinese_chars"])

    @property
    def _is_bert(self) -> bool:
        kinds = (self._settings[name] or {} for name in ("model", "normalizer", "pre_tokenizer"))
        return [kind.get("type") for kind in kinds] == ["WordPiece", "BertNormalizer", "BertPreTokenizer"]

    @cached_property
    def _masked(self) -> tokenizers.Tokenizer:
        """Specials are passed over in text, so the mask must not be one here."""
        added = [
            token | {"special": token["special"] and token["id"] != self.mask}
            for token in self._settings["added_tokens"]
        ]
        library = tokenizers.Tokenizer.from_str(json.dumps(self._settings | {"added_tokens": added}))
        library.encode_special_tokens = True
        return library
