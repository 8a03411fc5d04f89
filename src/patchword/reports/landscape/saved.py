"""A run's own loss surface, kept in its folder, and as a section of its report."""

from dataclasses import replace
from typing import Any, cast

import torch

from patchword.analysis.sharpness.landscape import Kind, Surface
from patchword.core.errors import UserError
from patchword.core.files import read_json, write_json
from patchword.inspection.saved_sharpness import MODE
from patchword.inspection.sharpness import weights_digest
from patchword.recipes.run import Run
from patchword.reports.landscape.axes import Looked
from patchword.reports.landscape.landscape import surface_figure
from patchword.reports.plots import page
from patchword.reports.plots.figures import drawn, looks
from patchword.reports.plots.numbers import percent

FILE = "surface.json"
_FILTERS = (
    "Along random directions, in which each filter is as long as the model's own (Li et al., 2018); biases and norms "
    "stay. "
)
_EIGEN = "Along the leading eigenvectors of the Hessian, where the loss is curved most. "


def keep_surface(run: Run, looked: Looked, kind: Kind) -> None:
    """The numbers of this run alone, with what the report needs to know of them; loss[second][first]."""
    told = {"directions": kind, "sample": looked.sample, "digest": weights_digest(run), "loss_name": looked.loss_name}
    numbers = {"places": looked.found.places, "loss": looked.found.losses, "accuracy": looked.found.accuracies}
    lists = {name: values.tolist() for name, values in numbers.items()}
    write_json(run.folder / FILE, told | {"has_accuracy": looked.has_accuracy} | lists)


def surface_section(run: Run) -> str:
    """Empty where `patchword surface` was not run."""
    path = run.folder / FILE
    if not path.is_file():
        return ""
    try:
        looked, kind, digest = _read(run, read_json(path))
    except (ValueError, KeyError, TypeError):
        raise UserError(f"cannot read {path}", hint="remove it, and run `patchword surface` again") from None
    if digest != weights_digest(run):
        again = f"The loss surface of this run was drawn before its weights changed: patchword surface {run.folder}"
        return page.section("Loss surface", page.paragraph(page.escape(again), "note"))
    loss, accuracy = looked.found.middle
    about = f"The mean {looked.loss_name} over {looked.sample}. {_EIGEN if kind == 'eigen' else _FILTERS}{MODE}"
    told = f"The loss around the weights; at the weights it is {loss:.4g}"
    told += f", the accuracy {percent(accuracy)}." if looked.has_accuracy else "."
    with looks():  # the accuracy would make the pictures too small to read
        picture = drawn(surface_figure([replace(looked, has_accuracy=False)], kind), "png")
    shown = page.picture(page.embedded("png", picture), told, kind="card")
    return page.section("Loss surface", page.paragraph(page.escape(about)) + shown)


def _read(run: Run, kept: dict[str, Any]) -> tuple[Looked, Kind, str]:
    numbers = [torch.tensor(kept[name], dtype=torch.float64) for name in ("places", "loss", "accuracy")]
    name, found = run.folder.absolute().name, Surface(*numbers)
    looked = Looked(name, str(kept["sample"]), str(kept["loss_name"]), bool(kept["has_accuracy"]), found)
    return looked, cast(Kind, str(kept["directions"])), str(kept["digest"])
