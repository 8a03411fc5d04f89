"""RUNS: a recipe is a typed function that says what it does, what it needs and what it expects."""

from collections.abc import Callable

from patchword.core.errors import UserError, nearest
from patchword.recipes.recipe import Recipe
from patchword.recipes.vision import digits_vit, fashion_mnist_vit, fashion_mnist_vit_short, image_folder_vit

RECIPES: dict[str, Callable[[], Recipe]] = {
    function.__name__.replace("_", "-"): function
    for function in (fashion_mnist_vit, fashion_mnist_vit_short, digits_vit, image_folder_vit)
}


def find_recipe(name: str) -> Recipe:
    if name not in RECIPES:
        raise UserError(f"no recipe is called {name!r}", hint=nearest(name, RECIPES))
    return RECIPES[name]()


__all__ = ["RECIPES", "Recipe", "find_recipe"]
