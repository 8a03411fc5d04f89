"""The recipe of translation."""

from patchword.recipes.translation.recipe import TranslationRecipe


def translation() -> TranslationRecipe:
    return TranslationRecipe(
        about="A translator from your own pairs of sentences (train=ENGLISH,GERMAN or a .tsv); scored by BLEU.",
    )
