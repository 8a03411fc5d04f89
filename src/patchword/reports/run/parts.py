"""The parts that the reports of all kinds of runs have: the head, the learning curves, the recipe."""

import platform
import shlex
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import torch

from patchword import __version__
from patchword.analysis.cost import Cost
from patchword.layers import Model
from patchword.recipes.recipe import Recipe
from patchword.recipes.run import Run
from patchword.reports.plots import figures, page
from patchword.reports.plots.numbers import amount, counted, duration, is_share, measured, named

Records = list[dict[str, Any]]


def document(run: Run, title: str, lead: str, tiles: Sequence[str], sections: Sequence[str]) -> str:
    about = f"Run {page.escape(run.folder.absolute().name)}. {page.escape(run.recipe().about)}"
    head = page.paragraph(about, "about") + f"<h1>{page.escape(title)}</h1>\n"
    head += page.paragraph(page.escape(lead), "lead") + page.tiles(tiles)
    return page.document(title, f"<header>\n{head}{page.contents(sections)}</header>\n{''.join(sections)}")


def training_told(metrics: Records) -> str:
    """after 3 epochs (2 min 10 s)"""
    if not metrics:
        return ""
    return f" after {counted(metrics[-1]['epoch'], 'epoch')} ({duration(metrics[-1]['seconds'])})"


def expectation(recipe: Recipe, reached: float) -> str:
    expected = recipe.expect.accuracy
    if not expected:
        return ""
    missing = "" if reached >= expected else ", which this run did not reach"
    return f" The recipe expected at least {100 * expected:g}%{missing}."


def run_tiles(metrics: Records, cost: Cost, unit: str) -> list[str]:
    """What every run has: its time and its size. unit: what the MACs are of."""
    seconds = duration(metrics[-1]["seconds"]) if metrics else "unknown"
    return [
        page.tile("Training time", seconds, counted(len(metrics), "epoch")),
        page.tile("Parameters", amount(cost.parameters), f"exactly {cost.parameters:,}"),
        page.tile(f"MACs per {unit}", amount(cost.macs), f"exactly {cost.macs:,}"),
    ]


def best_tile(metrics: Records, metric: str) -> str:
    best = best_epoch(metrics, metric)
    score = measured(metric, best[f"validation_{metric}"]) if best else "unknown"
    return page.tile(
        f"Best validation {named(metric)}", score, f"epoch {best['epoch']}" if best else "no epoch recorded"
    )


def best_epoch(metrics: Records, metric: str = "accuracy") -> dict[str, Any]:
    """The record whose weights were kept: the first with the highest validation score."""
    return max(metrics, key=lambda record: float(record[f"validation_{metric}"]), default={})


def curves_section(
    metrics: Records, note: str, metric: str = "accuracy", loss: str = "cross-entropy loss (nats)"
) -> str:
    """The loss and the metric over the epochs. Of training only the accuracy is known beside the loss."""
    if not metrics:
        return page.section("Learning", page.paragraph("This run has recorded no epoch."))
    scale, unit = (100, f"{named(metric)} (%)") if is_share(metric) else (1, named(metric))
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
    return page.picture(page.embedded("svg+xml", svg), alternative, kind="card")


def origin_section(run: Run, recipe: Recipe, origin: str, model: Model) -> str:
    """How to repeat the run. origin: where its data are from, in a sentence."""
    folder = shlex.quote(str(run.folder))
    commands = (
        f"patchword train {shlex.quote(str(run.folder / 'recipe.yaml'))} --name again\npatchword evaluate {folder}"
    )
    made = f"patchword {__version__}, torch {torch.__version__}, Python {platform.python_version()}"
    where = f"{platform.system()} {platform.machine()}, {device_name(next(model.parameters()).device)}"
    written = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
    html = page.paragraph("The same again, and the test alone:") + page.code(commands)
    html += page.folded("The recipe, as it was run", page.code(recipe.to_yaml()))
    if trained := run.machine():
        told = ", ".join(f"{key} {value}" for key, value in trained.items())
        html += page.paragraph(f"Trained on: {page.escape(told)}.", "note")
    told = f"{origin} Evaluated and written on {written} with {made} on {where}."
    return page.section("Recipe", html + page.paragraph(page.escape(told), "note"))


def device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return counted(torch.get_num_threads(), "CPU thread") if device.type == "cpu" else str(device)
