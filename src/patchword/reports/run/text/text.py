"""The report of a run on texts."""

from pathlib import Path
from typing import Any, cast

from patchword.analysis.cost import count
from patchword.data.text.formats.glue import GLUE
from patchword.recipes.run import Run
from patchword.recipes.text.evaluation import TextEvaluation
from patchword.recipes.text.quantised_evaluation import Compression
from patchword.recipes.text.recipe import TextRecipe
from patchword.recipes.text.tasks.all_tasks import task_spec_of
from patchword.recipes.text.tasks.sets import SpanSet, TagSet
from patchword.recipes.text.tasks.table_sets import ClassSet, LabelsSet, NumberSet
from patchword.reports.landscape.saved import landscape_section
from patchword.reports.landscape.sharpness import sharpness_section
from patchword.reports.plots import page
from patchword.reports.plots.numbers import counted, measured, named
from patchword.reports.run.balance import balance_section
from patchword.reports.run.costs import cost_section
from patchword.reports.run.parts import (
    best_epoch,
    best_tile,
    curves_section,
    document,
    expectation,
    origin_section,
    run_tiles,
    skipped_section,
    training_summary,
)
from patchword.reports.run.quality_sections import measure_rows
from patchword.reports.run.text.answers import answer_sections
from patchword.reports.run.text.classes import class_sections
from patchword.reports.run.text.lengths import texts_section
from patchword.reports.run.text.tags import tag_sections
from patchword.reports.run.text.values import label_sections, number_sections


def text_report(run: Run, found: TextEvaluation) -> str:
    """Return the report as HTML."""
    recipe, metrics = cast(TextRecipe, run.recipe()), run.metrics()
    model, cost = found.model, count(found.model.card)
    loss = task_spec_of(recipe).loss
    sections = [
        _measures(found, recipe),
        curves_section(metrics, _note(recipe), found.metric, loss),
        *([_compression(found.compression)] if found.compression else []),
        *_task_sections(found),
        texts_section(run, recipe, found),
        balance_section(run, recipe, "texts") if found.scores is not None else "",
        skipped_section(run),
        sharpness_section(run),
        landscape_section(run),
        cost_section(model.card),
        origin_section(run, recipe, _origin(recipe), model),
    ]
    part, value = found.part.capitalize(), found.judged.measures[found.metric]
    tiles = [
        page.tile(f"{part} {named(found.metric)}", measured(found.metric, value), _of(found, recipe)),
        page.tile(f"{part} loss", f"{found.judged.loss:.4f}", loss),
        best_tile(metrics, found.metric) if found.part == "test" else _kept_tile(metrics, found.metric),
        *run_tiles(metrics, cost, f"{cost.input[1]} tokens"),
    ]
    title = f"{model.card.model} on {data_name(recipe)}"
    return document(run, title, in_words(recipe, found, metrics), tiles, sections)


def in_words(recipe: TextRecipe, found: TextEvaluation, metrics: list[dict[str, Any]]) -> str:
    """Return the result in one or two sentences."""
    value = found.judged.measures[found.metric]
    lead = f"{found.model.card.model} reached {_score(found.metric, value)} on the {_of(found, recipe)} "
    lead += f"of {_evaluated_name(recipe, found)}{training_summary(metrics)}.{expectation(recipe, value)}"
    if found.part == "validation":
        lead += " The best epoch was chosen on these same texts, so new texts may score a little lower."
    return lead


def data_name(recipe: TextRecipe) -> str:
    """Return the name of the training data."""
    return f"GLUE's {GLUE[recipe.glue].folder}" if recipe.glue else Path(recipe.train).name


def _evaluated_name(recipe: TextRecipe, found: TextEvaluation) -> str:
    """Return the name of the file with the evaluated texts; without one, that of the training data."""
    return Path(recipe.test).name if found.part == "test" and recipe.test else data_name(recipe)


def _score(metric: str, value: float) -> str:
    """Return e.g. "an accuracy of 84.77%"."""
    name = named(metric)
    return f"{'an' if name[0] in 'aeF' else 'a'} {name} of {measured(metric, value)}"


def _kept_tile(metrics: list[dict[str, Any]], metric: str) -> str:
    """Return the best epoch; its score is already the result where the result is the validation's."""
    best = best_epoch(metrics, metric)
    return page.tile("Best epoch", str(best.get("epoch", "unknown")), "by the score on the validation texts")


def _of(found: TextEvaluation, recipe: TextRecipe) -> str:
    """Return e.g. "499 validation texts"."""
    rows = int(found.texts.examples.owner.max()) + 1
    return counted(rows, f"{found.part} {task_spec_of(recipe).row}")


def _measures(found: TextEvaluation, recipe: TextRecipe) -> str:
    html = page.table(f"On the {found.part} texts", ("measure", "value", ""), _rows(found), kind="measures")
    note = f"The best epoch was chosen by the {page.escape(named(found.metric))} on the validation texts."
    if found.part == "validation":
        note += " These are the same texts" + ("." if recipe.glue else ": set test=FILE for a result on other texts.")
    return page.section("Result", html + page.paragraph(note, "note"))


def _rows(found: TextEvaluation) -> list[str]:
    known = {**found.judged.measures, "loss": found.judged.loss}
    if found.quality is not None:
        return measure_rows(found.quality, known)
    return [page.row(page.escape(named(name)), measured(name, value), "") for name, value in known.items()]


def _compression(small: Compression) -> str:
    """Return the section on the same weights in float32 and in 8 bits."""
    rows = [
        page.row(
            page.escape(file.name),
            measured(small.metric, file.score),
            f"{file.megabytes:,.1f} MB",
            f"{file.milliseconds:,.1f} ms",
        )
        for file in small.files
    ]
    head = ("weights", page.escape(named(small.metric)), "file size", "time per text")
    table = page.table("The same weights in float32 and int8", head, rows, kind="measures")
    plain, tiny = small.files
    note = (
        f"The int8 file has {tiny.megabytes / plain.megabytes:.2f} times the size and is {small.faster:.2f} times as "
    )
    note += (
        f"fast on this machine: {small.reader}, one text of {small.tokens} tokens at a time. The relative difference "
    )
    note += f"of its outputs to those of the trained model is {small.difference:.1e}."
    return page.section("In 8 bits", table + page.paragraph(page.escape(note), "note"))


def _task_sections(found: TextEvaluation) -> list[str]:
    match found.texts:
        case TagSet():
            return tag_sections(found.judged.answers, found.part, found.texts)
        case SpanSet():
            return answer_sections(found, found.texts)
        case ClassSet():
            return class_sections(found, found.texts, found.scores or found.texts.scores(found.judged))
        case LabelsSet():
            return label_sections(found, found.texts)
        case NumberSet():
            return number_sections(found, found.texts)
    raise TypeError(f"no report of a {type(found.texts).__name__}")


def _note(recipe: TextRecipe) -> str:
    """Return why training values can be worse than validation values."""
    note = "Training values are means over an epoch, with dropout, while the weights still change"
    note += ", with smoothed labels" if recipe.label_smoothing else ""
    weighted = recipe.class_weights == "balanced"
    note += ", with larger weights for rare classes" if weighted else ""
    note += ", with every class equally often" if recipe.sampling == "balanced" else ""
    text = f"{note}; validation values are computed at its end, on texts that are not in the training data"
    return f"{text}, with the plain loss." if recipe.label_smoothing or weighted else f"{text}."


def _origin(recipe: TextRecipe) -> str:
    parts = {"training": recipe.train, "validation": recipe.validation, "test": recipe.test}
    if recipe.validation_fraction() is not None and not recipe.glue:
        parts["validation"] = f"a fraction of {recipe.validation} of the training texts"
    if recipe.glue:
        parts = {data_name(recipe): recipe.train}
    return "Texts: " + "; ".join(f"{part} from {where}" for part, where in parts.items() if where) + "."
