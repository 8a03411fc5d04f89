"""The kinds of recipes; a new kind adds a line."""

from patchword.recipes.elmo.recipe import ElmoRecipe
from patchword.recipes.image.recipe import ImageRecipe
from patchword.recipes.pretraining.recipe import PretrainingRecipe
from patchword.recipes.recipe import Recipe
from patchword.recipes.text.recipe import TextRecipe
from patchword.recipes.translation.recipe import TranslationRecipe
from patchword.recipes.vectors.recipe import OverVectorsRecipe

KINDS: dict[str, type[Recipe]] = {
    "images": ImageRecipe,
    "text": TextRecipe,
    "pretraining": PretrainingRecipe,
    "over-vectors": OverVectorsRecipe,
    "translation": TranslationRecipe,
    "elmo": ElmoRecipe,
}
