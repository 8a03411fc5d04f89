"""Shows how a translation is found: the candidates of every step of the beam search, and the next words of a prefix."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from patchword.core.text import Text
from patchword.layers import Translator
from patchword.objectives.generation.beam_search import Candidate, beam_search, length_penalty
from patchword.objectives.generation.sampling import Generated
from patchword.objectives.generation.translating import TranslatingSteps
from patchword.recipes.translation.data import Languages
from patchword.recipes.translation.search import BEYOND, Search, never_written


@dataclass(frozen=True)
class SearchTrace:
    """A beam search for one text, step by step.

    prefix: the tokens with which the translation starts. steps: the candidates of each step, the best first. texts:
    what was found, the best first, without the prefix. best: the candidate of each step that leads to the best text.
    """

    prefix: tuple[int, ...]
    steps: tuple[tuple[Candidate, ...], ...]
    texts: tuple[Generated, ...]
    best: tuple[int, ...]

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens of the best translation, without the end token."""
        return self.prefix + self.texts[0].tokens


def worth(text: Generated, penalty: float) -> float:
    """Return the score by which a beam search orders finished texts."""
    return text.score / length_penalty(len(text.tokens) + text.ended, penalty)


@torch.inference_mode()
def trace(
    model: Translator, languages: Languages, source: Tensor, search: Search, prefix: Sequence[int] = ()
) -> SearchTrace:
    """Search as `translated` does, and record the search. source: (tokens,) with the end token."""
    steps = _steps(model, languages, source, prefix)
    recorded: list[tuple[Candidate, ...]] = []
    observers = [lambda candidates: recorded.append(tuple(candidates))]
    most = int(steps.room.max())
    found = beam_search(steps, search.beams, most, [languages.end], search.penalty, observers)[0]
    target = (*found[0].tokens, languages.end) if found[0].ended else found[0].tokens
    return SearchTrace(tuple(prefix), tuple(recorded), tuple(found), _path(recorded, target))


@torch.inference_mode()
def next_tokens(
    model: Translator, languages: Languages, source: Tensor, prefix: Sequence[int], top: int
) -> list[tuple[int, float]]:
    """Return the most probable tokens after a prefix of the translation, with their log-probabilities."""
    scores = _steps(model, languages, source, prefix).step()[0]
    values, tokens = scores.topk(min(top, len(scores)))
    return list(zip(tokens.tolist(), values.tolist(), strict=True))


def _steps(model: Translator, languages: Languages, source: Tensor, prefix: Sequence[int]) -> TranslatingSteps:
    text = Text(source.long()[None].to(next(model.parameters()).device))
    never = never_written(model, languages)
    return TranslatingSteps(model, text, languages.begin, prefix=prefix, beyond=BEYOND, never=never)


def _path(steps: Sequence[Sequence[Candidate]], target: Sequence[int]) -> tuple[int, ...]:
    """Return the index of the candidate in each step that leads to the target."""
    beams: list[tuple[int, ...]] = [()]
    path = []
    for length, candidates in zip(range(1, len(target) + 1), steps, strict=False):
        texts = [(*beams[one.beam], one.token) for one in candidates]
        path.append(texts.index(tuple(target[:length])))
        beams = [text for text, one in zip(texts, candidates, strict=True) if one.fate == "kept"]
    return tuple(path)
