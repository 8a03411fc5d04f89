"""The named recipes of pretraining on raw text: BERT and its family."""

from collections.abc import Callable

from patchword.recipes.pretraining.recipe import PretrainingRecipe
from patchword.recipes.schema.recipe import ModelChoice, Recipe

MINI = {"depth": 4, "width": 256, "heads": 4, "hidden": 1024}  # the sizes of bert-mini


def bert_pretrain() -> PretrainingRecipe:
    return PretrainingRecipe(
        about="A small BERT on your own text: masked words and next sentences.",
    )


def roberta_pretrain() -> PretrainingRecipe:
    return PretrainingRecipe(
        about="A small RoBERTa: dynamic masking, packed sentences, no next-sentence objective.",
        model=ModelChoice(name="roberta-base", **MINI),
        sentences="packed",
    )


def albert_pretrain() -> PretrainingRecipe:
    return PretrainingRecipe(
        about="A small ALBERT: n-gram masking of up to three words, and sentence order.",
        model=ModelChoice(name="albert-base", embedding=128, **MINI),
        sentences="order",
        masks="ngrams",
    )


def ernie_pretrain() -> PretrainingRecipe:
    return PretrainingRecipe(
        about="A small ERNIE: phrases and names are masked as units, found by a segmenter or from a file (units=FILE).",
        model=ModelChoice(name="ernie-base", **MINI),
        sentences="packed",
        masks="units",
    )


def xlm_pretrain() -> PretrainingRecipe:
    return PretrainingRecipe(
        about="A small XLM: masked words in a sentence and its translation (parallel=FILES).",
        model=ModelChoice(name="xlm-tlm-xnli15", languages=2, **MINI),
        sentences="packed",
    )


def gpt_pretrain() -> PretrainingRecipe:
    return PretrainingRecipe(
        about="A small GPT: predicts the next word. `patchword generate` continues a text.",
        model=ModelChoice(name="gpt2-small", **MINI),
        objective="next",
        sentences="packed",
    )


def grover_pretrain() -> PretrainingRecipe:
    return PretrainingRecipe(
        about="A small Grover: news articles whose fields are generated in any order (articles=FILES).",
        model=ModelChoice(name="grover-base", **MINI),
        objective="next",
        sentences="packed",
        length=512,
        batch_size=64,
    )


RECIPES: tuple[Callable[[], Recipe], ...] = (
    bert_pretrain,
    roberta_pretrain,
    albert_pretrain,
    ernie_pretrain,
    xlm_pretrain,
    gpt_pretrain,
    grover_pretrain,
)
