"""The kinds of recipes; a new kind adds a line."""

from patchword.recipes.image_recipe import ImageRecipe
from patchword.recipes.pretraining_recipe import PretrainingRecipe
from patchword.recipes.recipe import Recipe
from patchword.recipes.text_recipe import TextRecipe

KINDS: dict[str, type[Recipe]] = {"images": ImageRecipe, "text": TextRecipe, "pretraining": PretrainingRecipe}
