"""Evaluates word vectors on analogies: A is to B as C is to D (Mikolov et al., 2013)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from patchword.core.errors import UserError
from patchword.recipes.vectors.words import WordVectors

Question = tuple[str, str, str, str]


@dataclass(frozen=True)
class SectionScore:
    """correct: questions whose nearest word is D. known: those of which all four words have a vector."""

    section: str
    correct: int
    known: int
    total: int

    @property
    def accuracy(self) -> float:
        """The share of correct answers among the known questions."""
        return self.correct / max(1, self.known)


def read_analogies(path: Path) -> dict[str, list[Question]]:
    """Read word2vec's format, as questions by section: `: SECTION` begins a section, other lines have four words."""
    found: dict[str, list[Question]] = {}
    name = path.stem
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}", expected="a text file of analogies", got=str(error)) from None
    for number, line in enumerate(lines, 1):
        match line.split():
            case [] | [":"]:
                continue
            case _ if line.startswith(":"):
                name = line[1:].strip()
            case [a, b, c, d]:
                found.setdefault(name, []).append((a, b, c, d))
            case _:
                raise UserError(f"{path}, line {number}: not an analogy", expected="four words", got=repr(line[:80]))
    if not found:
        raise UserError(f"{path} has no analogies", expected="lines of four words")
    return found


def solve(vectors: WordVectors, analogies: dict[str, list[Question]]) -> list[SectionScore]:
    """Answer every question whose words all have vectors; return the score of each section."""
    return [_section(vectors, name, questions) for name, questions in analogies.items()]


def summed(scores: Sequence[SectionScore]) -> SectionScore:
    """Return the score over all sections."""
    correct, known, total = (sum(getattr(one, name) for one in scores) for name in ("correct", "known", "total"))
    return SectionScore("all", correct, known, total)


def _section(vectors: WordVectors, name: str, questions: Sequence[Question]) -> SectionScore:
    known = [[vectors.numbers[word] for word in one] for one in questions if all(word in vectors for word in one)]
    if not known:
        return SectionScore(name, 0, 0, len(questions))
    first, second, third, fourth = np.array(known).T
    unit = vectors.unit
    cosines = (unit[second] - unit[first] + unit[third]) @ unit.T
    for given in (first, second, third):  # the words of the question are no answers
        cosines[np.arange(len(known)), given] = -np.inf
    return SectionScore(name, int((cosines.argmax(1) == fourth).sum()), len(known), len(questions))
