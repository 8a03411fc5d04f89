"""What the model was given to read: how many texts, how long, how much of them was cut off or is unknown."""

from collections.abc import Sequence

import torch

from patchword.core.files import read_json
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.recipes.run import Run
from patchword.recipes.text.evaluation import TextEvaluation
from patchword.recipes.text.recipe import TextRecipe
from patchword.recipes.text.tasks.all_tasks import task_spec_of
from patchword.recipes.text.tasks.sets import SpanSet, TextSet
from patchword.recipes.text.tasks.table_sets import TableSet
from patchword.reports.plots import page, text_figures
from patchword.reports.plots.numbers import counted, percent


def texts_section(run: Run, recipe: TextRecipe, found: TextEvaluation) -> str:
    examples, tokens = found.texts.examples, whole_lengths(found.texts, found.tokenizer)
    unknown = round(examples.unknown * len(examples.ids.values))
    told = [
        f"{counted(len(tokens), f'{found.part} text')}, {sum(tokens) / len(tokens):.1f} tokens each on average, "
        f"{max(tokens):,} at most",
        _fate(len(tokens), recipe, examples.shortened, examples.windowed),
        f"{counted(unknown, 'token')} of {len(examples.ids.values):,} that the vocabulary does not have "
        f"({percent(examples.unknown, 3)})",
    ]
    if (run.folder / "data.json").is_file():
        data = read_json(run.folder / "data.json")
        told.append(f"trained on {counted(int(data['samples']), task_spec_of(recipe).example)} of {data['name']}")
    alternative = f"Histogram of the tokens of {counted(len(tokens), 'text')}; the limit is {recipe.length}."
    svg = page.embedded("svg+xml", text_figures.lengths(tokens, recipe.length))
    return page.section(
        "Texts", page.bullets(map(page.escape, told)) + page.picture(svg, alternative, kind="card wide")
    )


def _fate(texts: int, recipe: TextRecipe, shortened: int, windowed: int) -> str:
    """of texts that are too long"""
    if shortened:
        told = (
            f"{counted(shortened, 'text')} longer than {recipe.length} tokens ({percent(shortened / texts, 1)}) cut off"
        )
        return (
            told if task_spec_of(recipe).paired else f"{told}; stride={recipe.length // 2} would read them in windows"
        )
    if windowed:
        return f"{counted(windowed, 'text')} longer than {recipe.length} tokens, read in windows; nothing is cut off"
    return f"no text is longer than the {recipe.length} tokens read at once: nothing is cut off"


def whole_lengths(texts: TextSet, tokenizer: Tokenizer) -> list[int]:
    """The tokens of each row with the special ones, before anything was cut off."""
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
