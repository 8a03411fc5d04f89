"""The recipe kind `detection`: detectors of objects."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from patchword.data.detection.checking import check_detection
from patchword.data.detection.sources import SCENES, open_scenes
from patchword.data.faults import Fault
from patchword.data.progress import Progress
from patchword.recipes.detection.evaluation import evaluate_detection
from patchword.recipes.detection.recipe import DetectionRecipe
from patchword.recipes.detection.task import DetectionTask, build_task, contents_of
from patchword.recipes.recipe_kind import RecipeKind
from patchword.training.guard.report import SampleNames


def _check_data(recipe: DetectionRecipe, progress: Progress) -> tuple[str, Sequence[Fault]]:
    recipe.check_data_given()
    if recipe.data in SCENES:
        return f"{len(open_scenes(recipe.data, 'train')):,} generated images", ()
    return check_detection(Path(recipe.data), recipe.format, progress)


def _sample_names(task: DetectionTask) -> SampleNames:
    def names(piece: Any) -> list[str]:
        return [task.train.source.file(index) for index in piece.samples.tolist()]

    return names


DETECTION = RecipeKind(
    recipe=DetectionRecipe,
    build_task=build_task,
    evaluate=evaluate_detection,
    check_data=_check_data,
    contents=contents_of,
    sample_names=_sample_names,
    required_settings=DetectionRecipe.required_settings,
    metric=lambda recipe: "test box AP",
    task="Detection",
)
