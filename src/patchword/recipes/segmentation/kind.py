"""The recipe kind `segmentation`: models that classify every pixel."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from patchword.data.detection.sources import SCENES, open_scenes
from patchword.data.faults import Fault
from patchword.data.progress import Progress
from patchword.data.segmentation.reading import check_segmentation
from patchword.recipes.recipe_kind import RecipeKind
from patchword.recipes.segmentation.evaluation import evaluate_segmentation
from patchword.recipes.segmentation.recipe import SegmentationRecipe
from patchword.recipes.segmentation.task import SegmentationTask, build_task, contents_of
from patchword.training.guard.report import SampleNames


def _check_data(recipe: SegmentationRecipe, progress: Progress) -> tuple[str, Sequence[Fault]]:
    recipe.check_data_given()
    if recipe.data in SCENES:
        return f"{len(open_scenes(recipe.data, 'train')):,} generated images", ()
    return check_segmentation(Path(recipe.data), recipe.format, recipe.ignored, progress)


def _sample_names(task: SegmentationTask) -> SampleNames:
    def names(piece: Any) -> list[str]:
        return [task.train.source.file(index) for index in piece.samples.tolist()]

    return names


SEGMENTATION = RecipeKind(
    recipe=SegmentationRecipe,
    build_task=build_task,
    evaluate=evaluate_segmentation,
    check_data=_check_data,
    contents=contents_of,
    sample_names=_sample_names,
    required_settings=SegmentationRecipe.required_settings,
    metric=lambda recipe: "test mean IoU",
    task="Segmentation",
)
