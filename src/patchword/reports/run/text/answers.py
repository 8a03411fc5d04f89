"""Results of question answering: by question word and by length, and the most confident errors in their context."""

import re
from collections.abc import Callable

import torch
from torch import Tensor

from patchword.data.text.formats.squad import Question
from patchword.objectives.metrics.answer_search import Answers, Candidate
from patchword.objectives.metrics.answers import CHINESE, AnswerScores, Language, score_answers
from patchword.recipes.text.evaluation import TextEvaluation
from patchword.recipes.text.tasks.sets import SpanSet
from patchword.reports.plots import page
from patchword.reports.plots.numbers import percent
from patchword.reports.run.text.markup import Part, marked, passage

_ERRORS = 12
_WORDS = re.compile(r"\b(who|whom|whose|what|when|where|which|why|how many|how much|how)\b", re.IGNORECASE)
_SAME = {"whom": "who", "whose": "who", "how much": "how many"}
_LENGTHS = ((1, "1"), (2, "2"), (5, "3 to 5"), (10, "6 to 10"), (10**9, "more than 10"))
_HEAD = ("questions", "F1", "exact match", "count")


def answer_sections(found: TextEvaluation, texts: SpanSet) -> list[str]:
    """Return the sections on answers and errors."""
    answers: list[Answers] = found.judged.answers
    questions = texts.windows.questions
    predicted = {question.id: _text(answer) for question, answer in zip(questions, answers, strict=True)}
    truth = {question.id: [answer.text for answer in question.answers] for question in questions}
    scores = score_answers(predicted, truth, texts.language)
    return [_groups(scores, questions, texts.language), _errors(scores, questions, answers)]


def _text(found: Answers) -> str:
    answer = found.answer()
    return "" if answer is None else answer.text


def _groups(scores: AnswerScores, questions: tuple[Question, ...], language: Language) -> str:
    unit = "characters" if language is CHINESE else "words"
    caption = f"By length of the answer, in {unit}"
    by_length = _table(caption, scores, questions, lambda question: answer_length(question, language))
    by_word = "" if language is CHINESE else _table("By question word", scores, questions, question_word)
    about = f"Exact match: the answer is one of the true answers. F1: the overlap in {unit} with the nearest of them."
    return page.section("Answers", page.paragraph(about) + by_word + by_length)


def question_word(question: Question) -> str:
    """Return who, what, when, ..., or other."""
    found = _WORDS.search(question.question)
    word = found[1].lower() if found else "other"
    return _SAME.get(word, word)


def answer_length(question: Question, language: Language) -> str:
    """Return the length class of the shortest true answer."""
    if not question.answers:
        return "no answer"
    shortest = min(len(language.pieces(answer.text)) for answer in question.answers)
    return next(name for most, name in _LENGTHS if shortest <= most)


def _table(
    caption: str, scores: AnswerScores, questions: tuple[Question, ...], group: Callable[[Question], str]
) -> str:
    """Return a table with one row per group, the largest first; lengths in their order."""
    names = [group(question) for question in questions]
    order = sorted(set(names), key=lambda name: (_rank(name), -names.count(name), name))
    rows = []
    for name in order:
        chosen = torch.tensor([other == name for other in names])
        rows.append(_row(name, scores, chosen))
    foot = [_row("all", scores, torch.ones(len(names), dtype=torch.bool))]
    return page.table(caption, _HEAD, rows, foot, kind="classes")


def _rank(name: str) -> int:
    return next((rank for rank, (_, other) in enumerate(_LENGTHS) if other == name), len(_LENGTHS))


def _row(name: str, scores: AnswerScores, chosen: Tensor) -> str:
    f1, exact = (float(values[chosen].mean()) for values in (scores.f1, scores.exact))
    bar = f'<span class="bar"><i style="width:{100 * f1:.1f}%"></i></span> {percent(f1, 1)}'
    return page.row(page.escape(name), bar, percent(exact, 1), f"{int(chosen.sum()):,}")


def _errors(scores: AnswerScores, questions: tuple[Question, ...], answers: list[Answers]) -> str:
    confidence = torch.tensor([_confidence(found) for found in answers])
    worst = ((1 - scores.f1) * confidence).masked_fill(scores.exact > 0, -1.0)
    chosen = [row for row in worst.argsort(descending=True, stable=True)[:_ERRORS].tolist() if worst[row] > 0]
    if not chosen:
        return page.section("Most confident errors", page.paragraph("None: every answer is an exact match."))
    about = "Answers with low overlap and high predicted probability. "
    about += (
        '<mark class="given">The prediction</mark> and <mark class="true">the true answer</mark> are marked in the '
    )
    about += "context."
    html = page.paragraph(about)
    for row in chosen:
        html += _error(questions[row], answers[row].answer(), float(confidence[row]))
    return page.section("Most confident errors", html)


def _confidence(found: Answers) -> float:
    answer = found.answer()
    return found.null_probability if answer is None else answer.probability


def _error(question: Question, predicted: Candidate | None, confidence: float) -> str:
    true = [(answer.start, answer.text) for answer in question.answers if answer.start is not None][:1]
    parts = [Part(start, start + len(text), "true") for start, text in true]
    parts += [Part(predicted.start, predicted.end, "given")] if predicted else []
    names = [question.answers[0].text if question.answers else "", predicted.text if predicted else ""]
    right, given = (f"<b>{page.escape(name)}</b>" if name else "no answer" for name in names)
    result = f"predicted {given}, {percent(confidence, 1)}; true {right}"
    asked = f"<b>{page.escape(question.question)}</b>"
    heading = f'<p class="prediction" dir="auto">{asked}</p>\n<p class="prediction">{result}</p>\n'
    return f'<article class="text">{heading}{passage(marked(question.context, parts))}</article>\n'
