"""One HTML page for several runs: what cannot be compared, the table, and their learning curves over each other."""

import math
from collections.abc import Sequence

from patchword.reports.colors import styles_of
from patchword.reports.plots import page
from patchword.reports.plots.numbers import counted, named, scale_of
from patchword.reports.plots.overlaid import Curve, overlaid
from patchword.reports.run_comparison.table import ComparedRun, comparison_grid, not_comparable


def comparison_page(runs: Sequence[ComparedRun]) -> str:
    """Return the page; it needs no other file and no network."""
    colors = {name: style.color for name, style in styles_of(run.label for run in runs).items()}
    notes = not_comparable(runs)
    sections = [
        page.section("What cannot be compared", page.bullets(map(page.escape, notes)) if notes else ""),
        page.section("The runs side by side", _table(runs, colors)),
        page.section("Learning curves", _curves(runs, colors)),
    ]
    title = f"{counted(len(runs), 'run')} compared"
    lead = "Settings that are the same in all runs are left out. A run has the same colour in every figure."
    head = f"<h1>{page.escape(title)}</h1>\n" + page.paragraph(page.escape(lead), "lead")
    return page.document(title, f"<header>\n{head}{page.contents(sections)}</header>\n{''.join(sections)}")


def _table(runs: Sequence[ComparedRun], colors: dict[str, str]) -> str:
    grid = comparison_grid(runs)
    rows = [page.row(*(page.escape(cell) for cell in row)) for row in grid.rows]
    keys = " ".join(
        f'<span><span class="swatch" style="background:{colors[run.label]}"></span>{page.escape(run.label)}</span>'
        for run in runs
    )
    caption = "Results and costs, then the settings that differ. A dash: the run does not have it."
    return page.paragraph(keys, "letters") + page.table(caption, grid.columns, rows)


def _curves(runs: Sequence[ComparedRun], colors: dict[str, str]) -> str:
    """Return three figures per kind: the main metric, and the losses; other kinds measure other things."""
    figures = []
    for kind in dict.fromkeys(run.summary.kind for run in runs if run.metrics):
        own = [run for run in runs if run.summary.kind == kind]
        of_kind = "" if len(own) == len(runs) else f", {kind}"
        for metric in dict.fromkeys(run.summary.metric for run in own if run.metrics):
            scale, suffix = scale_of(metric)
            same = [run for run in own if run.summary.metric == metric]
            unit = f"validation {named(metric)}{suffix}{of_kind}"
            figures.append(_figure(same, f"validation_{metric}", unit, scale, colors))
        for field, name in (("validation_loss", "validation loss"), ("loss", "training loss")):
            figures.append(_figure(own, field, name + of_kind, 1, colors))
    shown = "".join(figure for figure in figures if figure)
    note = "The training loss is the mean over an epoch, with the augmentation and the label smoothing of the run."
    return f'<div class="pair">\n{shown}</div>\n{page.paragraph(note, "note")}' if shown else ""


def _figure(runs: Sequence[ComparedRun], field: str, unit: str, scale: float, colors: dict[str, str]) -> str:
    curves = {}
    for run in runs:
        points = [(int(record["epoch"]), scale * record[field]) for record in run.metrics if field in record]
        points = [(epoch, value) for epoch, value in points if math.isfinite(value)]
        if points:
            curves[run.label] = Curve(*zip(*points, strict=True))
    if not curves:
        return ""
    ends = "; ".join(f"{name} ends at {curve.values[-1]:.4g}" for name, curve in curves.items())
    svg = overlaid(curves, unit, colors)
    return page.figure(page.embedded("svg+xml", svg), f"{unit} over the epochs: {ends}.", kind="card")
