"""Results of a text classifier."""

from patchword.objectives.metrics.classification import Scores
from patchword.objectives.metrics.quality import Quality
from patchword.recipes.text.evaluation import TextEvaluation
from patchword.recipes.text.tasks.table_sets import ClassSet
from patchword.reports.plots import page
from patchword.reports.plots.numbers import percent
from patchword.reports.run.class_results import Things, class_section, confusion_section
from patchword.reports.run.quality_sections import calibration_section, threshold_section
from patchword.reports.run.text import attention as text_attention
from patchword.reports.run.text.values import shown

_ERRORS = 12


def class_sections(found: TextEvaluation, texts: ClassSet, scores: Scores) -> list[str]:
    """Return the sections on the confusion matrix, the classes and the errors."""
    things, quality = Things("text", found.part), found.quality or Quality(scores)
    return [
        confusion_section(scores, things),
        class_section(scores, things),
        threshold_section(quality, things),
        _errors(found, texts, scores),
        calibration_section(quality, things),
    ]


def _errors(found: TextEvaluation, texts: ClassSet, scores: Scores) -> str:
    wrong = scores.mistakes(_ERRORS)
    if not len(wrong):
        return page.section(
            "Most confident errors", page.paragraph(f"None: every {found.part} text was classified correctly.")
        )
    total = int((scores.predictions != scores.labels).sum())
    about = f"Of {total:,} errors, the {len(wrong)} with the highest predicted probability."
    about = about if total > len(wrong) else "All errors, the highest predicted probability first."
    html = page.paragraph(about) + page.paragraph(text_attention.note(found.model, texts.examples), "note")
    for row in wrong.tolist():
        predicted, true = (
            page.escape(scores.classes[int(labels[row])]) for labels in (scores.predictions, scores.labels)
        )
        probability = percent(float(scores.confidence[row]), 1)
        heading = f"predicted <b>{predicted}</b> {probability}, true <b>{true}</b>"
        html += shown(found, texts, row, heading)
    return page.section("Most confident errors", html)
