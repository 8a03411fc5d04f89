"""Results of a model that predicts labels or numbers for texts."""

import torch
from torch import Tensor

from patchword.recipes.text.evaluation import TextEvaluation
from patchword.recipes.text.tasks.table_sets import LabelsSet, NumberSet, TableSet
from patchword.reports.plots import page, text_figures
from patchword.reports.plots.numbers import counted, percent
from patchword.reports.run.text import attention as text_attention

_LARGEST, _SURE = 12, 8


def number_sections(found: TextEvaluation, texts: NumberSet) -> list[str]:
    """Return the sections on predicted numbers."""
    truth, answers = texts.truth.double(), torch.as_tensor(found.judged.answers).double()
    errors = (answers - truth).abs()
    about = f"The mean error is {float(errors.mean()):.3g}, the median {float(errors.median()):.3g}; "
    about += f"the true values range from {float(truth.min()):g} to {float(truth.max()):g}. "
    about += "Correct predictions are on the line."
    alternative = f"{counted(len(truth), 'text')}: predicted over true values."
    svg = text_figures.predicted(truth, answers)
    drawn = page.figure(page.embedded("svg+xml", svg), alternative, kind="card matrix")
    largest = errors.argsort(descending=True, stable=True)[:_LARGEST].tolist()
    html = page.paragraph(text_attention.note(found.model, texts.examples), "note")
    for row in largest:
        true, predicted = float(truth[row]), float(answers[row])
        heading = f"predicted <b>{predicted:.3g}</b>, true <b>{true:.3g}</b>: {predicted - true:+.3g}"
        html += shown(found, texts, row, heading)
    return [page.section("Numbers", page.paragraph(about) + drawn), page.section("Largest errors", html)]


def shown(found: TextEvaluation, texts: TableSet, row: int, heading: str) -> str:
    """Return a row of the table below its prediction; the heading is markup."""
    line = f"<small>line {texts.table.lines[row]:,}</small>"
    text = text_attention.attended(found.model, found.tokenizer, texts, row)
    return f'<article class="text"><p class="prediction">{heading} {line}</p>\n{text}</article>\n'


def label_sections(found: TextEvaluation, texts: LabelsSet) -> list[str]:
    """Return the sections on predicted labels."""
    truth, probabilities = texts.truth.bool(), torch.as_tensor(found.judged.answers)
    predicted = probabilities > 0.5
    right, given, true = (flags.sum(0).tolist() for flags in (truth & predicted, predicted, truth))
    rows = [score_row(name, *counts) for name, *counts in zip(texts.labels, right, given, true, strict=True)]
    whole = int((truth == predicted).all(-1).sum())
    about = f"Of {counted(len(truth), f'{found.part} text')}, {whole:,} have exactly the true labels "
    about += f"({percent(whole / len(truth), 1)}). A label is predicted if its probability is above 50%."
    table = page.table("Results per label", SCORE_HEAD, rows, kind="classes")
    errors = _wrong_labels(found, texts, truth, probabilities)
    return [page.section("Labels", page.paragraph(about) + table), errors]


SCORE_HEAD = ("name", "F1", "precision", "recall", "count")


def score_row(name: str, right: int, predicted: int, true: int) -> str:
    """Return a row of SCORE_HEAD; undefined scores are left empty."""
    total = predicted + true
    f1 = 2 * right / total if total else 0.0
    bar = f'<span class="bar"><i style="width:{100 * f1:.1f}%"></i></span> {percent(f1, 1)}' if total else ""
    precision, recall = (percent(right / count, 1) if count else "" for count in (predicted, true))
    return page.row(page.escape(name), bar, precision, recall, f"{true:,}")


def _wrong_labels(found: TextEvaluation, texts: LabelsSet, truth: Tensor, probabilities: Tensor) -> str:
    """Return the section on the most confident wrong labels."""
    error = torch.where(truth, 1 - probabilities, probabilities)
    order = error.flatten().argsort(descending=True)[:_SURE].tolist()
    html = page.paragraph(text_attention.note(found.model, texts.examples), "note")
    for row, label in (divmod(place, len(texts.labels)) for place in order):
        if error[row, label] <= 0.5:
            break
        has = "does not have" if truth[row, label] else "has"
        confidence = percent(float(error[row, label]), 1)
        heading = f"predicted that the text {has} the label <b>{page.escape(texts.labels[label])}</b>, {confidence}"
        html += shown(found, texts, row, heading)
    none = page.paragraph("None: every label is correct.")
    return page.section("Most confident errors", html if "<article" in html else none)
