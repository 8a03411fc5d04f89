"""The report of an ELMo pretraining: curves, both directions, and the words of the text."""

from typing import cast

from patchword.analysis.cost import count
from patchword.recipes.elmo.evaluation import ElmoEvaluation
from patchword.recipes.elmo.recipe import ElmoRecipe
from patchword.recipes.elmo.task import ElmoTask
from patchword.recipes.run import Run
from patchword.reports.plots import page
from patchword.reports.plots.numbers import counted, measured, named, percent
from patchword.reports.run.costs import cost_section
from patchword.reports.run.parts import (
    curves_section,
    document,
    expectation,
    origin_section,
    run_tiles,
    training_summary,
)

_MEANINGS = {
    "perplexity": "as if choosing among this many words",
    "next_perplexity": "given all words before",
    "previous_perplexity": "given all words after",
    "accuracy": "of words, both directions",
    "loss": "cross-entropy (nats)",
}
_NOTE = (
    "Training values are means over an epoch, with dropout, while the weights still change; validation values are "
    "computed at its end, over the whole vocabulary, on sentences that are not in the training data."
)


def elmo_report(run: Run, found: ElmoEvaluation) -> str:
    """Return the report as HTML."""
    recipe, metrics = cast(ElmoRecipe, run.recipe()), run.metrics()
    model, cost, measures = found.model, count(found.model.card), found.measures
    sections = [
        curves_section(metrics, _NOTE + _drawn(recipe)),
        _words(found.task),
        cost_section(model.card),
        origin_section(run, recipe, f"Texts: {', '.join(recipe.text)}.", model),
    ]
    tiles = [
        page.tile(f"Held-out {named(name)}", measured(name, measures[name]), note) for name, note in _MEANINGS.items()
    ]
    tiles += run_tiles(metrics, cost, f"{cost.input[1]} words")
    lead = f"{model.card.model} has a perplexity of {measures['perplexity']:,.1f} on {_held(found.task)} that were not "
    lead += f"in its training data{training_summary(metrics)}: it predicts {percent(measures['accuracy'])} of the next "
    lead += f"and previous words correctly.{expectation(recipe, measures['accuracy'])}"
    return document(run, f"{model.card.model}, pretrained", lead, tiles, sections)


def _drawn(recipe: ElmoRecipe) -> str:
    note = f" Training uses a sampled softmax with {recipe.drawn:,} negative words, so its loss is smaller."
    return note if recipe.drawn else ""


def _held(task: ElmoTask) -> str:
    return counted(len(task.held), "sentence")


def _words(task: ElmoTask) -> str:
    numbers, vocabulary = task.corpus.sentences.values, task.train.vocabulary
    words = len(numbers) - 2 * len(task.corpus.sentences)
    unknown = int((numbers >= vocabulary).sum() + (numbers == 2).sum())
    rows = [
        page.row("sentences", f"{len(task.corpus.sentences):,}"),
        page.row("words", f"{words:,}"),
        page.row("distinct words, read by their characters", f"{len(task.corpus.words) - 3:,}"),
        page.row("output vocabulary", f"{vocabulary - 3:,}"),
        page.row("words outside the vocabulary", f"{unknown:,} ({percent(unknown / max(1, words))})"),
        page.row(f"training examples of at most {task.recipe.length} tokens", f"{len(task.train):,}"),
        page.row("held-out examples", f"{len(task.held):,}"),
    ]
    return page.section("Words", page.table("The text", ("what", "count"), rows, kind="measures"))
