"""The recipe kind `pretraining`: language models that are trained on raw text."""

from collections.abc import Sequence

from rich.console import Console

from patchword.data.faults import Fault
from patchword.data.progress import Progress
from patchword.recipes.distillation.text import compressed
from patchword.recipes.pretraining.checks import checked_texts
from patchword.recipes.pretraining.evaluation import evaluate_pretraining
from patchword.recipes.pretraining.recipe import PretrainingRecipe
from patchword.recipes.pretraining.task import PretrainingTask, build_task
from patchword.recipes.recipe_kind import RecipeKind
from patchword.recipes.task import Task
from patchword.recipes.text.sample_texts import text_excerpts
from patchword.training.guard.report import SampleNames


def _task(recipe: PretrainingRecipe, console: Console) -> Task:
    return compressed(build_task(recipe, console), console)


def _check_data(recipe: PretrainingRecipe, progress: Progress) -> tuple[str, Sequence[Fault]]:
    return checked_texts(recipe)


def _sample_names(task: PretrainingTask) -> SampleNames:
    return lambda piece: [f"example {sample} ({text})" for sample, text in text_excerpts(task.tokenizer, piece)]


def _required(recipe: PretrainingRecipe) -> str:
    return "" if recipe.text else "text=FILE tokenizer=FOLDER"


PRETRAINING = RecipeKind(
    recipe=PretrainingRecipe,
    build_task=_task,
    evaluate=evaluate_pretraining,
    check_data=_check_data,
    sample_names=_sample_names,
    required_settings=_required,
    task="Pretraining",
)
