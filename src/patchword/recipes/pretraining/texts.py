"""Reads the texts of a pretraining recipe and splits training from held-out documents."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from rich.console import Console

from patchword.core.errors import UserError
from patchword.data.text.batching.batches import BatchFormat
from patchword.data.text.batching.mask_groups import Grouping, NGrams, PhraseUnits, SingleTokens, WholeWords
from patchword.data.text.batching.masking import Masking
from patchword.data.text.batching.ragged import Ragged
from patchword.data.text.formats.news import FieldTokens
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.recipes.pretraining.checks import checked_articles, checked_pairs
from patchword.recipes.pretraining.others import NewsSplit, PairSplit
from patchword.recipes.pretraining.parts import NextPairs, OrderPairs, Packed, Sentences, TargetRule
from patchword.recipes.pretraining.recipe import PretrainingRecipe
from patchword.recipes.pretraining.splits import CorpusSplit, DataSplit, split_held_out
from patchword.recipes.pretraining.tokens import tokenised
from patchword.recipes.pretraining.unit_files import units_of


def splits_of(
    recipe: PretrainingRecipe, tokenizer: Tokenizer, form: BatchFormat, target_rule: TargetRule, console: Console
) -> tuple[DataSplit, DataSplit]:
    if recipe.parallel:
        return _translations(recipe, tokenizer, form, target_rule, console)
    if recipe.articles:
        return _news(recipe, tokenizer, form, target_rule, console)
    return _documents(recipe, tokenizer, form, target_rule, console)


def _documents(
    recipe: PretrainingRecipe, tokenizer: Tokenizer, form: BatchFormat, target_rule: TargetRule, console: Console
) -> tuple[CorpusSplit, CorpusSplit]:
    corpus, frame, length = tokenised(recipe, tokenizer, console), tokenizer.frame, recipe.length
    learned, aside = corpus.split(recipe.held_out)
    sentences: dict[str, Callable[[], Sentences]] = {
        "next": lambda: NextPairs.balanced(corpus, frame, length, learned),
        "order": OrderPairs,
        "packed": Packed,
    }
    chosen = sentences[recipe.sentences]()
    enough = np.diff(corpus.documents) >= chosen.least
    parts = ((learned, recipe.seed), (aside, 0))
    train, held = (
        CorpusSplit(corpus, documents[enough[documents]], frame, length, form, chosen, target_rule, seed)
        for documents, seed in parts
    )
    check_held_out(held, recipe)
    return train, held


def _translations(
    recipe: PretrainingRecipe, tokenizer: Tokenizer, form: BatchFormat, target_rule: TargetRule, console: Console
) -> tuple[PairSplit, PairSplit]:
    """Language ids follow the order of the files: 0 and 1."""
    if tokenizer.sep is None:
        raise UserError("the tokenizer has no separator", expected="[SEP] or </s>, between two sentences")
    texts = checked_pairs(recipe)
    if len(texts) < 2:
        raise UserError("too few pairs of sentences", expected="2 or more", got=len(texts))
    sides = [Ragged.of(tokenizer.ids_of(side)) for side in (texts.first, texts.second)]
    console.print(f"{len(texts):,} pairs of sentences, {sum(len(side.values) for side in sides):,} tokens")
    spoken = replace(form, languages=(0, 1))
    train, held = (
        PairSplit(sides[0].take(index), sides[1].take(index), tokenizer.sep, recipe.length, spoken, target_rule, seed)
        for index, seed in zip(split_held_out(len(texts), recipe.held_out), (recipe.seed, 0), strict=True)
    )
    return train, held


def _news(
    recipe: PretrainingRecipe, tokenizer: Tokenizer, form: BatchFormat, target_rule: TargetRule, console: Console
) -> tuple[NewsSplit, NewsSplit]:
    FieldTokens.of(tokenizer)  # an error if it has none
    articles = checked_articles(recipe)
    if len(articles) < 2:
        raise UserError("too few articles", expected="2 or more", got=len(articles))
    console.print(f"{len(articles):,} articles")
    train, held = (
        NewsSplit(tuple(articles[number] for number in index), tokenizer, recipe.length, form, target_rule, seed)
        for index, seed in zip(split_held_out(len(articles), recipe.held_out), (recipe.seed, 0), strict=True)
    )
    return train, held


def masking_of(recipe: PretrainingRecipe, tokenizer: Tokenizer) -> Masking:
    words = WholeWords(torch.as_tensor(tokenizer.continues))
    grouping: dict[str, Callable[[], Grouping]] = {
        "pieces": SingleTokens,
        "words": lambda: words,
        "ngrams": lambda: NGrams(words),
        "units": lambda: PhraseUnits(units_of(recipe.units, tokenizer)),
    }
    return Masking.of(tokenizer, recipe.masked, grouping=grouping[recipe.masks]())


def check_held_out(held: CorpusSplit, recipe: PretrainingRecipe) -> None:
    """Check before training that the held-out documents suffice to compute scores."""
    needed = "two documents of two sentences or more" if held.second else "one document"
    if len(held.documents) < (2 if held.second else 1):
        raise UserError(
            f"held_out={recipe.held_out:g} keeps too few documents for validation",
            expected=needed,
            got=f"{len(held.documents)} of {len(held.corpus):,} documents",
            hint="keep more, e.g. held_out=0.1, give more texts, or set how documents are separated: documents=...",
        )
