"""Checks of raw texts before training: the faults of all lines of all files are one error."""

from collections.abc import Sequence
from pathlib import Path

from patchword.core.errors import UserError
from patchword.data.faults import Fault, attempt, collect_faults
from patchword.data.shards.manifest import verify_texts
from patchword.data.text.corpus.documents import examine, text_files
from patchword.data.text.formats.news import read_articles
from patchword.data.text.formats.parallel_text import Parallel, read_parallel
from patchword.recipes.pretraining.recipe import PretrainingRecipe


def check_named(recipe: PretrainingRecipe) -> None:
    """Raise an error unless exactly one kind of texts is given."""
    if sum(map(bool, (recipe.text, recipe.parallel, recipe.articles))) != 1:
        text = ", ".join(name for name in ("text", "parallel", "articles") if getattr(recipe, name))
        raise UserError(
            f"{'too many' if text else 'no'} texts are given",
            expected="text=FILE, or several files separated by commas",
            got=text,
        )


def checked_pairs(recipe: PretrainingRecipe) -> Parallel:
    with collect_faults():
        texts = attempt(read_parallel, [Path(name) for name in recipe.parallel])
    if texts is None:
        raise AssertionError("one_report raises an error for missing parts")  # never reached
    return texts


def checked_articles(recipe: PretrainingRecipe) -> list[dict[str, str]]:
    with collect_faults():
        found = [attempt(read_articles, Path(name)) for name in recipe.articles]
    return [article for articles in found for article in articles or ()]


def checked_texts(recipe: PretrainingRecipe) -> tuple[str, Sequence[Fault]]:
    """Return a summary of the texts and possible mistakes."""
    check_named(recipe)
    if recipe.parallel:
        return f"{len(checked_pairs(recipe)):,} pairs of sentences", ()
    if recipe.articles:
        return f"{len(checked_articles(recipe)):,} articles", ()
    return documents_in(recipe.files(), recipe.documents)


def documents_in(names: Sequence[Path], documents: str = "auto") -> tuple[str, Sequence[Fault]]:
    """Count the documents of files, or of folders of files; return a summary and possible mistakes."""
    with collect_faults() as report:
        files = text_files(names)
        verify_texts(names, files)
        count = examine(files, documents)
    return f"{count:,} documents in {len(files):,} {'file' if len(files) == 1 else 'files'}", report.doubts
