"""The entries of a tokenizer's vocabulary: ids and names, special tokens, word boundaries."""

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from numpy.typing import ArrayLike, NDArray

from patchword.core.errors import UserError
from patchword.core.files import write_text
from patchword.data.text.tokenizers.saving import save_other, save_wordpiece
from patchword.data.text.tokenizers.special_tokens import ENDS, KNOWN, ending, mark_special, named, specials_of
from patchword.data.text.tokenizers.template import Frame, frame_in, usual_frame
from patchword.data.text.tokenizers.vocabulary_training import Casing
from patchword.data.text.tokenizers.word_boundaries import Flags, Marks, marks_of


class TokenVocabulary:
    """The entries of a vocabulary. cls, sep, pad, unknown, mask, end: ids of special tokens, None if missing."""

    def __init__(
        self, library: tokenizers.Tokenizer, names: Mapping[str, str] | None = None, origin: str = "the tokenizer"
    ) -> None:
        """names: special tokens with unusual names, by Hugging Face's fields (cls_token ...)."""
        library.no_truncation()
        library.no_padding()
        library.encode_special_tokens = True
        self._library, self._origin, self._names = library, origin, dict(names or {})
        self._found = specials_of(library, self._names, origin)
        self.cls, self.sep, self.pad, self.unknown, self.mask = self._found
        self.end = ending(library.get_vocab(), self._names)
        self.vocabulary = max(library.get_vocab().values()) + 1
        mark_special(library, self._found)
        added = library.get_added_tokens_decoder()
        marked = {number for number, token in added.items() if token.special}
        self.specials = tuple(sorted(marked | {number for number in self._found if number is not None}))
        normal = library.normalizer
        self.casing: Casing = "uncased" if normal is not None and "A" not in normal.normalize_str("A") else "cased"

    def words_of(self, ids: ArrayLike) -> NDArray[np.int32]:
        """Return the word index of each token, from the ids alone; a special token counts as a word."""
        numbers = np.asarray(ids, np.int64)
        starts: Flags = ~self.continues[numbers]
        starts[:1] = True
        if self._ending is not None:
            starts[1:] = self._ending[numbers[:-1]]
        return np.cumsum(starts, dtype=np.int32) - 1

    def decode(self, ids: ArrayLike) -> str:
        """Return readable text without special tokens; spaces are placed by rule, not as in the original text."""
        return self._library.decode(np.asarray(ids, np.int64).tolist(), skip_special_tokens=True)

    def tokens(self, ids: ArrayLike) -> list[str]:
        found = [self._library.id_to_token(number) for number in np.asarray(ids, np.int64).tolist()]
        return ["" if token is None else token for token in found]

    def written(self, ids: ArrayLike) -> list[str]:
        """Return tokens as they appear in text: `ing` for `##ing`, `the` for `Ġthe`."""
        return [self._marks.written(token) for token in self.tokens(ids)]

    def id_of(self, token: str) -> int | None:
        return self._library.token_to_id(token)

    def require_mask(self) -> int:
        if self.mask is None:
            raise UserError(
                f"{self._origin} has no [MASK]",
                hint="masked words need a vocabulary with this entry; models that read left to right have none",
            )
        return self.mask

    @cached_property
    def continues(self) -> NDArray[np.bool_]:
        """Return True for entries that continue a word, (vocabulary,): `##ing`, or `ing` after `Ġwalk`.

        If the vocabulary marks word ends instead, all are False; use `words_of` for sequences.
        """
        found = self._marks.continues(self._library.get_vocab(), self._apart)
        if self.spaced and self.unknown is not None:
            found[self.unknown] = True  # the space before it is a token of its own
        return found

    @cached_property
    def frame(self) -> Frame:
        """The special tokens around a text and around a pair of texts."""
        declared = frame_in(self._settings["post_processor"], self._origin)
        return declared or usual_frame(self._library.get_vocab(), self.cls, self.sep, self.end)

    @property
    def spaced(self) -> bool:
        """True if a word in the middle of a text includes its space, so that alone it has other tokens."""
        return self._marks.spaced

    @property
    def placeholder(self) -> int:
        """The id that replaces a text or a word without tokens."""
        return next((number for number in (self.unknown, self.pad, self.end) if number is not None), 0)

    def fingerprint(self) -> str:
        """Return a hash that changes if any text could be split differently or a special token has another id."""
        rules = [self._settings[name] for name in ("normalizer", "pre_tokenizer", "model", "added_tokens")]
        return hashlib.sha256(json.dumps([rules, self._found], sort_keys=True).encode()).hexdigest()

    def save(self, folder: Path) -> None:
        """Save in Hugging Face's format.

        tokenizer.json is preferred and written last: readers find the old or the new one.
        """
        entries = self._library.get_vocab()
        fields = KNOWN if self._is_bert else {**KNOWN, **ENDS}
        names = {field: name for field in fields if (name := named(field, entries, self._names))}
        if self._is_bert:
            save_wordpiece(
                folder, names, self.tokens(range(self.vocabulary)), self._settings["normalizer"], self.casing
            )
        else:
            save_other(folder, names, entries, self._settings["model"], self._marks)
        write_text(folder / "tokenizer.json", self._library.to_str(pretty=True))

    @cached_property
    def _settings(self) -> dict[str, Any]:
        return dict(json.loads(self._library.to_str()))

    @cached_property
    def _marks(self) -> Marks:
        return marks_of(self._settings)

    @cached_property
    def _apart(self) -> list[int]:
        """Return the ids of added and special tokens."""
        return [*self._library.get_added_tokens_decoder(), *self.specials]

    @cached_property
    def _ending(self) -> Flags | None:
        return self._marks.ending(self._library.get_vocab(), self._apart)

    @property
    def _is_bert(self) -> bool:
        kinds = (self._settings[name] or {} for name in ("model", "normalizer", "pre_tokenizer"))
        return [kind.get("type") for kind in kinds] == ["WordPiece", "BertNormalizer", "BertPreTokenizer"]
