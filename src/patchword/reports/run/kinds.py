"""The report of each recipe kind, by the name of the kind; a new kind adds a line.

Reports are above recipes in the import table, so a kind's report cannot be a field of its RecipeKind.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from patchword.core.files import write_text
from patchword.recipes.recipe_kind import Evaluation
from patchword.recipes.run import Run
from patchword.reports.run.detection import detection_report
from patchword.reports.run.elmo import elmo_report
from patchword.reports.run.frozen_vectors import vectors_report
from patchword.reports.run.image import image_report
from patchword.reports.run.image_pretraining import image_pretraining_report
from patchword.reports.run.result_lines import held_out_lines, image_lines, text_lines, vectors_lines
from patchword.reports.run.segmentation import segmentation_report
from patchword.reports.run.text.pretraining import pretraining_report
from patchword.reports.run.text.text import text_report
from patchword.reports.run.translation import translation_report


def _own_lines(found: Evaluation) -> Sequence[str]:
    return found.lines()


@dataclass(frozen=True)
class KindReport:
    """The report of a recipe kind.

    html: (run, evaluation) -> the page report.html. lines: the result as lines of text for the terminal.
    """

    html: Callable[[Run, Any], str]
    lines: Callable[[Any], Sequence[str]] = _own_lines


REPORTS: Mapping[str, KindReport] = MappingProxyType(
    {
        "images": KindReport(image_report, image_lines),
        "text": KindReport(text_report, text_lines),
        "pretraining": KindReport(pretraining_report, held_out_lines),
        "over-vectors": KindReport(vectors_report, vectors_lines),
        "translation": KindReport(translation_report),
        "elmo": KindReport(elmo_report, held_out_lines),
        "image-pretraining": KindReport(image_pretraining_report),
        "detection": KindReport(detection_report),
        "segmentation": KindReport(segmentation_report),
    }
)


def write_report(run: Run, found: Evaluation) -> Path:
    """Write report.html into the run's folder: one file that needs no other file and no network."""
    path = run.folder / "report.html"
    write_text(path, REPORTS[found.kind].html(run, found))
    return path


def write_other_report(run: Run, found: Evaluation, path: Path) -> Path | None:
    """Write the report of a classifier on other data; None for other kinds, whose reports are about their own data."""
    if getattr(found, "scores", None) is None or found.kind not in ("images", "text"):
        return None
    write_text(path, REPORTS[found.kind].html(run, found))
    return path


def result_lines(found: Evaluation) -> Sequence[str]:
    """Return the result of an evaluation as lines of text."""
    return REPORTS[found.kind].lines(found)
