"""The recipe kind `images`: classifiers of images."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from rich.console import Console

from patchword.core.errors import UserError
from patchword.data.faults import Fault, collect_faults
from patchword.data.image.named_datasets import open_source
from patchword.data.image.sources import ListedSource
from patchword.data.progress import Progress
from patchword.data.shards.sharded_images import ShardedImages
from patchword.recipes.distillation.images import taught
from patchword.recipes.image.evaluation import evaluate_images
from patchword.recipes.image.recipe import YOUR_IMAGES, YOUR_WEIGHTS, ImageRecipe
from patchword.recipes.image.task import ImageTask, build_task
from patchword.recipes.recipe_kind import RecipeKind
from patchword.recipes.task import Task
from patchword.training.guard.report import SampleNames


def _task(recipe: ImageRecipe, console: Console) -> Task:
    return taught(build_task(recipe, console), console)


def _check_data(recipe: ImageRecipe, progress: Progress) -> tuple[str, Sequence[Fault]]:
    with collect_faults() as report:
        source = open_source(recipe.data)
        count = source.examine(progress)
    return f"{count:,} images", report.doubts


def _required(recipe: ImageRecipe) -> str:
    model = "model=WEIGHTS" if recipe.model.name == YOUR_WEIGHTS else ""
    return f"{model} data=FOLDER".strip() if recipe.data == YOUR_IMAGES else model


def _sample_names(task: ImageTask) -> SampleNames:
    """Name images by their files, which are looked up on first use; images of a single-file set by their index."""
    if isinstance(shards := task.train.images.pixels, ShardedImages):
        return lambda piece: [shards.name_of(sample) for sample in piece.samples.tolist()]

    @cache
    def files() -> dict[int, str]:
        try:
            source = open_source(task.recipe.data)
        except UserError:  # the data set was removed; another message reports that
            return {}
        if not isinstance(source, ListedSource):
            return {}
        return {key: str(path) for key, (path, _, _) in zip(source.keys().tolist(), source.rows, strict=True)}

    def name(piece: Any) -> list[str]:
        keys = task.train.images.keys[piece.samples.cpu()].tolist()
        return [files().get(key, f"image {key} of {task.train.images.name}") for key in keys]

    return name


IMAGES = RecipeKind(
    recipe=ImageRecipe,
    build_task=_task,
    evaluate=evaluate_images,
    check_data=_check_data,
    sample_names=_sample_names,
    required_settings=_required,
)
