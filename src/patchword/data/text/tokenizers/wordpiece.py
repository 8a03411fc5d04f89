"""WordPiece as in BERT, and the training of its vocabulary.

The library's trainer numbers the letters within words in the order of a random hash and breaks ties by these numbers,
so the same text gives a different vocabulary each time. Here words are counted first and every letter gets its id
before the merging starts, so equal texts give equal vocabularies.
"""

from collections.abc import Iterable, Mapping, Sequence

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from patchword.data.text.tokenizers.encoding import BERT_BREAK
from patchword.data.text.tokenizers.special_tokens import KNOWN
from patchword.data.text.tokenizers.vocabulary_training import (
    LONGEST,
    Casing,
    TrainedVocabulary,
    choose_letters,
    count_words,
    repeat_words,
)

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def wordpiece(
    entries: Sequence[str],
    casing: Casing,
    chinese: bool = True,
    accents: bool | None = None,
    names: Mapping[str, str] | None = None,
) -> Tokenizer:
    """Build a tokenizer with the rules of BERT. names: special tokens with unusual names.

    accents: whether accents are removed; None: only if uncased, as in BERT.
    """
    vocabulary = {entry: number for number, entry in enumerate(entries)}
    special = {field: (names or {}).get(field, usual) for field, (usual, *_) in KNOWN.items()}
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
    if (
        cls in vocabulary and sep in vocabulary
    ):  # for other libraries that read saved files; we add the tokens ourselves
        numbers = [(cls, vocabulary[cls]), (sep, vocabulary[sep])]
        pair = f"{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1"
        library.post_processor = processors.TemplateProcessing(f"{cls}:0 $A:0 {sep}:0", pair, numbers)
    return library


def _normalizer(casing: Casing, chinese: bool = True, accents: bool | None = None) -> normalizers.BertNormalizer:
    return normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=chinese, strip_accents=accents, lowercase=casing == "uncased"
    )


def learn(texts: Iterable[str], vocabulary: int, casing: Casing, least: int = 2) -> TrainedVocabulary:
    """Learn a vocabulary: special tokens, letters, letters within words, then pieces in the order of their merges."""
    normal, split = _normalizer(casing), pre_tokenizers.BertPreTokenizer()
    counts = count_words(
        texts, BERT_BREAK, lambda word: (piece for piece, _ in split.pre_tokenize_str(normal.normalize_str(word)))
    )
    letters, inner, characters, unknown = choose_letters(counts, vocabulary, len(SPECIALS), marked=True)
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
    library.train_from_iterator(repeat_words(counts, letters), trainer)
    found = library.get_vocab()
    return TrainedVocabulary(tuple(sorted(found, key=found.__getitem__)), len(counts), characters, unknown)
