"""Find answers in a context: the best spans of each window of tokens, and the best over all windows of a text."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Spans(NamedTuple):
    """The best spans of a window, the best first. Missing spans have the score -inf."""

    starts: Tensor  # (..., most) the first token
    ends: Tensor  # (..., most) the last token
    scores: Tensor  # (..., most)


class Window(NamedTuple):
    """One window of a question: its best spans, and the positions of its tokens in the context."""

    spans: Spans  # (most,) each
    starts: Tensor  # (tokens,) the first character of each token in the context; arbitrary outside the context
    ends: Tensor  # (tokens,) the character after the last one of each token
    null: float | None = None  # the score of "no answer", of the span [CLS]..[CLS]; None: every question has an answer


@dataclass(frozen=True)
class Candidate:
    text: str
    start: int  # characters of the context
    end: int
    score: float  # start score + end score
    probability: float  # softmax over the candidates and, if the task has it, "no answer"


@dataclass(frozen=True)
class Answers:
    """The answers to one question."""

    candidates: tuple[Candidate, ...]  # the best first, each another part of the context
    null: float | None
    null_probability: float

    def answer(self, threshold: float = 0.0) -> Candidate | None:
        """Return the best answer, or None if "no answer" scores higher by more than `threshold`."""
        if not self.candidates:
            return None
        best = self.candidates[0]
        return best if self.null is None or self.null - best.score <= threshold else None


def best_spans(start_scores: Tensor, end_scores: Tensor, allowed: Tensor, longest: int = 30, most: int = 20) -> Spans:
    """Return the best `most` spans of up to `longest` tokens, searched in one table (..., tokens, longest).

    start_scores, end_scores: (..., tokens). allowed: (..., tokens) bool, True for tokens of the context. Leading
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


def merge_windows(context: str, windows: Sequence[Window], most: int = 20) -> Answers:
    """Return the best answers over all windows of one question.

    If two windows propose the same span, the higher score counts. (BERT's script takes the window with more context
    around the span.) The score of "no answer" is the minimum over the windows, because a window may not contain the
    answer.
    """
    scores: dict[tuple[int, int], float] = {}
    for window in windows:
        for part, score in _parts(window):
            scores[part] = max(score, scores.get(part, -math.inf))
    ranked = sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:most]
    nulls = [window.null for window in windows if window.null is not None]
    null = min(nulls) if nulls else None
    probabilities = _softmax([score for _, score in ranked] + ([] if null is None else [null]))
    found = (
        Candidate(context[start:end], start, end, score, probability)
        for ((start, end), score), probability in zip(ranked, probabilities, strict=False)
    )
    return Answers(tuple(found), null, 0.0 if null is None else probabilities[-1])


def _parts(window: Window) -> list[tuple[tuple[int, int], float]]:
    """Return the first and last character of each span that exists, and its score."""
    real = window.spans.scores.isfinite().cpu()
    starts = torch.as_tensor(window.starts)[window.spans.starts.cpu()[real]].tolist()
    ends = torch.as_tensor(window.ends)[window.spans.ends.cpu()[real]].tolist()
    scores = window.spans.scores.cpu()[real].tolist()
    return [((start, end), score) for start, end, score in zip(starts, ends, scores, strict=True) if start < end]


def _softmax(scores: list[float]) -> list[float]:
    return torch.tensor(scores, dtype=torch.float64).softmax(0).tolist() if scores else []
