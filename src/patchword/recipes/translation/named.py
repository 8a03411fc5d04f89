"""Recipes of translation: the Transformer, and the LSTMs before it."""

from patchword.recipes.recipe import ModelChoice
from patchword.recipes.study.study import Study
from patchword.recipes.translation.recipe import TranslationRecipe


def translation() -> TranslationRecipe:
    return TranslationRecipe(
        about="A translator from your own pairs of sentences (train=ENGLISH,GERMAN or a .tsv); scored by BLEU.",
    )


def translation_attention() -> Study:
    """The story of attention: an LSTM that keeps a text in its state, one that looks back, and attention alone."""
    lstm = TranslationRecipe(model=ModelChoice(name="lstm-translation-small"), learning_rate=1e-3)
    forgetful = lstm.model_copy(update={"model": ModelChoice(name="lstm-translation-small", attention="none")})
    return Study(
        about="Translation by LSTMs without and with attention, and by attention alone, on the same pairs.",
        time="on a GPU some minutes for each",
        runs={"lstm": forgetful, "lstm-attention": lstm, "transformer": TranslationRecipe()},
    )
