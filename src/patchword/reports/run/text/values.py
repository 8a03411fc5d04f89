"""What a model that gives labels or numbers to texts got right and wrong."""

import torch
from torch import Tensor

from patchword.recipes.text.evaluation import TextEvaluation
from patchword.recipes.text.tasks.table_sets import LabelsSet, NumberSet, TableSet
from patchword.reports.plots import page, text_figures
from patchword.reports.plots.numbers import counted, percent
from patchword.reports.run.text import attention as text_attention

_LARGEST, _SURE = 12, 8


def number_sections(found: TextEvaluation, texts: NumberSet) -> list[str]:
    truth, answers = texts.truth.double(), torch.as_tensor(found.judged.answers).double()
    errors = (answers - truth).abs()
    told = f"The mean error is {float(errors.mean()):.3g}, half of the errors are below {float(errors.median()):.3g}; "
    told += f"the true numbers reach from {float(truth.min()):g} to {float(truth.max()):g}. "
    told += "The line is where the model is right."
    alternative = f"{counted(len(truth), 'text')}: the number the model gave over the true one."
    svg = text_figures.predicted(truth, answers)
    drawn = page.picture(page.embedded("svg+xml", svg), alternative, kind="card matrix")
    largest = errors.argsort(descending=True, stable=True)[:_LARGEST].tolist()
    html = page.paragraph(text_attention.note(found.model, texts.examples), "note")
    for row in largest:
        true, said = float(truth[row]), float(answers[row])
        html += shown(found, texts, row, f"said <b>{said:.3g}</b>, is <b>{true:.3g}</b>: {said - true:+.3g}")
    return [page.section("Numbers", page.paragraph(told) + drawn), page.section("Largest errors", html)]


def shown(found: TextEvaluation, texts: TableSet, row: int, heading: str) -> str:
    """A row of the table under what the model said of it; the heading is markup."""
    line = f"<small>line {texts.table.lines[row]:,}</small>"
    text = text_attention.attended(found.model, found.tokenizer, texts, row)
    return f'<article class="text"><p class="said">{heading} {line}</p>\n{text}</article>\n'


def label_sections(found: TextEvaluation, texts: LabelsSet) -> list[str]:
    truth, shares = texts.truth.bool(), torch.as_tensor(found.judged.answers)
    said = shares > 0.5
    right, given, true = (flags.sum(0).tolist() for flags in (truth & said, said, truth))
    rows = [score_row(name, *counts) for name, *counts in zip(texts.labels, right, given, true, strict=True)]
    whole = int((truth == said).all(-1).sum())
    told = f"Of {counted(len(truth), f'{found.part} text')}, {whole:,} have all their labels and no other "
    told += f"({percent(whole / len(truth), 1)}). A label is given when the model finds it likelier than not."
    table = page.table("Each label", SCORE_HEAD, rows, kind="classes")
    return [page.section("Each label", page.paragraph(told) + table), _wrong_labels(found, texts, truth, shares)]


SCORE_HEAD = ("name", "F1", "precision", "recall", "count")


def score_row(name: str, right: int, said: int, true: int) -> str:
    """A row of SCORE_HEAD; what has nothing to count is left empty."""
    f1 = 2 * right / (said + true) if said + true else 0.0
    bar = f'<span class="bar"><i style="width:{100 * f1:.1f}%"></i></span> {percent(f1, 1)}' if said + true else ""
    precision, recall = (percent(right / total, 1) if total else "" for total in (said, true))
    return page.row(page.escape(name), bar, precision, recall, f"{true:,}")


def _wrong_labels(found: TextEvaluation, texts: LabelsSet, truth: Tensor, shares: Tensor) -> str:
    """The labels that the model was surest of, wrongly given or wrongly left out."""
    surprise = torch.where(truth, 1 - shares, shares)
    order = surprise.flatten().argsort(descending=True)[:_SURE].tolist()
    html = page.paragraph(text_attention.note(found.model, texts.examples), "note")
    for row, label in (divmod(place, len(texts.labels)) for place in order):
        if surprise[row, label] <= 0.5:
            break
        told = "does not have" if truth[row, label] else "has"
        sure = percent(float(surprise[row, label]), 1)
        heading = f"said that the text {told} the label <b>{page.escape(texts.labels[label])}</b>, {sure} sure"
        html += shown(found, texts, row, heading)
    none = page.paragraph("There are none: every label is right.")
    return page.section("Surest mistakes", html if "<article" in html else none)
