"""Recipes over frozen vectors."""

from patchword.recipes.vectors.recipe import OverVectorsRecipe


def over_vectors() -> OverVectorsRecipe:
    return OverVectorsRecipe(
        about="A tagger or a classifier over frozen vectors: word2vec, CoVe, ELMo or BERT.",
    )
