"""What learning a vocabulary has in common, whatever its pieces are."""

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
from patchword.data.text.corpus.documents import form_of, passages, text_files
from patchword.data.text.tokenizers.encoding import mended, parts_of

Kind = Literal["wordpiece", "bytes", "unigram", "news"]
Casing = Literal["cased", "uncased"]
LONGEST = 100  # characters of a word; longer ones are not learned from
_ESSENTIAL = 0.9995  # of all characters read must have an entry
_WANTED = 0.9999  # of them should, if there is room
_COUNTED = 2**25  # characters read before their words are brought into form
_LETTERS = 1000  # as many as BERT has are kept if there is room, however rare


@dataclass(frozen=True)
class Learned:
    """A vocabulary, and what the text was like: its characters without white space, those that got no entry.

    merges: of pairs of pieces, the first learned first. scores: of the entries, where pieces have a probability.
    """

    entries: tuple[str, ...]
    words: int  # different ones
    characters: int
    unknown: int
    merges: tuple[tuple[str, str], ...] = ()
    scores: tuple[float, ...] = ()


def texts_in(files: Sequence[Path], progress: Progress) -> Iterator[str]:
    """The passages of text files, .jsonl files, or folders of them; the bytes read are told, and the bytes in all."""
    found = text_files(files)
    sizes = [path.stat().st_size for path in found]
    before, told = 0, 0
    for path, size in zip(found, sizes, strict=True):
        form = attempt(form_of, path)
        for passage in passages(path, form) if form is not None else ():
            yield passage.text
            if (done := before + passage.read) > told + 2**18:
                progress(done, sum(sizes))
                told = done
        before += size
    progress(before, before)


def no_text() -> UserError:
    return UserError("no text to train a tokenizer on", expected="at least one word")


def counted(texts: Iterable[str], place: re.Pattern[str], words: Callable[[str], Iterable[str]]) -> Counter[str]:
    """How often each word is seen. Words are counted as they are written first: far fewer are brought into form.

    place: where a long text may be cut. words: what a written word is made into.
    """
    written, found, size = Counter[str](), Counter[str](), 0

    def settle() -> None:
        for word, count in written.items():
            for piece in words(word):
                found[piece] += count
        written.clear()

    for text in texts:
        for _, part in parts_of(mended(text), place):
            written.update(part.split())
            size += len(part)
            if size > _COUNTED:
                settle()
                size = 0
    settle()
    if not found:
        raise no_text()
    return found


def alphabet(counts: Counter[str], vocabulary: int, specials: int, marked: bool) -> tuple[set[str], set[str], int, int]:
    """The letters that get an entry, those seen within words, the number of characters, and of those without an entry.

    Most frequent first. Those that make up 99.95% of the text must fit; rarer ones take half of the entries at most.
    marked: a letter within a word has an entry of its own.
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


def repeated(counts: Counter[str], letters: set[str]) -> Iterator[str]:
    """The library counts for itself, so each word comes as often as it was seen; what will be unknown does not."""
    for word, count in sorted(counts.items()):
        if len(word) <= LONGEST and letters.issuperset(word):
            for done in range(0, count, 4096):
                yield f"{word} " * min(4096, count - done)
