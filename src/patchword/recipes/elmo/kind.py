"""The recipe kind `elmo`: ELMo models that are trained on raw text."""

from collections.abc import Sequence

from patchword.data.faults import Fault
from patchword.data.progress import Progress
from patchword.recipes.elmo.evaluation import evaluate_elmo
from patchword.recipes.elmo.recipe import ElmoRecipe
from patchword.recipes.elmo.task import ElmoTask, build_task
from patchword.recipes.pretraining.checks import documents_in
from patchword.recipes.recipe_kind import RecipeKind
from patchword.recipes.text.sample_texts import excerpt
from patchword.training.guard.report import SampleNames


def _check_data(recipe: ElmoRecipe, progress: Progress) -> tuple[str, Sequence[Fault]]:
    recipe.require_text()
    return documents_in(recipe.files())


def _sample_names(task: ElmoTask) -> SampleNames:
    words = task.corpus.words
    return lambda piece: [
        excerpt(" ".join(words[number] for number in row if number >= 0)) for row in piece.words.tolist()
    ]


def _required(recipe: ElmoRecipe) -> str:
    return "" if recipe.text else "text=FILE"


ELMO = RecipeKind(
    recipe=ElmoRecipe,
    build_task=build_task,
    evaluate=evaluate_elmo,
    check_data=_check_data,
    sample_names=_sample_names,
    required_settings=_required,
    task="Pretraining",
)
