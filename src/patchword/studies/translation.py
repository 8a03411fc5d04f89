"""The study of translation without attention, with attention, and with attention alone."""

from patchword.recipes.schema.recipe import ModelChoice
from patchword.recipes.translation.recipe import TranslationRecipe
from patchword.studies.study import Study


def translation_attention() -> Study:
    """Attention in translation: an LSTM without attention, an LSTM with attention, and a Transformer."""
    lstm = TranslationRecipe(model=ModelChoice(name="lstm-translation-small"), learning_rate=1e-3)
    forgetful = lstm.model_copy(update={"model": ModelChoice(name="lstm-translation-small", attention="none")})
    return Study(
        about="Translation by LSTMs without and with attention, and by attention alone, on the same pairs.",
        time="on a GPU some minutes for each",
        runs={"lstm": forgetful, "lstm-attention": lstm, "transformer": TranslationRecipe()},
    )
