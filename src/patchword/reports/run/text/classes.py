"""What a classifier of texts got right and wrong."""

from patchword.objectives.metrics.classification import Scores
from patchword.recipes.text.evaluation import TextEvaluation
from patchword.recipes.text.tasks.table_sets import ClassSet
from patchword.reports.plots import page
from patchword.reports.plots.numbers import percent
from patchword.reports.run.class_results import Things, class_section, confusion_section
from patchword.reports.run.text import attention as text_attention
from patchword.reports.run.text.values import shown

_MISTAKES = 12


def class_sections(found: TextEvaluation, texts: ClassSet, scores: Scores) -> list[str]:
    things = Things("text", found.part)
    return [
        confusion_section(scores, things),
        class_section(scores, things),
        _mistakes(found, texts, scores),
    ]


def _mistakes(found: TextEvaluation, texts: ClassSet, scores: Scores) -> str:
    wrong = scores.mistakes(_MISTAKES)
    if not len(wrong):
        return page.section(
            "Surest mistakes", page.paragraph(f"There are none: every {found.part} text was recognised.")
        )
    total = int((scores.predictions != scores.labels).sum())
    told = f"Of {total:,} mistakes, the {len(wrong)} that the model was surest of."
    told = told if total > len(wrong) else "All mistakes there are, the surest first."
    html = page.paragraph(told) + page.paragraph(text_attention.note(found.model, texts.examples), "note")
    for row in wrong.tolist():
        said, true = (page.escape(scores.classes[int(answers[row])]) for answers in (scores.predictions, scores.labels))
        heading = f"said <b>{said}</b> {percent(float(scores.confidence[row]), 1)}, is <b>{true}</b>"
        html += shown(found, texts, row, heading)
    return page.section("Surest mistakes", html)
