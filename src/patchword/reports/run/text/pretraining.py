"""report.html of a pretraining run: the curves, the corpus, and gaps that the model fills."""

from typing import cast

from patchword.analysis.cost import count
from patchword.recipes.pretraining.evaluation import PretrainingEvaluation
from patchword.recipes.pretraining.recipe import PretrainingRecipe
from patchword.recipes.pretraining.shares import CorpusShare
from patchword.recipes.pretraining.task import PretrainingTask
from patchword.recipes.run import Run
from patchword.reports.plots import page
from patchword.reports.plots.numbers import counted, measured, named, percent
from patchword.reports.run.costs import cost_section
from patchword.reports.run.parts import curves_section, document, expectation, origin_section, run_tiles, training_told
from patchword.reports.run.text.generated import written_section
from patchword.reports.run.text.masked_words import gaps_section

_MEANINGS = {
    "accuracy": "",
    "perplexity": "as if guessing among so many",
    "loss": "of all that is asked, added (nats)",
    "next_accuracy": "50% is chance",
    "order_accuracy": "50% is chance",
}
_NOTE = (
    "Training values are means over an epoch, while the weights still change; validation values are taken at its end, "
    "on texts that are never trained on. The loss is that of an asked word and, where it is learned, that of a pair of "
    "sentences added; accuracy and perplexity are of the asked words."
)


def pretraining_report(run: Run, found: PretrainingEvaluation) -> str:
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
    told = f"{model.card.model} guesses {percent(accuracy)} of the {task.unit} of {_documents(task)} it has not "
    told += f"learned from{training_told(metrics)}.{expectation(recipe, accuracy)}"
    return document(run, f"{model.card.model}, pretrained", told, tiles, sections)


def _documents(task: PretrainingTask) -> str:
    return counted(len(task.held), "document" if isinstance(task.held, CorpusShare) else "pair of sentences")


def _corpus(task: PretrainingTask) -> str:
    if not isinstance(task.train, CorpusShare):
        return ""
    corpus, manifest = task.train.corpus, task.train.corpus.manifest
    rows = [
        page.row("documents", f"{manifest.documents:,}"),
        page.row("documents learned from", f"{len(task.train.documents):,}"),
        page.row("documents held out", f"{len(task.held):,}"),
        page.row("sentences", f"{manifest.sentences:,}"),
        page.row("tokens", f"{manifest.tokens:,}"),
        page.row("tokens of a sentence", f"{manifest.tokens / max(1, manifest.sentences):.1f}"),
        page.row("unknown tokens", f"{manifest.unknown:,} ({percent(corpus.unknown_share, 3)})"),
        page.row("vocabulary", f"{task.tokenizer.vocabulary:,} entries, {task.tokenizer.casing}"),
    ]
    told = "Pairs are made of documents of two sentences or more." if task.held.second else ""
    table = page.table("The corpus", ("what", "how many"), rows, kind="measures")
    return page.section("Corpus", table + (page.paragraph(told, "note") if told else ""))
