"""WordPiece as BERT has it, and learning its vocabulary.

The library's trainer numbers letters in the order of a random hash, and breaks ties by these numbers: the same text
gives another vocabulary each time. Here words are counted first and every letter gets its number before the merging
starts, so that equal texts give equal vocabularies.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from patchword.core.errors import UserError
from patchword.data.text.corpus import form_of, passages, text_files
from patchword.data.text.pieces import BERT_PLACE, mended, parts_of
from patchword.data.text.special_tokens import KNOWN

Casing = Literal["cased", "uncased"]
Progress = Callable[[int, int], None]  # bytes of text done, bytes in all
SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LONGEST = 100  # characters of a word; longer ones are unknown
_ESSENTIAL = 0.9995  # of all characters read must have an entry
_WANTED = 0.9999  # of them should, if there is room
_LETTERS = 1000  # as many as BERT has are kept if there is room, however rare
_COUNTED = 2**25  # characters read before their words are brought into form


def nothing(done: int, total: int) -> None:
    """Progress that nobody looks at."""


@dataclass(frozen=True)
class Learned:
    """A vocabulary, and what the text was like: its characters without white space, those that got no entry."""

    entries: tuple[str, ...]
    words: int  # different ones
    characters: int
    unknown: int


def wordpiece(
    entries: Sequence[str],
    casing: Casing,
    chinese: bool = True,
    accents: bool | None = None,
    names: Mapping[str, str] | None = None,
) -> Tokenizer:
    """BERT's rules over a vocabulary. `names` are its special tokens where they are not the usual ones.

    `accents` says whether they are removed; None: when uncased, as BERT does.
    """
    vocabulary = {entry: number for number, entry in enumerate(entries)}
    special = {field: (names or {}).get(field, usual) for field, (usual, _) in KNOWN.items()}
    cls, sep, _, unknown, _ = special.values()
    library = Tokenizer(
        models.WordPiece(
            vocabulary, unk_token=unknown, max_input_chars_per_word=LONGEST, continuing_subword_prefix="##"
        )
    )
    library.normalizer = _normalizer(casing, chinese, accents)
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    library.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    library.add_special_tokens([token for token in special.values() if token in vocabulary])
    if cls in vocabulary and sep in vocabulary:  # for other programs that read what we save; we add them ourselves
        numbers = [(cls, vocabulary[cls]), (sep, vocabulary[sep])]
        pair = f"{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1"
        library.post_processor = processors.TemplateProcessing(f"{cls}:0 $A:0 {sep}:0", pair, numbers)
    return library


def _normalizer(casing: Casing, chinese: bool = True, accents: bool | None = None) -> normalizers.BertNormalizer:
    return normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=chinese, strip_accents=accents, lowercase=casing == "uncased"
    )


def learn_from_files(
    files: Sequence[Path], vocabulary: int, casing: Casing, least: int = 2, progress: Progress = nothing
) -> Learned:
    return learn(_texts(text_files(files), progress), vocabulary, casing, least)


def _texts(files: Sequence[Path], progress: Progress) -> Iterator[str]:
    sizes = [path.stat().st_size for path in files]
    before, told = 0, 0
    for path, size in zip(files, sizes, strict=True):
        for passage in passages(path, form_of(path)):
            yield passage.text
            if (done := before + passage.read) > told + 2**18:
                progress(done, sum(sizes))
                told = done
        before += size
    progress(before, before)


def learn(texts: Iterable[str], vocabulary: int, casing: Casing, least: int = 2) -> Learned:
    """The entries: specials, letters, letters within words, then pieces in the order in which they were merged."""
    counts = _count(texts, casing)
    if not counts:
        raise UserError("no text to train a tokenizer on", expected="at least one word")
    letters, inner, characters, unknown = _alphabet(counts, vocabulary)
    entries = [*SPECIALS, *sorted(letters), *(f"##{letter}" for letter in sorted(inner & letters))]
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocabulary,
        min_frequency=least,
        special_tokens=entries,
        limit_alphabet=len(letters),
        continuing_subword_prefix="##",
        show_progress=False,
    )
    library = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    library.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    library.train_from_iterator(_repeated(counts, letters), trainer)
    found = library.get_vocab()
    return Learned(tuple(sorted(found, key=found.__getitem__)), len(counts), characters, unknown)


def _count(texts: Iterable[str], casing: Casing) -> Counter[str]:
    """How often each word is seen. Words are counted as they are written first: far fewer are brought into form."""
    written, words, size = Counter[str](), Counter[str](), 0
    normal, split = _normalizer(casing), pre_tokenizers.BertPreTokenizer()

    def settle() -> None:
        for word, count in written.items():
            for piece, _ in split.pre_tokenize_str(normal.normalize_str(word)):
                words[piece] += count
        written.clear()

    for text in texts:
        for _, part in parts_of(mended(text), BERT_PLACE):
            written.update(part.split())
            size += len(part)
            if size > _COUNTED:
                settle()
                size = 0
    settle()
    return words


def _alphabet(counts: Counter[str], vocabulary: int) -> tuple[set[str], set[str], int, int]:
    """The letters that get an entry, those seen within words, the number of characters, and of those without an entry.

    Most frequent first. Those that make up 99.95% of the text must fit; rarer ones take half of the entries at most.
    """
    seen, inner = Counter[str](), set[str]()
    for word, count in counts.items():
        for letter in word:
            seen[letter] += count
        inner.update(word[1:])
    letters = sorted(seen, key=lambda letter: (-seen[letter], letter))
    total = seen.total()
    before = np.cumsum([0, *(seen[letter] for letter in letters)]) / total
    rows = len(SPECIALS) + np.cumsum([1 + (letter in inner) for letter in letters])
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


def _repeated(counts: Counter[str], letters: set[str]) -> Iterator[str]:
    """The library counts for itself, so each word comes as often as it was seen; what will be unknown does not."""
    for word, count in sorted(counts.items()):
        if len(word) <= LONGEST and letters.issuperset(word):
            for done in range(0, count, 4096):
                yield f"{word} " * min(4096, count - done)
