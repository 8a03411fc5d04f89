"""How good answers to questions on a text are: exact match and F1 of SQuAD, and their Chinese form of CMRC 2018."""

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
# The marks CMRC 2018 strips: no full stop or comma of ASCII, which stand inside numbers.
_CHINESE_MARKS = str.maketrans("", "", "-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")
_CHINESE_PIECE = re.compile(r"[一-龥]|[^\W一-龥]+(?:[.,'][^\W一-龥]+)*|[^\w\s]")


@dataclass(frozen=True)
class Language:
    """What counts as the same answer."""

    normal: Callable[[str], str]
    pieces: Callable[[str], list[str]]
    shared: Callable[[list[str], list[str]], int]  # how many pieces two answers have in common


def english(text: str) -> str:
    """Without capitals, punctuation, articles and surplus space."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_ENGLISH_MARKS)).split())


def chinese(text: str) -> str:
    """Without capitals and punctuation."""
    return text.lower().strip().translate(_CHINESE_MARKS)


def _bag(left: list[str], right: list[str]) -> int:
    return (Counter(left) & Counter(right)).total()


def _run(left: list[str], right: list[str]) -> int:
    """CMRC counts the longest run of pieces that both have."""
    return SequenceMatcher(None, left, right, autojunk=False).find_longest_match().size


ENGLISH = Language(english, lambda text: english(text).split(), _bag)
CHINESE = Language(chinese, lambda text: _CHINESE_PIECE.findall(chinese(text)), _run)  # characters; words if Latin


def exact_match(predicted: str, answers: Sequence[str], language: Language = ENGLISH) -> float:
    """1 if the prediction is one of the answers; no answers means that "" is right."""
    return max(float(language.normal(predicted) == language.normal(answer)) for answer in _kept(answers, language))


def answer_f1(predicted: str, answers: Sequence[str], language: Language = ENGLISH) -> float:
    """The best F1 of the prediction's pieces over the answers; with an empty side, 1 if both are empty, else 0."""
    ours = language.pieces(predicted)
    return max(_f1(ours, language.pieces(answer), language) for answer in _kept(answers, language))


@dataclass(frozen=True)
class AnswerScores:
    """Each (questions,) float64, in the order of the questions."""

    exact: Tensor
    f1: Tensor
    impossible: Tensor  # (questions,) bool: SQuAD 2.0 has questions without an answer

    def summary(self) -> dict[str, float]:
        """The means; also of the questions with and without answers, if there are both."""
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
    """Both by the question's id. No answers: the question is impossible, and "" is right. No prediction: wrong."""
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
    """SQuAD 2.0 drops answers of which nothing is left ("the")."""
    return [answer for answer in answers if language.normal(answer)] or [""]


def _f1(ours: list[str], theirs: list[str], language: Language) -> float:
    if not ours or not theirs:
        return float(ours == theirs)
    return 2 * language.shared(ours, theirs) / (len(ours) + len(theirs))
