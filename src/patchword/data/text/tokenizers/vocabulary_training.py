"""Parts of vocabulary training that all kinds of vocabularies share."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from patchword.core.errors import UserError
from patchword.data.faults import attempt
from patchword.data.progress import Progress
from patchword.data.text.corpus.documents import document_format, passages, text_files
from patchword.data.text.tokenizers.encoding import repair_surrogates, split_text

VocabularyKind = Literal["wordpiece", "bytes", "unigram", "news"]
Casing = Literal["cased", "uncased"]
LONGEST = 100  # characters of a word; longer ones are ignored
_ESSENTIAL = 0.9995  # fraction of all characters that must have an entry
_WANTED = 0.9999  # fraction that should have one if the vocabulary has room
_COUNTED = 2**25  # characters read before their words are normalised
_LETTERS = 1000  # letters kept if there is room, however rare; BERT's number


@dataclass(frozen=True)
class TrainedVocabulary:
    """A trained vocabulary and statistics of its text.

    words: number of distinct words. characters: number without white space. unknown: characters without an entry.
    merges: byte-pair merges, first learned first. scores: log-probabilities of unigram entries.
    """

    entries: tuple[str, ...]
    words: int
    characters: int
    unknown: int
    merges: tuple[tuple[str, str], ...] = ()
    scores: tuple[float, ...] = ()


def texts_in(files: Sequence[Path], progress: Progress) -> Iterator[str]:
    """Yield the passages of text files, .jsonl files, or folders of them. progress: called with bytes (read, total)."""
    found = text_files(files)
    sizes = [path.stat().st_size for path in found]
    before, reported = 0, 0
    for path, size in zip(found, sizes, strict=True):
        form = attempt(document_format, path)
        for passage in passages(path, form) if form is not None else ():
            yield passage.text
            if (done := before + passage.read) > reported + 2**18:
                progress(done, sum(sizes))
                reported = done
        before += size
    progress(before, before)


def no_text() -> UserError:
    return UserError("no text to train a tokenizer on", expected="at least one word")


def count_words(texts: Iterable[str], place: re.Pattern[str], words: Callable[[str], Iterable[str]]) -> Counter[str]:
    """Count words. Written words are counted first and normalised afterwards, since there are far fewer of them.

    place: where a long text may be split. words: normalises and splits a written word.
    """
    written, found, size = Counter[str](), Counter[str](), 0

    def settle() -> None:
        for word, count in written.items():
            for piece in words(word):
                found[piece] += count
        written.clear()

    for text in texts:
        for _, part in split_text(repair_surrogates(text), place):
            written.update(part.split())
            size += len(part)
            if size > _COUNTED:
                settle()
                size = 0
    settle()
    if not found:
        raise no_text()
    return found


def choose_letters(
    counts: Counter[str], vocabulary: int, specials: int, marked: bool
) -> tuple[set[str], set[str], int, int]:
    """Return the letters with an entry, the letters seen within words, and the counts of all and of unknown characters.

    The most frequent letters are chosen. Those that make up 99.95% of the text must fit; rarer ones use at most half of
    the entries. marked: a letter within a word has a second entry.
    """
    seen, inner = Counter[str](), set[str]()
    for word, count in counts.items():
        for letter in word:
            seen[letter] += count
        inner.update(word[1:])
    letters = sorted(seen, key=lambda letter: (-seen[letter], letter))
    total = seen.total()
    before = np.cumsum([0, *(seen[letter] for letter in letters)]) / total
    rows = specials + np.cumsum([1 + (marked and letter in inner) for letter in letters])
    essential = before[:-1] < _ESSENTIAL
    if rows[essential][-1] > vocabulary:
        raise UserError(
            f"a vocabulary of {vocabulary:,} is too small for the {int(essential.sum()):,} letters of this text",
            expected=f"at least {rows[essential][-1]:,}, better ten times as many",
        )
    wanted = (before[:-1] < _WANTED) | (np.arange(len(letters)) < _LETTERS)
    kept = essential | (wanted & (rows <= vocabulary // 2))
    found = set(letters[: int(kept.sum())])
    return found, inner, total, total - sum(seen[letter] for letter in found)


def repeat_words(counts: Counter[str], letters: set[str]) -> Iterator[str]:
    """Yield each word as often as it occurs, since the library counts; words with unknown letters are skipped."""
    for word, count in sorted(counts.items()):
        if len(word) <= LONGEST and letters.issuperset(word):
            for done in range(0, count, 4096):
                yield f"{word} " * min(4096, count - done)
