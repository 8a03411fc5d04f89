"""Metrics of question answering: exact match and F1 as in SQuAD, and for Chinese as in CMRC 2018."""

import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import torch
from torch import Tensor

_ENGLISH_MARKS = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
# The punctuation that CMRC 2018 removes. ASCII full stops and commas stay, because they occur in numbers.
_CHINESE_MARKS = str.maketrans("", "", "-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")
_CHINESE_PIECE = re.compile(r"[一-龥]|[^\W一-龥]+(?:[.,'][^\W一-龥]+)*|[^\w\s]")


@dataclass(frozen=True)
class Language:
    """How answers are compared. normal: normalizes an answer. pieces: splits it into words or characters."""

    normal: Callable[[str], str]
    pieces: Callable[[str], list[str]]
    shared: Callable[[list[str], list[str]], int]  # number of pieces that two answers have in common


def english(text: str) -> str:
    """Normalize as SQuAD does: lower case, without punctuation, articles and repeated spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_ENGLISH_MARKS)).split())


def chinese(text: str) -> str:
    """Normalize as CMRC 2018 does: lower case, without punctuation."""
    return text.lower().strip().translate(_CHINESE_MARKS)


def _bag(left: list[str], right: list[str]) -> int:
    return (Counter(left) & Counter(right)).total()


def _run(left: list[str], right: list[str]) -> int:
    """Return the length of the longest common run of pieces, which CMRC counts."""
    return SequenceMatcher(None, left, right, autojunk=False).find_longest_match().size


ENGLISH = Language(english, lambda text: english(text).split(), _bag)
CHINESE = Language(chinese, lambda text: _CHINESE_PIECE.findall(chinese(text)), _run)  # characters; words if Latin


def exact_match(predicted: str, answers: Sequence[str], language: Language = ENGLISH) -> float:
    """Return 1 if the prediction is one of the answers, else 0. Without answers, "" is correct."""
    return max(float(language.normal(predicted) == language.normal(answer)) for answer in _kept(answers, language))


def answer_f1(predicted: str, answers: Sequence[str], language: Language = ENGLISH) -> float:
    """Return the highest F1 of the prediction over the answers. If one side is empty: 1 if both are, else 0."""
    ours = language.pieces(predicted)
    return max(_f1(ours, language.pieces(answer), language) for answer in _kept(answers, language))


@dataclass(frozen=True)
class AnswerScores:
    """The scores per question, each (questions,) float64."""

    exact: Tensor
    f1: Tensor
    impossible: Tensor  # (questions,) bool: SQuAD 2.0 has questions without an answer

    def summary(self) -> dict[str, float]:
        """Return the means; also over answerable and over unanswerable questions, if both occur."""
        parts = {"": torch.ones_like(self.impossible)}
        if self.impossible.any() and not self.impossible.all():
            parts |= {"answerable-": ~self.impossible, "impossible-": self.impossible}
        return {
            f"{part}{name}": float(values[chosen].mean()) if len(values) else 0.0
            for part, chosen in parts.items()
            for name, values in (("exact", self.exact), ("f1", self.f1))
        }


def score_answers(
    predictions: Mapping[str, str], answers: Mapping[str, Sequence[str]], language: Language = ENGLISH
) -> AnswerScores:
    """Score predictions against answers, both by question id.

    A question without answers is unanswerable: "" is correct. A question without a prediction counts as wrong.
    """
    exact = [
        exact_match(predictions[id], texts, language) if id in predictions else 0.0 for id, texts in answers.items()
    ]
    f1 = [answer_f1(predictions[id], texts, language) if id in predictions else 0.0 for id, texts in answers.items()]
    return AnswerScores(
        torch.tensor(exact, dtype=torch.float64),
        torch.tensor(f1, dtype=torch.float64),
        torch.tensor([not texts for texts in answers.values()], dtype=torch.bool),
    )


def _kept(answers: Sequence[str], language: Language) -> Sequence[str]:
    """Remove answers that are empty after normalization ("the"), as SQuAD 2.0 does."""
    return [answer for answer in answers if language.normal(answer)] or [""]


def _f1(ours: list[str], theirs: list[str], language: Language) -> float:
    if not ours or not theirs:
        return float(ours == theirs)
    return 2 * language.shared(ours, theirs) / (len(ours) + len(theirs))
