"""The loss landscape of a run: saved in its folder, and shown in its report."""

from dataclasses import replace

from patchword.analysis.sharpness.landscape import Kind
from patchword.core.files import write_json
from patchword.inspection.saved_landscape import FILE, OLDER, read_landscape
from patchword.inspection.saved_sharpness import MODE
from patchword.inspection.sharpness import weights_digest
from patchword.recipes.run import Run
from patchword.reports.landscape.axes import RunLandscape
from patchword.reports.landscape.landscape import landscape_figure
from patchword.reports.plots import page
from patchword.reports.plots.figures import drawn, figure_style
from patchword.reports.plots.numbers import percent

_FILTERS = (
    "Along random directions in which each filter has the norm of the model's own filter (Li et al., 2018); biases and "
    "norms do not move. "
)
_EIGEN = "Along the leading eigenvectors of the Hessian, the directions of largest curvature. "


def save_landscape(run: Run, landscape: RunLandscape, kind: Kind) -> None:
    """Save the landscape of one run, as loss[second][first]; removes a file of the older name."""
    record = {
        "directions": kind,
        "sample": landscape.sample,
        "digest": weights_digest(run),
        "loss_name": landscape.loss_name,
    }
    numbers = {"places": landscape.found.places, "loss": landscape.found.losses, "accuracy": landscape.found.accuracies}
    lists = {name: values.tolist() for name, values in numbers.items()}
    write_json(run.folder / FILE, record | {"has_accuracy": landscape.has_accuracy} | lists)
    (run.folder / OLDER).unlink(missing_ok=True)


def landscape_section(run: Run) -> str:
    """Return the section of the report; empty if `patchword landscape` was not run."""
    saved = read_landscape(run)
    if saved is None:
        return ""
    if not saved.belongs_to(run):
        again = f"The weights of this run changed after its loss landscape was drawn: patchword landscape {run.folder}"
        return page.section("Loss landscape", page.paragraph(page.escape(again), "note"))
    name, kind = run.folder.absolute().name, saved.kind
    landscape = RunLandscape(name, saved.sample, saved.loss_name, saved.has_accuracy, saved.found)
    loss, accuracy = landscape.found.middle
    about = f"The mean {landscape.loss_name} over {landscape.sample}. {_EIGEN if kind == 'eigen' else _FILTERS}{MODE}"
    caption = f"The loss around the weights; at the weights it is {loss:.4g}"
    caption += f", the accuracy {percent(accuracy)}." if landscape.has_accuracy else "."
    with figure_style():  # without accuracy, whose panel would make the figure too small to read
        image = drawn(landscape_figure([replace(landscape, has_accuracy=False)], kind), "png")
    shown = page.figure(page.embedded("png", image), caption, kind="card")
    return page.section("Loss landscape", page.paragraph(page.escape(about)) + shown)
