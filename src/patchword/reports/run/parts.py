"""The parts that all reports share: the head, the learning curves, the recipe."""

import platform
import shlex
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import torch
from torch import nn

from patchword import __version__
from patchword.analysis.cost import Cost
from patchword.recipes.early_stopping import early_stop
from patchword.recipes.run import Run
from patchword.recipes.run_folders.records import DATA, read_record
from patchword.recipes.schema.recipe import Recipe
from patchword.reports.plots import figures, page
from patchword.reports.plots.numbers import amount, counted, duration, is_fraction, measured, named

Records = list[dict[str, Any]]
_LISTED = 10  # skipped samples; more are folded


def document(run: Run, title: str, lead: str, tiles: Sequence[str], sections: Sequence[str]) -> str:
    """Return the whole page."""
    about = f"Run {page.escape(run.folder.absolute().name)}. {page.escape(run.recipe().about)}"
    head = page.paragraph(about, "about") + f"<h1>{page.escape(title)}</h1>\n"
    lead = f"{lead} {early_stop(run.recipe(), run.metrics())}".strip()
    head += page.paragraph(page.escape(lead), "lead") + page.tiles(tiles)
    return page.document(title, f"<header>\n{head}{page.contents(sections)}</header>\n{''.join(sections)}")


def training_summary(metrics: Records) -> str:
    """Return e.g. "after 3 epochs (2 min 10 s)"."""
    if not metrics:
        return ""
    return f" after {counted(metrics[-1]['epoch'], 'epoch')} ({duration(metrics[-1]['seconds'])})"


def expectation(recipe: Recipe, reached: float) -> str:
    """Return a sentence that compares the result with the recipe's expectation."""
    expected = recipe.expect.accuracy
    if not expected:
        return ""
    missing = "" if reached >= expected else ", which this run did not reach"
    return f" The recipe expected at least {100 * expected:g}%{missing}."


def run_tiles(metrics: Records, cost: Cost, unit: str) -> list[str]:
    """Return the tiles of training time and model size. unit: the input that the MACs are for."""
    seconds = duration(metrics[-1]["seconds"]) if metrics else "unknown"
    return [
        page.tile("Training time", seconds, counted(len(metrics), "epoch")),
        page.tile("Parameters", amount(cost.parameters), f"exactly {cost.parameters:,}"),
        page.tile(f"MACs per {unit}", amount(cost.macs), f"exactly {cost.macs:,}"),
    ]


def best_tile(metrics: Records, metric: str) -> str:
    """Return the tile of the best validation score."""
    best = best_epoch(metrics, metric)
    score = measured(metric, best[f"validation_{metric}"]) if best else "unknown"
    return page.tile(
        f"Best validation {named(metric)}", score, f"epoch {best['epoch']}" if best else "no epoch recorded"
    )


def best_epoch(metrics: Records, metric: str = "accuracy") -> dict[str, Any]:
    """Return the record whose weights were kept: the best validation score, of equal ones the lowest loss."""
    scores = [(float(record[f"validation_{metric}"]), -float(record["validation_loss"])) for record in metrics]
    return metrics[scores.index(max(scores))] if scores else {}


def curves_section(
    metrics: Records, note: str, metric: str = "accuracy", loss: str = "cross-entropy loss (nats)"
) -> str:
    """Draw the loss and the metric over the epochs. For training, only loss and accuracy are recorded."""
    if not metrics:
        return page.section("Learning", page.paragraph("This run has no recorded epoch."))
    scale, unit = (100, f"{named(metric)} (%)") if is_fraction(metric) else (1, named(metric))
    drawn = _curve(metrics, "loss", 1, loss, metric) + _curve(metrics, metric, scale, unit, metric)
    return page.section("Learning", f'<div class="pair">\n{drawn}</div>\n' + page.paragraph(note, "note"))


def _curve(metrics: Records, field: str, scale: float, unit: str, metric: str) -> str:
    epochs, best = [record["epoch"] for record in metrics], best_epoch(metrics, metric)["epoch"]
    training = [scale * record[field] for record in metrics if field in ("loss", "accuracy")]
    validation = [scale * record[f"validation_{field}"] for record in metrics]
    alternative = f"Curves of the {field} over {counted(len(epochs), 'epoch')}: "
    alternative += f"training ends at {training[-1]:.4g}, " if training else ""
    alternative += f"validation at {validation[-1]:.4g}, in {unit.split(' (')[-1].strip(')')}."
    svg = figures.curves(epochs, training, validation, unit, best)
    return page.figure(page.embedded("svg+xml", svg), alternative, kind="card")


def skipped_section(run: Run) -> str:
    """Return the section that names the samples that the run left out because they are broken; empty without any."""
    skipped = read_record(run.folder, DATA).get("skipped", {})
    if not skipped.get("count"):
        return ""
    count, names = int(skipped["count"]), list(map(page.escape, skipped["names"]))
    about = f"{counted(count, 'broken sample')} of all splits {'was' if count == 1 else 'were'} left out."
    more = [f"and {count - len(names):,} more"] if count > len(names) else []
    listed = page.bullets([*names, *more])
    html = listed if count <= _LISTED else page.folded(f"All {count:,}", listed)
    return page.section("Skipped", page.paragraph(about) + html)


def origin_section(run: Run, recipe: Recipe, origin: str, model: nn.Module) -> str:
    """Return how to repeat the run. origin: where its data are from, in a sentence."""
    folder = shlex.quote(str(run.folder))
    commands = (
        f"patchword train {shlex.quote(str(run.folder / 'recipe.yaml'))} --name again\npatchword evaluate {folder}"
    )
    made = f"patchword {__version__}, torch {torch.__version__}, Python {platform.python_version()}"
    where = f"{platform.system()} {platform.machine()}, {device_name(next(model.parameters()).device)}"
    written = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
    html = page.paragraph("To train it again, and to evaluate it again:") + page.code(commands)
    html += page.folded("The complete recipe", page.code(recipe.to_yaml()))
    if trained := run.machine():
        machine = ", ".join(f"{key} {value}" for key, value in trained.items())
        html += page.paragraph(f"Trained on: {page.escape(machine)}.", "note")
    note = f"{origin} Evaluated and written on {written} with {made} on {where}."
    return page.section("Recipe", html + page.paragraph(page.escape(note), "note"))


def device_name(device: torch.device) -> str:
    """Return the name of a GPU, or the number of CPU threads."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return counted(torch.get_num_threads(), "CPU thread") if device.type == "cpu" else str(device)
