"""The recipe of translation."""

from patchword.recipes.translation.recipe import TranslationRecipe


def translation() -> TranslationRecipe:
    return TranslationRecipe(
        about="A translator from your own sentence pairs (train=ENGLISH,GERMAN or a .tsv); scored by BLEU.",
    )
