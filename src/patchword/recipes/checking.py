"""Check the data of a recipe as training does before its first step, without training."""

from collections.abc import Sequence

from patchword.data.faults import Fault
from patchword.data.progress import Progress, no_progress
from patchword.recipes.kinds import kind_of
from patchword.recipes.schema.recipe import Recipe


def check_data(recipe: Recipe, progress: Progress = no_progress) -> tuple[str, Sequence[Fault]]:
    """Read all files of a recipe. Return a summary and possible mistakes; raise one error that lists all faults."""
    return kind_of(recipe).check_data(recipe, progress)
