"""The report of a pretraining run: curves, the corpus, and predictions for masked tokens."""

from typing import cast

from patchword.analysis.cost import count
from patchword.recipes.pretraining.evaluation import PretrainingEvaluation
from patchword.recipes.pretraining.recipe import PretrainingRecipe
from patchword.recipes.pretraining.splits import CorpusSplit
from patchword.recipes.pretraining.task import PretrainingTask
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
from patchword.reports.run.text.generated import written_section
from patchword.reports.run.text.masked_words import gaps_section

_MEANINGS = {
    "accuracy": "",
    "perplexity": "as if choosing among this many",
    "loss": "sum of all objectives (nats)",
    "next_accuracy": "50% is chance",
    "order_accuracy": "50% is chance",
}
_NOTE = (
    "Training values are means over an epoch, while the weights still change; validation values are computed at its "
    "end, on texts that are not in the training data. The loss is the sum of the token loss and, if there is one, the "
    "sentence-pair loss; accuracy and perplexity are of the predicted tokens."
)


def pretraining_report(run: Run, found: PretrainingEvaluation) -> str:
    """Return the report as HTML."""
    recipe, metrics = cast(PretrainingRecipe, run.recipe()), run.metrics()
    task, model, cost = found.task, found.model, count(found.model.card)
    sections = [
        curves_section(metrics, _NOTE),
        gaps_section(model, task.tokenizer, task.held),
        written_section(task.model, task.tokenizer, task.held),
        _corpus(task),
        cost_section(model.card),
        origin_section(run, recipe, f"Texts: {', '.join(recipe.text)}.", model),
    ]
    tiles = [
        page.tile(f"Held-out {named(name)}", measured(name, found.measures[name]), note or f"of the {task.unit}")
        for name, note in _MEANINGS.items()
        if name in found.measures
    ]
    tiles += run_tiles(metrics, cost, f"{cost.input[1]} tokens")
    accuracy = found.measures["accuracy"]
    lead = f"{model.card.model} predicts {percent(accuracy)} of the {task.unit} correctly, on {_documents(task)} that "
    lead += f"were not in its training data{training_summary(metrics)}.{expectation(recipe, accuracy)}"
    return document(run, f"{model.card.model}, pretrained", lead, tiles, sections)


def _documents(task: PretrainingTask) -> str:
    return counted(len(task.held), "document" if isinstance(task.held, CorpusSplit) else "pair of sentences")


def _corpus(task: PretrainingTask) -> str:
    if not isinstance(task.train, CorpusSplit):
        return ""
    corpus, manifest = task.train.corpus, task.train.corpus.manifest
    rows = [
        page.row("documents", f"{manifest.documents:,}"),
        page.row("training documents", f"{len(task.train.documents):,}"),
        page.row("held-out documents", f"{len(task.held):,}"),
        page.row("sentences", f"{manifest.sentences:,}"),
        page.row("tokens", f"{manifest.tokens:,}"),
        page.row("tokens per sentence", f"{manifest.tokens / max(1, manifest.sentences):.1f}"),
        page.row("unknown tokens", f"{manifest.unknown:,} ({percent(corpus.unknown_fraction, 3)})"),
        page.row("vocabulary", f"{task.tokenizer.vocabulary:,} entries, {task.tokenizer.casing}"),
    ]
    note = "Pairs are made from documents with two or more sentences." if task.held.second else ""
    table = page.table("The corpus", ("what", "count"), rows, kind="measures")
    return page.section("Corpus", table + (page.paragraph(note, "note") if note else ""))
