"""report.html: a run to read, from the result in words to the commands that repeat it."""

import platform
import shlex
from datetime import datetime
from pathlib import Path
from typing import Any

import torch

from patchword import __version__
from patchword.analysis.cost import count
from patchword.core.files import write_text
from patchword.data.images import Images
from patchword.layers import Pyramid
from patchword.objectives.scores import Scores
from patchword.recipes.recipe import Recipe
from patchword.recipes.run import Run
from patchword.reports import figures, page
from patchword.reports.costs import cost_section
from patchword.reports.looking import attention_section
from patchword.reports.results import class_section, confusion_section, mistakes_section
from patchword.reports.words import amount, counted, duration, percent


def write_report(run: Run, scores: Scores, images: Images, model: Pyramid) -> Path:
    """Writes report.html into the run's folder: one file that needs no other and no network.

    The scores are the model's on the images; the model must be in evaluation mode.
    """
    path = run.folder / "report.html"
    write_text(path, report(run, scores, images, model))
    return path


def report(run: Run, scores: Scores, images: Images, model: Pyramid) -> str:
    recipe, metrics = run.recipe(), run.metrics()
    title = f"{recipe.model.name} on {images.name}"
    sections = [
        curves_section(metrics, recipe),
        confusion_section(scores),
        class_section(scores),
        mistakes_section(scores, images),
        attention_section(model, scores, images),
        cost_section(model.card),
        origin_section(run, recipe, images, model),
    ]
    about = f"Run {page.escape(run.folder.absolute().name)}. {page.escape(recipe.about)}"
    head = page.paragraph(about, "about") + f"<h1>{page.escape(title)}</h1>\n"
    head += page.paragraph(page.escape(in_words(recipe, scores, images, metrics)), "lead")
    head += page.tiles(key_numbers(scores, metrics, model))
    return page.document(title, f"<header>\n{head}{page.contents(sections)}</header>\n{''.join(sections)}")


def in_words(recipe: Recipe, scores: Scores, images: Images, metrics: list[dict[str, Any]]) -> str:
    told = (
        f"{recipe.model.name} reached {percent(scores.accuracy)} on the {counted(len(scores.labels), 'test picture')}"
    )
    told += f" of {images.name}"
    if metrics:
        told += f" after {counted(metrics[-1]['epoch'], 'epoch')} ({duration(metrics[-1]['seconds'])})"
    expected = recipe.expect.accuracy
    if not expected:
        return f"{told}."
    missing = "" if scores.accuracy >= expected else ", which this run did not reach"
    return f"{told}. The recipe expected at least {100 * expected:g}%{missing}."


def key_numbers(scores: Scores, metrics: list[dict[str, Any]], model: Pyramid) -> list[str]:
    cost, best = count(model.card), best_epoch(metrics)
    right = int((scores.predictions == scores.labels).sum())
    seconds = duration(metrics[-1]["seconds"]) if metrics else "unknown"
    accuracy = percent(best["validation_accuracy"]) if best else "unknown"
    return [
        page.tile("Test accuracy", percent(scores.accuracy), f"{right:,} of {len(scores.labels):,}"),
        page.tile("Test loss", f"{scores.loss:.4f}", "cross-entropy (nats)"),
        page.tile("Best validation accuracy", accuracy, f"epoch {best['epoch']}" if best else "no epoch recorded"),
        page.tile("Training time", seconds, counted(len(metrics), "epoch")),
        page.tile("Parameters", amount(cost.parameters), f"exactly {cost.parameters:,}"),
        page.tile("MACs per picture", amount(cost.macs), f"exactly {cost.macs:,}"),
    ]


def best_epoch(metrics: list[dict[str, Any]]) -> dict[str, Any]:
    """The record whose weights were kept: the first with the highest validation accuracy."""
    return max(metrics, key=lambda record: float(record["validation_accuracy"]), default={})


def curves_section(metrics: list[dict[str, Any]], recipe: Recipe) -> str:
    if not metrics:
        return page.section("Learning", page.paragraph("This run has recorded no epoch."))
    epochs, best = [record["epoch"] for record in metrics], best_epoch(metrics)["epoch"]
    drawn = ""
    for field, factor, unit in (("loss", 1, "cross-entropy loss (nats)"), ("accuracy", 100, "accuracy (%)")):
        training, validation = ([factor * record[key] for record in metrics] for key in (field, f"validation_{field}"))
        alternative = (
            f"Curves of the {field} over {counted(len(epochs), 'epoch')}: training ends at {training[-1]:.4g}, "
            f"validation at {validation[-1]:.4g}, in {unit.split(' (')[-1].strip(')')}."
        )
        svg = figures.curves(epochs, training, validation, unit, best)
        drawn += page.picture(page.embedded("svg+xml", svg), alternative, kind="card")
    return page.section("Learning", f'<div class="pair">\n{drawn}</div>\n' + page.paragraph(_note(recipe), "note"))


def _note(recipe: Recipe) -> str:
    """Why training can look worse than validation."""
    note = "Training values are means over an epoch, while the weights still change"
    note += ", on augmented pictures" if any(recipe.augmentation.model_dump().values()) else ""
    note += ", with smoothed labels" if recipe.smoothing else ""
    return f"{note}; validation values are taken at its end, on pictures that are never trained on."


def origin_section(run: Run, recipe: Recipe, images: Images, model: Pyramid) -> str:
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
    html += page.paragraph(
        f"Pictures: {page.escape(images.name)}, from {page.escape(images.origin)}. "
        f"Evaluated and written on {page.escape(written)} with {page.escape(made)} on {page.escape(where)}.",
        "note",
    )
    return page.section("Recipe", html)


def device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return counted(torch.get_num_threads(), "CPU thread") if device.type == "cpu" else str(device)
