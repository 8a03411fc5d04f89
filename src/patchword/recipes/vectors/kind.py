"""The recipe kind `over-vectors`: taggers and classifiers over frozen vectors."""

from collections.abc import Sequence

from patchword.data.faults import Fault
from patchword.data.progress import Progress
from patchword.recipes.recipe_kind import RecipeKind
from patchword.recipes.text.kind import check_texts
from patchword.recipes.text.sample_texts import text_location
from patchword.recipes.vectors.evaluation import evaluate_over_vectors
from patchword.recipes.vectors.recipe import OverVectorsRecipe
from patchword.recipes.vectors.task import OverVectorsTask, build_task
from patchword.training.guard.report import SampleNames


def _check_data(recipe: OverVectorsRecipe, progress: Progress) -> tuple[str, Sequence[Fault]]:
    return check_texts(recipe.texts())


def _sample_names(task: OverVectorsTask) -> SampleNames:
    return lambda piece: [text_location(task.train, sample) for sample in piece.samples.tolist()]


def _required(recipe: OverVectorsRecipe) -> str:
    return "" if recipe.train else "train=FILE vectors=FILE"


OVER_VECTORS = RecipeKind(
    recipe=OverVectorsRecipe,
    build_task=build_task,
    evaluate=evaluate_over_vectors,
    check_data=_check_data,
    sample_names=_sample_names,
    required_settings=_required,
    task="Word vectors",
)
