"""The report of a tagger or a classifier over frozen vectors."""

from pathlib import Path
from typing import cast

from patchword.analysis.cost import count
from patchword.recipes.run import Run
from patchword.recipes.text.tasks.sets import TagSet
from patchword.recipes.vectors.evaluation import VectorsEvaluation
from patchword.recipes.vectors.recipe import OverVectorsRecipe
from patchword.reports.plots import page
from patchword.reports.plots.numbers import counted, measured, named, percent
from patchword.reports.run.class_results import Things, class_section, confusion_section
from patchword.reports.run.costs import cost_section
from patchword.reports.run.parts import (
    best_tile,
    curves_section,
    document,
    origin_section,
    run_tiles,
    training_summary,
)
from patchword.reports.run.text.tags import tag_sections

_NOTE = (
    "Training values are means over an epoch, with dropout, while weights still change; validation values are computed "
    "at its end, on texts that are not in the training data. The vectors themselves never change."
)


def vectors_report(run: Run, found: VectorsEvaluation) -> str:
    """Return the report as HTML."""
    recipe, metrics = cast(OverVectorsRecipe, run.recipe()), run.metrics()
    cost, value = count(found.model.card), found.judged.measures[found.metric]
    row = "sentence" if recipe.task == "tags" else "text"
    texts = counted(len(found.texts.examples), f"{found.part} {row}")
    sections = [
        curves_section(metrics, _NOTE, found.metric),
        _measures(found),
        _layers(found),
        *_task_sections(found),
        cost_section(found.model.card),
        origin_section(run, recipe, _origin(recipe), found.model),
    ]
    score = measured(found.metric, value)
    tiles = [
        page.tile(f"{found.part.capitalize()} {named(found.metric)}", score, texts),
        page.tile(f"{found.part.capitalize()} loss", f"{found.judged.loss:.4f}", "cross-entropy (nats)"),
        best_tile(metrics, found.metric),
        *run_tiles(metrics, cost, f"{cost.input[1]} words"),
    ]
    sources = " + ".join(found.names)
    lead = f"With frozen vectors of {sources}: {score} {named(found.metric)} on the {texts}{training_summary(metrics)}."
    if found.part == "validation":
        lead += " The best epoch was chosen on these same texts, so new texts may score a little lower."
    return document(run, f"{sources} on {Path(recipe.train).name}", lead, tiles, sections)


def _measures(found: VectorsEvaluation) -> str:
    rows = [page.row(page.escape(named(name)), measured(name, value)) for name, value in found.judged.measures.items()]
    rows.append(page.row("loss", f"{found.judged.loss:.4f}"))
    return page.section("Result", page.table(f"On the {found.part} texts", ("measure", "value"), rows, kind="measures"))


def _layers(found: VectorsEvaluation) -> str:
    """Return the section with the learned weight of each layer of a source."""
    rows = [
        page.row(page.escape(name), "0 (lowest)" if layer == 0 else str(layer), percent(weight, 1))
        for name, weights in zip(found.names, found.model.layer_weights(), strict=True)
        for layer, weight in enumerate(weights)
    ]
    about = "The weight of each layer of a source in the vector of a word, learned with the task."
    table = page.table("Weights of the layers", ("source", "layer", "weight"), rows, kind="measures")
    return page.section("Layers", page.paragraph(about) + table)


def _task_sections(found: VectorsEvaluation) -> list[str]:
    if isinstance(found.texts, TagSet):
        return tag_sections(found.judged.answers, found.part, found.texts)
    assert found.scores is not None, "texts without tags have a class"
    things = Things("text", found.part)
    return [confusion_section(found.scores, things), class_section(found.scores, things)]


def _origin(recipe: OverVectorsRecipe) -> str:
    parts = {"training": recipe.train, "validation": recipe.validation, "test": recipe.test}
    if recipe.texts().validation_fraction() is not None:
        parts["validation"] = f"a fraction of {recipe.validation} of the training texts"
    files = "; ".join(f"{part} from {where}" for part, where in parts.items() if where)
    return f"Vectors: {recipe.vectors}. Texts: {files}."
