"""Recipes over frozen vectors."""

from patchword.recipes.vectors.recipe import OverVectorsRecipe


def over_vectors() -> OverVectorsRecipe:
    return OverVectorsRecipe(
        about="A tagger or a classifier over vectors that stay as they are: word2vec's, CoVe's, ELMo's, BERT's.",
    )
