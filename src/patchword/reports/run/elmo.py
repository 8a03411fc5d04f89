"""report.html of an ELMo's pretraining: the curves, either direction, and the words of the text."""

from typing import cast

from patchword.analysis.cost import count
from patchword.recipes.elmo.evaluation import ElmoEvaluation
from patchword.recipes.elmo.recipe import ElmoRecipe
from patchword.recipes.elmo.task import ElmoTask
from patchword.recipes.run import Run
from patchword.reports.plots import page
from patchword.reports.plots.numbers import counted, measured, named, percent
from patchword.reports.run.costs import cost_section
from patchword.reports.run.parts import curves_section, document, expectation, origin_section, run_tiles, training_told

_MEANINGS = {
    "perplexity": "as if guessing among so many words",
    "next_perplexity": "from all words before",
    "previous_perplexity": "from all words behind",
    "accuracy": "of words, either way",
    "loss": "cross-entropy (nats)",
}
_NOTE = (
    "Training values are means over an epoch, with dropout, while the weights still change; validation values are "
    "taken at its end, among all words, on sentences that are never trained on."
)


def elmo_report(run: Run, found: ElmoEvaluation) -> str:
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
    told = f"{model.card.model} has a perplexity of {measures['perplexity']:,.1f} on {_held(found.task)} it has not "
    told += f"learned from{training_told(metrics)}: it tells {percent(measures['accuracy'])} of the next and the "
    told += f"previous words.{expectation(recipe, measures['accuracy'])}"
    return document(run, f"{model.card.model}, pretrained", told, tiles, sections)


def _drawn(recipe: ElmoRecipe) -> str:
    told = (
        f" In training the true word is told from {recipe.drawn:,} that are drawn, so that the loss is smaller there."
    )
    return told if recipe.drawn else ""


def _held(task: ElmoTask) -> str:
    return counted(len(task.held), "sentence")


def _words(task: ElmoTask) -> str:
    numbers, vocabulary = task.corpus.sentences.values, task.train.vocabulary
    words = len(numbers) - 2 * len(task.corpus.sentences)
    unknown = int((numbers >= vocabulary).sum() + (numbers == 2).sum())
    rows = [
        page.row("sentences", f"{len(task.corpus.sentences):,}"),
        page.row("words", f"{words:,}"),
        page.row("different words, each read by its characters", f"{len(task.corpus.words) - 3:,}"),
        page.row("words told apart", f"{vocabulary - 3:,}"),
        page.row("words that are told as unknown", f"{unknown:,} ({percent(unknown / max(1, words))})"),
        page.row(f"parts of {task.recipe.length} tokens at most, learned from", f"{len(task.train):,}"),
        page.row("parts held out", f"{len(task.held):,}"),
    ]
    return page.section("Words", page.table("The text", ("what", "how many"), rows, kind="measures"))
