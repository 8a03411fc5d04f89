"""Unigram language model tokenizer (Kudo, 2018): chooses the most probable segmentation, as in ALBERT and XLM-R.

A word includes the preceding space, written as `▁`.
"""

import json
from collections.abc import Iterable, Sequence

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from patchword.data.text.tokenizers.encoding import SPACE_BREAK
from patchword.data.text.tokenizers.vocabulary_training import (
    Casing,
    TrainedVocabulary,
    choose_letters,
    count_words,
    repeat_words,
)

SPECIALS = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")  # ALBERT's names and ids
MARK = "▁"
_STEP = 1e-4  # between the scores that the trainer gives to letters it has none for
_DIGITS = 6  # of a score


def unigram(entries: Sequence[str], scores: Sequence[float], casing: Casing) -> Tokenizer:
    """Build a tokenizer with the rules of ALBERT; the vocabulary begins with SPECIALS."""
    library = Tokenizer(models.Unigram(list(zip(entries, scores, strict=True)), SPECIALS.index("<unk>"), False))
    library.normalizer = _normalizer(casing)
    library.pre_tokenizer = _splitter()
    library.decoder = decoders.Metaspace(MARK)
    library.add_special_tokens([AddedToken(name, lstrip=name == "[MASK]", normalized=False) for name in SPECIALS])
    numbers = [(name, SPECIALS.index(name)) for name in ("[CLS]", "[SEP]")]
    single, pair = "[CLS]:0 $A:0 [SEP]:0", "[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1"
    library.post_processor = processors.TemplateProcessing(single, pair, numbers)
    return library


def _normalizer(casing: Casing) -> normalizers.Sequence:
    plain = [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()]
    return normalizers.Sequence([normalizers.Nmt(), *(plain if casing == "uncased" else [normalizers.NFKC()])])


def _splitter() -> pre_tokenizers.Sequence:
    return pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(MARK)])


def learn_unigram(texts: Iterable[str], vocabulary: int, casing: Casing) -> TrainedVocabulary:
    """Learn a vocabulary: special tokens, then pieces by falling score."""
    normal = _normalizer(casing)
    counts = count_words(texts, SPACE_BREAK, lambda word: normal.normalize_str(word).split())
    letters, _, characters, unknown = choose_letters(counts, vocabulary, len(SPECIALS) + len(MARK), marked=False)
    trainer = trainers.UnigramTrainer(
        vocab_size=vocabulary, special_tokens=list(SPECIALS), unk_token="<unk>", show_progress=False
    )
    library = Tokenizer(models.Unigram())
    library.pre_tokenizer = _splitter()
    library.train_from_iterator(repeat_words(counts, letters), trainer)
    pieces = _settled(json.loads(library.to_str())["model"]["vocab"][len(SPECIALS) :])
    entries = (*SPECIALS, *(piece for piece, _ in pieces))
    scores = (*(0.0 for _ in SPECIALS), *(score for _, score in pieces))
    return TrainedVocabulary(entries, len(counts), characters, unknown, scores=scores)


def _settled(pieces: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """Make scores deterministic: the trainer sums in any order and gives letters without a score a random one."""
    least = min(score for _, score in pieces)
    letters = sum(len(piece) == 1 for piece, _ in pieces)

    def score_of(piece: str, score: float) -> float:
        steps = (score - least) / _STEP
        by_chance = len(piece) == 1 and steps < letters and abs(steps - round(steps)) < 1e-6
        return round(least if by_chance else score, _DIGITS)

    found = [(piece, score_of(piece, score)) for piece, score in pieces]
    return sorted(found, key=lambda one: (-one[1], one[0]))
