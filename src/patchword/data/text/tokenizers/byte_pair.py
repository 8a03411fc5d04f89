"""Byte-pair encoding: over bytes (GPT-2, RoBERTa, Grover) and over letters (GPT-1, XLM).

Over bytes no text is unknown; a word includes the preceding space, written as `Ġ`. Over letters the last piece of a
word ends in `</w>`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from patchword.core.errors import UserError
from patchword.data.text.tokenizers.encoding import WORD_BREAK, repair_surrogates, split_text
from patchword.data.text.tokenizers.special_tokens import ENDS, KNOWN, named
from patchword.data.text.tokenizers.vocabulary_training import Casing, TrainedVocabulary, no_text

SPECIALS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")  # RoBERTa's, with its ids except for the mask
ENDING = "</w>"
_BYTES = 256

Merges = Sequence[tuple[str, str]]


def over_bytes(
    vocabulary: Mapping[str, int], merges: Merges, names: Mapping[str, str] | None = None, prefix: bool = False
) -> Tokenizer:
    """Build a tokenizer with the rules of RoBERTa and GPT-2.

    prefix: prepend a space to the first word of a text, too.
    """
    library = Tokenizer(models.BPE(dict(vocabulary), list(merges)))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    library.decoder = decoders.ByteLevel()
    add_specials(library, names or {})
    cls, sep = (named(field, vocabulary, names or {}) for field in ("cls_token", "sep_token"))
    library.post_processor = processors.ByteLevel(trim_offsets=True)
    if cls is not None and sep is not None:
        tokens = (sep, vocabulary[sep]), (cls, vocabulary[cls])
        library.post_processor = processors.RobertaProcessing(*tokens, trim_offsets=True, add_prefix_space=prefix)
    return library


def over_letters(
    vocabulary: Mapping[str, int], merges: Merges, names: Mapping[str, str] | None = None, casing: Casing = "uncased"
) -> Tokenizer:
    """Build a tokenizer with the rules of GPT-1, or of XLM if the vocabulary has its tokens. Words are split as in
    BERT.

    XLM's own code used one tokenizer per language, which keeps some punctuation marks with their words.
    """
    lower, xlm = casing == "uncased", "<special1>" in vocabulary
    unknown = named("unk_token", vocabulary, names or {})
    library = Tokenizer(models.BPE(dict(vocabulary), list(merges), unk_token=unknown, end_of_word_suffix=ENDING))
    library.normalizer = normalizers.BertNormalizer(handle_chinese_chars=not xlm, strip_accents=lower, lowercase=lower)
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    library.decoder = decoders.BPEDecoder(suffix=ENDING)
    add_specials(library, names or {})
    begin, sep = (named(field, vocabulary, names or {}) for field in ("bos_token", "sep_token"))
    if xlm and begin is not None and sep is not None:
        numbers = [(begin, vocabulary[begin]), (sep, vocabulary[sep])]
        library.post_processor = processors.TemplateProcessing(
            f"{begin} $A {sep}", f"{begin} $A {sep} $B:0 {sep}", numbers
        )
    return library


def add_specials(library: Tokenizer, names: Mapping[str, str]) -> None:
    """Add the special tokens of the vocabulary. The mask includes the preceding space, as a word in its place does."""
    vocabulary = library.get_vocab()
    for field in (*KNOWN, *ENDS):
        if name := named(field, vocabulary, names):
            library.add_special_tokens([AddedToken(name, lstrip=field == "mask_token", normalized=False)])


def learn_bytes(texts: Iterable[str], vocabulary: int, least: int = 2, marks: Sequence[str] = ()) -> TrainedVocabulary:
    """Learn a byte-level vocabulary: special tokens, marks, bytes, then pieces in the order of their merges.

    marks: entries that text never produces, such as the field tokens of news articles.
    """
    smallest = len(SPECIALS) + len(marks) + _BYTES
    if vocabulary < smallest:
        raise UserError(f"a vocabulary of {vocabulary:,} is too small", expected=f"at least {smallest}: all bytes")
    words, count = set[int](), 0

    def counting() -> Iterator[str]:
        nonlocal count
        for text in texts:
            for _, part in split_text(repair_surrogates(text), WORD_BREAK):
                found = part.split()
                words.update(map(hash, found))
                count += sum(map(len, found))
                yield part

    library = Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        min_frequency=least,
        special_tokens=[*SPECIALS, *marks],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    library.train_from_iterator(counting(), trainer)
    if not count:
        raise no_text()
    found = library.get_vocab()
    merges = tuple(merges_of(json.loads(library.to_str())["model"]))
    return TrainedVocabulary(tuple(sorted(found, key=found.__getitem__)), len(words), count, 0, merges)


def merges_of(model: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Read the merges of a tokenizer.json; older files write a pair as one string."""
    pairs = (pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"])
    return [(first, second) for first, second in pairs]
