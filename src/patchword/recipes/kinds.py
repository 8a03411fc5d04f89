"""The kinds of recipes; a new kind adds a line."""

from patchword.recipes.elmo_recipe import ElmoRecipe
from patchword.recipes.image_recipe import ImageRecipe
from patchword.recipes.over_vectors_recipe import OverVectorsRecipe
from patchword.recipes.pretraining_recipe import PretrainingRecipe
from patchword.recipes.recipe import Recipe
from patchword.recipes.text_recipe import TextRecipe
from patchword.recipes.translation_recipe import TranslationRecipe

KINDS: dict[str, type[Recipe]] = {
    "images": ImageRecipe,
    "text": TextRecipe,
    "pretraining": PretrainingRecipe,
    "over-vectors": OverVectorsRecipe,
    "translation": TranslationRecipe,
    "elmo": ElmoRecipe,
}
