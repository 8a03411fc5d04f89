"""The texts of a run: how many, how long, how many were truncated, how many tokens are unknown."""

from collections.abc import Sequence

import torch

from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.recipes.run import Run
from patchword.recipes.run_folders.records import DATA, read_record
from patchword.recipes.text.evaluation import TextEvaluation
from patchword.recipes.text.recipe import TextRecipe
from patchword.recipes.text.tasks.all_tasks import task_spec_of
from patchword.recipes.text.tasks.sets import SpanSet, TextSet
from patchword.recipes.text.tasks.table_sets import TableSet
from patchword.reports.plots import page, text_figures
from patchword.reports.plots.numbers import counted, percent


def texts_section(run: Run, recipe: TextRecipe, found: TextEvaluation) -> str:
    """Return the section on the texts."""
    examples, tokens = found.texts.examples, whole_lengths(found.texts, found.tokenizer)
    unknown = round(examples.unknown * len(examples.ids.values))
    facts = [
        f"{counted(len(tokens), f'{found.part} text')}, {sum(tokens) / len(tokens):.1f} tokens each on average, "
        f"at most {max(tokens):,}",
        _long_texts(len(tokens), recipe, examples.shortened, examples.windowed),
        f"{counted(unknown, 'token')} of {len(examples.ids.values):,} not in the vocabulary "
        f"({percent(examples.unknown, 3)})",
    ]
    if data := read_record(run.folder, DATA):
        facts.append(f"trained on {counted(int(data['samples']), task_spec_of(recipe).example)} of {data['name']}")
    alternative = f"Histogram of the tokens of {counted(len(tokens), 'text')}; the maximum length is {recipe.length}."
    svg = page.embedded("svg+xml", text_figures.lengths(tokens, recipe.length))
    return page.section(
        "Texts", page.bullets(map(page.escape, facts)) + page.figure(svg, alternative, kind="card wide")
    )


def _long_texts(texts: int, recipe: TextRecipe, shortened: int, windowed: int) -> str:
    """Return what happened to texts above the maximum length."""
    if shortened:
        fact = f"{counted(shortened, 'text')} truncated to {recipe.length} tokens ({percent(shortened / texts, 1)})"
        return (
            fact if task_spec_of(recipe).paired else f"{fact}; stride={recipe.length // 2} would read them in windows"
        )
    if windowed:
        return f"{counted(windowed, 'text')} longer than {recipe.length} tokens, read in windows; none is truncated"
    return f"no text is longer than the maximum of {recipe.length} tokens: none is truncated"


def whole_lengths(texts: TextSet, tokenizer: Tokenizer) -> list[int]:
    """Return the tokens of each row with the special tokens, before truncation."""
    if isinstance(texts, TableSet):
        columns = [texts.table.columns[role] for role in ("text", "pair") if role in texts.table.columns]
        return _summed(tokenizer, columns)
    if isinstance(texts, SpanSet):
        questions = texts.windows.questions
        contexts = list(dict.fromkeys(question.context for question in questions))
        length = dict(zip(contexts, map(len, tokenizer.ids_of(contexts)), strict=True))
        asked = tokenizer.ids_of([question.question for question in questions])
        specials = tokenizer.frame.paired
        return [specials + len(ids) + length[question.context] for ids, question in zip(asked, questions, strict=True)]
    specials = tokenizer.frame.single
    inside = texts.examples.ids.lengths - specials
    rows = int(texts.examples.owner.max()) + 1
    total: list[int] = (
        specials + torch.zeros(rows, dtype=torch.int64).index_add(0, texts.examples.owner, inside)
    ).tolist()
    return total


def _summed(tokenizer: Tokenizer, columns: Sequence[Sequence[str]]) -> list[int]:
    lengths = [[len(ids) for ids in tokenizer.ids_of(column)] for column in columns]
    specials = tokenizer.frame.specials(pair=len(columns) > 1)
    return [specials + sum(parts) for parts in zip(*lengths, strict=True)]
