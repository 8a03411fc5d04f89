"""From the scores of a model to answers: the best spans of a window of tokens, and of all windows of a text."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Spans(NamedTuple):
    """The best spans of a window, the best first; where there are fewer, the score is -inf."""

    starts: Tensor  # (..., most) the first token
    ends: Tensor  # (..., most) the last token
    scores: Tensor  # (..., most)


class Window(NamedTuple):
    """One window of a question: its best spans, and where its tokens stand in the context."""

    spans: Spans  # (most,) each
    starts: Tensor  # (tokens,) the first character of each token in the context; anything where no answer may be
    ends: Tensor  # (tokens,) the character after its last
    null: float | None = None  # the score of no answer, that of the span [CLS]..[CLS]; None: there always is one


@dataclass(frozen=True)
class Candidate:
    text: str
    start: int  # characters of the context
    end: int
    score: float  # start score + end score
    probability: float  # among the candidates, no answer being one if the task knows it


@dataclass(frozen=True)
class Found:
    """The answers to one question."""

    candidates: tuple[Candidate, ...]  # the best first, no two the same part of the context
    null: float | None
    null_probability: float

    def answer(self, threshold: float = 0.0) -> Candidate | None:
        """The best, or None for no answer: its score must be above that of no answer less the threshold."""
        if not self.candidates:
            return None
        best = self.candidates[0]
        return best if self.null is None or self.null - best.score <= threshold else None


def best_spans(start_scores: Tensor, end_scores: Tensor, allowed: Tensor, longest: int = 30, most: int = 20) -> Spans:
    """Every span of up to `longest` tokens is looked at, in one table (..., tokens, longest).

    start_scores, end_scores: (..., tokens). allowed: (..., tokens) bool, the tokens of the context. Leading
    dimensions are windows.
    """
    tokens = start_scores.shape[-1]
    width = min(longest, tokens)
    starts = start_scores.float().masked_fill(~allowed, -math.inf)
    ends = F.pad(end_scores.float().masked_fill(~allowed, -math.inf), (0, width - 1), value=-math.inf)
    table = (starts[..., None] + ends.unfold(-1, width, 1)).flatten(-2)
    best = table.topk(min(most, tokens * width), dim=-1)
    first = best.indices // width
    return Spans(first, (first + best.indices % width).clamp_max(tokens - 1), best.values)


def merge_windows(context: str, windows: Sequence[Window], most: int = 20) -> Found:
    """The best answers over the windows of one question, as parts of the context.

    A part that two windows propose counts once, with its better score, whichever of them sees more around it (BERT's
    script asks the one that does). No answer counts as much as in the window that believes in it least, since the
    others may not see the answer.
    """
    scores: dict[tuple[int, int], float] = {}
    for window in windows:
        for part, score in _parts(window):
            scores[part] = max(score, scores.get(part, -math.inf))
    ranked = sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:most]
    nulls = [window.null for window in windows if window.null is not None]
    null = min(nulls) if nulls else None
    shares = _softmax([score for _, score in ranked] + ([] if null is None else [null]))
    found = (
        Candidate(context[start:end], start, end, score, share)
        for ((start, end), score), share in zip(ranked, shares, strict=False)
    )
    return Found(tuple(found), null, 0.0 if null is None else shares[-1])


def _parts(window: Window) -> list[tuple[tuple[int, int], float]]:
    """the characters of each span that exists, and its score"""
    real = window.spans.scores.isfinite().cpu()
    starts = torch.as_tensor(window.starts)[window.spans.starts.cpu()[real]].tolist()
    ends = torch.as_tensor(window.ends)[window.spans.ends.cpu()[real]].tolist()
    scores = window.spans.scores.cpu()[real].tolist()
    return [((start, end), score) for start, end, score in zip(starts, ends, scores, strict=True) if start < end]


def _softmax(scores: list[float]) -> list[float]:
    return torch.tensor(scores, dtype=torch.float64).softmax(0).tolist() if scores else []
