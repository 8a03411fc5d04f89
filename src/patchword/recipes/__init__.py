"""RUNS: named recipes, the training of a recipe, and the evaluation of a run."""

from collections.abc import Callable

from patchword.core.errors import UserError, nearest
from patchword.recipes.detection import recipe as detection
from patchword.recipes.elmo.recipe import elmo_pretrain
from patchword.recipes.image import named as vision
from patchword.recipes.image_pretraining.recipe import image_pretrain
from patchword.recipes.pretraining import named as pretraining
from patchword.recipes.schema.recipe import Recipe
from patchword.recipes.segmentation import recipe as segmentation
from patchword.recipes.text import named as texts
from patchword.recipes.translation import named as translation
from patchword.recipes.vectors import named as over_vectors

RECIPES: dict[str, Callable[[], Recipe]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        vision.fashion_mnist_vit,
        vision.fashion_mnist_vit_short,
        vision.fashion_mnist_teacher,
        vision.fashion_mnist_distilled,
        *vision.FAMILIES,
        vision.digits_vit,
        vision.image_folder_vit,
        vision.finetune_images,
        image_pretrain,
        *detection.RECIPES,
        *segmentation.RECIPES,
        *pretraining.RECIPES,
        elmo_pretrain,
        *texts.TASKS,
        over_vectors.over_vectors,
        translation.translation,
    )
}


def find_recipe(name: str) -> Recipe:
    """Return the named recipe; an unknown name gets the nearest known ones as a hint."""
    if name not in RECIPES:
        raise UserError(f"no recipe is called {name!r}", hint=nearest(name, RECIPES))
    return RECIPES[name]()


__all__ = ["RECIPES", "Recipe", "find_recipe"]
