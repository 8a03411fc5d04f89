"""The recipe kind `images`: classifiers of images."""

from rich.console import Console

from patchword.recipes.distillation.images import taught
from patchword.recipes.image.checks import check_images_of, contents_of, image_names
from patchword.recipes.image.evaluation import evaluate_images
from patchword.recipes.image.recipe import ImageRecipe
from patchword.recipes.image.task import ImageTask, build_task
from patchword.recipes.recipe_kind import RecipeKind
from patchword.recipes.task import Task
from patchword.training.guard.report import SampleNames


def _task(recipe: ImageRecipe, console: Console) -> Task:
    return taught(build_task(recipe, console), console)


def _sample_names(task: ImageTask) -> SampleNames:
    return image_names(task.recipe, task.train.images)


IMAGES = RecipeKind(
    recipe=ImageRecipe,
    build_task=_task,
    evaluate=evaluate_images,
    check_data=check_images_of,
    contents=contents_of,
    sample_names=_sample_names,
    required_settings=ImageRecipe.required_settings,
    task="Images",
)
