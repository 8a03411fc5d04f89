"""The check that training makes before its first step, alone: all files of a recipe are read, nothing is trained."""

from collections.abc import Sequence

from patchword.data.faults import Fault, one_report
from patchword.data.image.named_datasets import open_source
from patchword.data.progress import Progress, nothing
from patchword.recipes.elmo.recipe import ElmoRecipe
from patchword.recipes.image.recipe import ImageRecipe
from patchword.recipes.pretraining.checks import checked_texts, documents_in
from patchword.recipes.pretraining.recipe import PretrainingRecipe
from patchword.recipes.recipe import Recipe
from patchword.recipes.text.checks import checked_parts
from patchword.recipes.text.recipe import TextRecipe
from patchword.recipes.text.tasks.all_tasks import task_spec_of
from patchword.recipes.translation.data import read_all
from patchword.recipes.translation.recipe import TranslationRecipe
from patchword.recipes.vectors.recipe import OverVectorsRecipe


def check_data(recipe: Recipe, progress: Progress = nothing) -> tuple[str, Sequence[Fault]]:
    """What was read, in words, and what looks like a mistake; raises one error for all that is wrong."""
    match recipe:
        case ImageRecipe():
            return _pictures(recipe, progress)
        case TextRecipe():
            return _texts(recipe)
        case OverVectorsRecipe():
            return _texts(recipe.texts())
        case TranslationRecipe():
            found = read_all(recipe)
            return ", ".join(f"{part} {len(texts):,} pairs" for part, texts in found.items()), ()
        case PretrainingRecipe():
            return checked_texts(recipe)
        case ElmoRecipe():
            recipe.require_text()
            return documents_in(recipe.files())
    raise TypeError(f"no data is known of a {type(recipe).__name__}")


def _pictures(recipe: ImageRecipe, progress: Progress) -> tuple[str, Sequence[Fault]]:
    with one_report() as report:
        source = open_source(recipe.data)
        count = source.examine(progress)
    return f"{count:,} pictures", report.doubts


def _texts(recipe: TextRecipe) -> tuple[str, Sequence[Fault]]:
    goal = task_spec_of(recipe)
    parts, notes = checked_parts(goal)
    counts = f"{len(parts.train) + len(parts.validation):,} {goal.row}s to train on and to validate"
    return f"{counts}, {len(parts.labels)} labels" if parts.labels else counts, notes
