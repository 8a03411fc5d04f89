"""The report of a translation run: curves, BLEU and how it was computed, and translations to read."""

from typing import cast

import torch

from patchword.analysis.cost import count
from patchword.objectives.generation.translating import attends_to_source
from patchword.recipes.run import Run
from patchword.recipes.schema.fields import listed
from patchword.recipes.translation.alignment import aligned
from patchword.recipes.translation.evaluation import TranslationEvaluation
from patchword.recipes.translation.recipe import TranslationRecipe
from patchword.recipes.translation.search import Search, translated
from patchword.reports.attention.alignment import draw_alignment
from patchword.reports.plots import page
from patchword.reports.plots.numbers import counted, percent
from patchword.reports.run.costs import cost_section
from patchword.reports.run.parts import best_tile, curves_section, document, origin_section, run_tiles, training_summary

_SHOWN = 20  # translations
_DRAWN = (4, 24)  # minimum and maximum tokens of the source whose alignment is drawn
_NOTE = (
    "Training values are means over an epoch, with dropout and smoothed labels, while the weights still change; "
    "validation values are computed at its end, with the loss without smoothing, on pairs that are not in the training "
    "data. Validation BLEU uses greedy decoding; the test uses beam search."
)


def translation_report(run: Run, found: TranslationEvaluation) -> str:
    """Return the report as HTML."""
    recipe, metrics = cast(TranslationRecipe, run.recipe()), run.metrics()
    model, cost = found.model, count(found.model.card)
    sections = [
        curves_section(metrics, _NOTE, "bleu"),
        _measures(found),
        _alignment(found),
        _translations(found),
        cost_section(model.card),
        origin_section(run, recipe, _origin(recipe), model),
    ]
    part = found.part.capitalize()
    tiles = [
        page.tile(f"{part} BLEU", f"{found.bleu.score:.2f}", f"{found.search.beams} beams"),
        page.tile(f"{part} loss", f"{found.loss:.4f}", "per token (nats)"),
        best_tile(metrics, "bleu"),
        *run_tiles(metrics, cost, "pair of 32 tokens each"),
    ]
    lead = f"{model.card.model} reached {found.bleu.score:.2f} BLEU on the "
    lead += f"{counted(len(found.pairs), f'{found.part} pair')}{training_summary(metrics)}."
    if found.part == "validation":
        lead += " The best epoch was chosen on these same pairs, so new pairs may score a little lower."
    return document(run, f"{model.card.model}, translation", lead, tiles, sections)


def _measures(found: TranslationEvaluation) -> str:
    bleu = found.bleu
    rows = [
        page.row("BLEU", f"{bleu.score:.2f}"),
        page.row("precisions of 1- to 4-grams", " / ".join(f"{precision:.1f}" for precision in bleu.precisions)),
        page.row("brevity penalty", f"{bleu.brevity:.3f}"),
        page.row("length relative to the references", f"{bleu.ratio:.3f}"),
        page.row("beams, length penalty", f"{found.search.beams}, {found.search.penalty:g}"),
        page.row("loss per token", f"{found.loss:.4f}"),
        page.row("token accuracy", percent(found.accuracy)),
    ]
    html = page.table(f"On the {found.part} pairs", ("measure", "value"), rows, kind="measures")
    note = f"BLEU by sacrebleu on detokenised text: {bleu.signature}. Loss and token accuracy are for the next token "
    note += "after the reference's tokens (teacher forcing)."
    return page.section("Result", html + page.paragraph(page.escape(note), "note"))


def _alignment(found: TranslationEvaluation) -> str:
    """Draw the alignment of the first text of suitable length."""
    lengths = found.pairs.source.lengths
    fitting = ((lengths >= _DRAWN[0]) & (lengths <= _DRAWN[1])).nonzero()[:, 0]
    if not len(fitting) or not attends_to_source(found.model):
        return ""
    source = found.pairs.source.take(fitting[:1])
    tokens = translated(found.model, found.languages, source, Search(found.search.beams, found.search.penalty))[0]
    found_alignment = aligned(found.model, found.languages, torch.as_tensor(source.values), tokens)
    note = (
        "Which source words the decoder attends to for each translated word: the darker, the more attention (mean of "
    )
    note += "the heads, word pieces merged into words"
    note += (
        f"; layer {found_alignment.layer} of {found_alignment.layers}, which covers the source best)."
        if found_alignment.layers > 1
        else ")."
    )
    alternative = f"Attention from {' '.join(found_alignment.written)} to {' '.join(found_alignment.read)}."
    svg = page.embedded("svg+xml", draw_alignment(found_alignment, "svg"))
    drawing = page.figure(svg, alternative, kind="card")
    return page.section("Alignment", drawing + page.paragraph(note, "note"))


def _translations(found: TranslationEvaluation) -> str:
    texts = zip(found.pairs.texts.first, found.written, found.pairs.texts.second, strict=True)
    rows = [
        page.row(*(f"<bdi>{page.escape(text)}</bdi>" for text in three))
        for three, _ in zip(texts, range(_SHOWN), strict=False)
    ]
    table = page.table("The first translations", ("source", "translation", "reference"), rows, kind="texts")
    return page.section("Translations", table)


def _origin(recipe: TranslationRecipe) -> str:
    parts = {"training": recipe.train, "validation": recipe.validation, "test": recipe.test}
    if recipe.validation_fraction() is not None:
        parts["validation"] = f"a fraction of {recipe.validation} of the training pairs"
    files = (f"{part} from {' and '.join(listed(where))}" for part, where in parts.items() if where)
    return f"Pairs: {'; '.join(files)}."
