"""STUDIES: named sets of runs that differ in one thing, compared in one table."""

from collections.abc import Callable

from patchword.core.errors import UserError, nearest
from patchword.recipes import RECIPES
from patchword.recipes.schema.recipe import Recipe
from patchword.studies import detection, image, pretraining, text, translation, vectors
from patchword.studies.deit import deit_distillation
from patchword.studies.distilled import exercise_distilled
from patchword.studies.sam import sharpness_aware
from patchword.studies.scene_systems import scene_systems
from patchword.studies.study import Study

STUDIES: dict[str, Callable[[], Study]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        image.fashion_mnist_families,
        image.fashion_mnist_positions,
        image.images_pretrained_or_scratch,
        deit_distillation,
        exercise_distilled,
        sharpness_aware,
        detection.scene_backbones_pretrain,
        detection.scene_backbones,
        scene_systems,
        text.glue,
        text.pretraining_or_scratch,
        text.zero_shot_reading,
        pretraining.masked_or_causal,
        vectors.contextual_or_static,
        translation.translation_attention,
    )
}


def find_recipe(name: str) -> Recipe:
    """Return the named recipe. A study has several runs, so its name is refused with a message that explains this."""
    if name in STUDIES:
        raise UserError(f"{name!r} is a study of several runs", expected="a recipe of one run")
    if name not in RECIPES:
        raise UserError(f"no recipe is called {name!r}", hint=nearest(name, [*RECIPES, *STUDIES]))
    return RECIPES[name]()


__all__ = ["STUDIES", "Study", "find_recipe"]
