"""Pieces with probabilities, of which the likeliest row is taken (Kudo, 2018), as ALBERT and XLM-R have them.

A word carries the space in front of it, written as `▁`.
"""

import json
from collections.abc import Iterable, Sequence

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from patchword.data.text.tokenizers.encoding import SPACES
from patchword.data.text.tokenizers.vocabulary_training import Casing, Learned, alphabet, counted, repeated

SPECIALS = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")  # as ALBERT writes and numbers them
MARK = "▁"
_STEP = 1e-4  # between the scores that the trainer gives to letters it has none for
_DIGITS = 6  # of a score


def unigram(entries: Sequence[str], scores: Sequence[float], casing: Casing) -> Tokenizer:
    """ALBERT's rules over a vocabulary that begins with SPECIALS."""
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


def learn_unigram(texts: Iterable[str], vocabulary: int, casing: Casing) -> Learned:
    """The entries: specials, then pieces by their score."""
    normal = _normalizer(casing)
    counts = counted(texts, SPACES, lambda word: normal.normalize_str(word).split())
    letters, _, characters, unknown = alphabet(counts, vocabulary, len(SPECIALS) + len(MARK), marked=False)
    trainer = trainers.UnigramTrainer(
        vocab_size=vocabulary, special_tokens=list(SPECIALS), unk_token="<unk>", show_progress=False
    )
    library = Tokenizer(models.Unigram())
    library.pre_tokenizer = _splitter()
    library.train_from_iterator(repeated(counts, letters), trainer)
    pieces = _settled(json.loads(library.to_str())["model"]["vocab"][len(SPECIALS) :])
    entries = (*SPECIALS, *(piece for piece, _ in pieces))
    scores = (*(0.0 for _ in SPECIALS), *(score for _, score in pieces))
    return Learned(entries, len(counts), characters, unknown, scores=scores)


def _settled(pieces: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """Equal for equal texts: the trainer adds up in any order, and gives letters without a score one by chance."""
    least = min(score for _, score in pieces)
    letters = sum(len(piece) == 1 for piece, _ in pieces)

    def score_of(piece: str, score: float) -> float:
        steps = (score - least) / _STEP
        by_chance = len(piece) == 1 and steps < letters and abs(steps - round(steps)) < 1e-6
        return round(least if by_chance else score, _DIGITS)

    found = [(piece, score_of(piece, score)) for piece, score in pieces]
    return sorted(found, key=lambda one: (-one[1], one[0]))
