"""RUNS: a recipe is a typed function that says what it does, what it needs and what it expects."""

from collections.abc import Callable

from patchword.core.errors import UserError, nearest
from patchword.recipes.elmo.recipe import elmo_pretrain
from patchword.recipes.image import named as vision
from patchword.recipes.image.deit_study import deit_distillation
from patchword.recipes.image.sam_study import sharpness_aware
from patchword.recipes.pretraining import named as pretraining
from patchword.recipes.recipe import Recipe
from patchword.recipes.study.study import Study
from patchword.recipes.text import named as texts
from patchword.recipes.translation import named as translation
from patchword.recipes.vectors import named as over_vectors

RECIPES: dict[str, Callable[[], Recipe]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        vision.fashion_mnist_vit,
        vision.fashion_mnist_vit_short,
        *vision.FAMILIES,
        vision.digits_vit,
        vision.image_folder_vit,
        *pretraining.RECIPES,
        elmo_pretrain,
        *texts.TASKS,
        over_vectors.over_vectors,
        translation.translation,
    )
}
STUDIES: dict[str, Callable[[], Study]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        vision.fashion_mnist_families,
        vision.fashion_mnist_positions,
        deit_distillation,
        sharpness_aware,
        texts.glue,
        texts.pretraining_or_scratch,
        texts.zero_shot_reading,
        pretraining.masked_or_causal,
        over_vectors.contextual_or_static,
        translation.translation_attention,
    )
}


def find_recipe(name: str) -> Recipe:
    if name in STUDIES:
        raise UserError(f"{name!r} is a study of several runs", expected="a recipe of one run")
    if name not in RECIPES:
        raise UserError(f"no recipe is called {name!r}", hint=nearest(name, [*RECIPES, *STUDIES]))
    return RECIPES[name]()


__all__ = ["RECIPES", "STUDIES", "Recipe", "Study", "find_recipe"]
