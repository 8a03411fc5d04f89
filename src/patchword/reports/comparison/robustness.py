"""Robustness of a run: figures in its folder, and a section of its report."""

from pathlib import Path

import torch

from patchword.core.files import whole_file
from patchword.core.grid import sides
from patchword.data.corruptions import SEVERITIES
from patchword.data.image.images import Images
from patchword.inspection.robustness import Robustness, known_robustness, of_these_weights
from patchword.layers.model import Model
from patchword.recipes.run import Run
from patchword.reports.comparison.robustness_figures import kinds_figure, severity_figure, size_figure
from patchword.reports.plots import page
from patchword.reports.plots.figures import drawn, figure_style
from patchword.reports.plots.numbers import counted, percent

_ABOUT = (
    "Accuracy on {} under the common corruptions: noise, blur, weather and digital changes, at severities of 1 to 5, "
    "generated from the test images. The run was not trained on them."
)
_OTHER = "The weights of this run changed after its robustness was measured: patchword robustness {}"


def write_robustness(run: Run, found: Robustness, images: Images, own: int) -> list[Path]:
    """Write robustness.png and .svg, corruptions.png, and with other sizes resolution.png and .svg."""
    name = run.folder.absolute().name
    figures = {}
    with figure_style():
        if found.corrupted:
            figures["robustness"] = severity_figure(found, f"{name}: accuracy under corruptions")
        if found.sizes:
            figures["resolution"] = size_figure(found, own, f"{name}: accuracy at other resolutions")
        contents = {
            run.folder / f"{kind}.{ending}": drawn(figure, ending)
            for kind, figure in figures.items()
            for ending in ("png", "svg")
        }
        if found.corrupted:
            contents[run.folder / "corruptions.png"] = _sheet(images, found.seed)
    for path, content in contents.items():
        with whole_file(path) as temporary:
            temporary.write_bytes(content)
    return list(contents)


def robustness_section(run: Run, model: Model, images: Images) -> str:
    """Return the section of the report; empty if `patchword robustness` was not run."""
    found = known_robustness(run)
    if found is None:
        return ""
    if not of_these_weights(run):
        return page.section("Robustness", page.paragraph(page.escape(_OTHER.format(run.folder)), "note"))
    html = page.paragraph(_ABOUT.format(counted(found.images, "test image"))) if found.corrupted else ""
    with figure_style():
        if found.corrupted:
            html += _figure(
                drawn(severity_figure(found), "svg"), f"Accuracy over severity: {_summary(found)}"
            ) + _table(found)
            html += page.figure(
                page.embedded("png", _sheet(images, found.seed)), "One image under each corruption", "", "card"
            )
        if found.sizes:
            own = max(sides(model.card.config["image"]))
            sizes = ", ".join(f"{size}: {percent(value, 1)}" for size, value in found.sizes.items())
            html += page.paragraph("At other resolutions, with the same weights and resized position tables:")
            html += _figure(drawn(size_figure(found, own), "svg"), f"Accuracy by image size: {sizes}")
    return page.section("Robustness", html)


def _figure(svg: bytes, alternative: str) -> str:
    return page.figure(page.embedded("svg+xml", svg), alternative, kind="card")


def _summary(found: Robustness) -> str:
    return f"clean {percent(found.clean, 1)}, mean under corruptions {percent(found.mean, 1)}"


def _table(found: Robustness) -> str:
    severities = [severity for severity in SEVERITIES if any(severity in row for row in found.corrupted.values())]
    head = ["corruption", *(f"severity {severity}" for severity in severities), "mean"]
    rows = [
        page.row(
            page.escape(kind),
            *(percent(row[severity], 1) if severity in row else "" for severity in severities),
            percent(found.of_kind(kind), 1),
        )
        for kind, row in found.corrupted.items()
    ]
    blank = [""] * len(severities)
    foot = [
        page.row("mean corruption accuracy", *blank, percent(found.mean, 1)),
        page.row("clean", *blank, percent(found.clean, 1)),
    ]
    return page.table("Accuracy under corruptions", head, rows, foot)


def _sheet(images: Images, seed: int) -> bytes:
    return drawn(kinds_figure(images.pixels.take(torch.tensor([0]))[0], int(images.keys[0]) & 0xFFFF_FFFF, seed), "png")
