"""The configuration of a vocabulary to be trained: WordPiece, byte-level, unigram or news."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import tokenizers

from patchword.core.errors import UserError
from patchword.data.progress import Progress, no_progress
from patchword.data.text.formats.news import MARKS, read_articles
from patchword.data.text.tokenizers.byte_pair import learn_bytes, over_bytes
from patchword.data.text.tokenizers.unigram import learn_unigram, unigram
from patchword.data.text.tokenizers.vocabulary_training import Casing, TrainedVocabulary, VocabularyKind, texts_in
from patchword.data.text.tokenizers.wordpiece import learn, wordpiece

LEAST = 2  # default minimum count of a piece


@dataclass(frozen=True)
class VocabularyConfig:
    """A vocabulary to train. casing: None is the default of its kind. least: minimum count of a piece."""

    kind: VocabularyKind = "wordpiece"
    vocabulary: int = 30_000
    casing: Casing | None = None
    least: int | None = None

    def __post_init__(self) -> None:
        if self.kind in ("bytes", "news") and self.casing == "uncased":
            raise UserError("byte-level vocabularies are cased", expected="cased, or another kind", got="uncased")
        if self.kind == "unigram" and self.least is not None:
            raise UserError("unigram pieces are chosen by probability", expected="no minimum count", got=self.least)

    def from_files(self, files: Sequence[Path], progress: Progress = no_progress) -> TrainedVocabulary:
        """Train on text files, .jsonl files, or folders of them. progress: called with bytes (read, total)."""
        return self.from_texts(self.texts(files, progress))

    def texts(self, files: Sequence[Path], progress: Progress = no_progress) -> Iterator[str]:
        """Yield the texts of files, as models of this kind read them."""
        if self.kind == "news":
            return (text for path in files for article in read_articles(path) for text in article.values())
        return texts_in(files, progress)

    def from_texts(self, texts: Iterable[str]) -> TrainedVocabulary:
        if self.kind == "bytes":
            return learn_bytes(texts, self.vocabulary, self.least or LEAST)
        if self.kind == "news":
            return learn_bytes(texts, self.vocabulary, self.least or LEAST, MARKS)
        if self.kind == "unigram":
            return learn_unigram(texts, self.vocabulary, self.casing or "uncased")
        return learn(texts, self.vocabulary, self.casing or "uncased", self.least or LEAST)

    def library(self, learned: TrainedVocabulary) -> tokenizers.Tokenizer:
        if self.kind in ("bytes", "news"):
            return over_bytes({entry: number for number, entry in enumerate(learned.entries)}, learned.merges)
        if self.kind == "unigram":
            return unigram(learned.entries, learned.scores, self.casing or "uncased")
        return wordpiece(learned.entries, self.casing or "uncased")
