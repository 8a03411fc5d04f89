"""The texts of one data split, with their objective and their scores."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.data.text.batching.batches import IGNORE, Examples
from patchword.data.text.batching.question_windows import Windows
from patchword.data.text.batching.ragged import Ragged
from patchword.data.text.formats.conll import Sentence
from patchword.objectives.metrics.answer_search import Answers, Spans, Window, best_spans, merge_windows
from patchword.objectives.metrics.answers import Language, score_answers
from patchword.objectives.metrics.tag_spans import are_span_tags, span_scores
from patchword.objectives.text import AnswerSpan, TokenTags
from patchword.recipes.text.inference.outputs import Outputs
from patchword.training.step import Objective


@dataclass(frozen=True)
class Judged:
    """Scores of the answers. answers: one per row of the file, in the form of the task."""

    loss: float
    measures: dict[str, float]
    answers: Any


class TextSet(Protocol):
    @property
    def examples(self) -> Examples: ...

    def objective(self, forward: Callable[[Any], Any], device: torch.device) -> Objective: ...

    def judge(self, outputs: Outputs) -> Judged: ...


@dataclass(frozen=True)
class TagSet:
    """One tag per word. words: for each token the index of the word that begins there, IGNORE elsewhere."""

    sentences: tuple[Sentence, ...]
    examples: Examples
    words: Ragged
    labels: tuple[str, ...]

    def objective(self, forward: Callable[[Any], Any], device: torch.device) -> Objective:
        return TokenTags(forward)

    def judge(self, outputs: Outputs) -> Judged:
        scores = torch.cat(outputs)
        targets = self.examples.targets
        assert targets is not None, "tags are targets of tokens"
        asked = targets.values != IGNORE
        loss = F.cross_entropy(scores[asked], targets.values[asked].long())
        tags = self.tags(scores)
        right = sum(a == b for found, true in self._pairs(tags) for a, b in zip(found, true, strict=True))
        measures = {"accuracy": right / sum(len(sentence.words) for sentence in self.sentences)}
        if are_span_tags(self.labels):
            spans = span_scores(tags, [sentence.tags for sentence in self.sentences])
            measures |= {"f1": spans.overall.f1, "precision": spans.overall.precision, "recall": spans.overall.recall}
        return Judged(float(loss), measures, tags)

    def tags(self, scores: Tensor) -> list[list[str]]:
        """Return the predicted tag of each word of each sentence, taken at the word's first token.

        outputs: (tokens, tags) per text.
        """
        best = scores.argmax(-1).tolist()
        found = [[self.labels[0]] * len(sentence.words) for sentence in self.sentences]
        owners = self.examples.owner.repeat_interleave(self.examples.ids.lengths).tolist()
        for owner, word, tag in zip(owners, self.words.values.tolist(), best, strict=True):
            if word != IGNORE:
                found[owner][word] = self.labels[tag]
        return found

    def _pairs(self, tags: Sequence[Sequence[str]]) -> list[tuple[Sequence[str], Sequence[str]]]:
        return [(found, sentence.tags) for found, sentence in zip(tags, self.sentences, strict=True)]


@dataclass(frozen=True)
class SpanSet:
    """An answer span in a context per question."""

    windows: Windows
    language: Language

    @property
    def examples(self) -> Examples:
        return self.windows.examples

    def objective(self, forward: Callable[[Any], Any], device: torch.device) -> Objective:
        return AnswerSpan(forward)

    def judge(self, outputs: Outputs) -> Judged:
        labels = self.examples.labels
        assert labels is not None, "windows have the positions of their answers"
        pairs = zip(outputs, labels, strict=True)
        losses = [F.cross_entropy(scores.T, label) for scores, label in pairs]
        found = self.answers(outputs)
        questions = self.windows.questions
        texts = {question.id: _answer_text(answer) for question, answer in zip(questions, found, strict=True)}
        truth = {question.id: [answer.text for answer in question.answers] for question in questions}
        scored = score_answers(texts, truth, self.language)
        return Judged(float(torch.stack(losses).mean()), scored.summary(), found)

    def answers(self, outputs: Outputs) -> list[Answers]:
        """Return the best answers to each question, over all its windows."""
        can_be_none = any(question.impossible for question in self.windows.questions)
        grouped: list[list[Window]] = [[] for _ in self.windows.questions]
        for number, scores in enumerate(outputs):
            starts, ends = self.windows.starts.row(number), self.windows.ends.row(number)
            spans: Spans = best_spans(scores[:, 0], scores[:, 1], starts != IGNORE)
            null = float(scores[0].sum()) if can_be_none else None
            grouped[int(self.examples.owner[number])].append(Window(spans, starts, ends, null))
        questions = self.windows.questions
        return [merge_windows(question.context, group) for question, group in zip(questions, grouped, strict=True)]


def _answer_text(found: Answers) -> str:
    answer = found.answer()
    return "" if answer is None else answer.text
