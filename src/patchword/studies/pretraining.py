"""The study of two pretraining objectives: masked words or the next word."""

from patchword.recipes.pretraining.named import MINI
from patchword.recipes.pretraining.recipe import PretrainingRecipe
from patchword.recipes.schema.recipe import ModelChoice
from patchword.studies.study import Study


def masked_or_causal() -> Study:
    """Masked words or the next word: two objectives with the same sizes, texts and tokenizer."""
    both = {"sentences": "packed", "about": "Masked or next words, at the same size on the same text."}
    masked = PretrainingRecipe(model=ModelChoice(name="bert-mini"), **both)
    causal = PretrainingRecipe(model=ModelChoice(name="gpt2-small", **MINI), **both)
    return Study(
        about="Masked words from both sides, or the next word from the left: the same size on the same text.",
        time="as long as two runs",
        runs={"masked": masked, "causal": causal},
    )
