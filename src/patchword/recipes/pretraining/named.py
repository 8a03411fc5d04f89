"""The named recipes of pretraining on raw text: BERT and its family."""

from collections.abc import Callable

from patchword.recipes.pretraining.recipe import PretrainingRecipe
from patchword.recipes.recipe import ModelChoice, Recipe

MINI = {"depth": 4, "width": 256, "heads": 4, "hidden": 1024}  # the sizes of bert-mini


def bert_pretrain() -> PretrainingRecipe:
    return PretrainingRecipe(
        about="A small BERT from your own text: masked words and next sentences, as BERT learned.",
    )


def roberta_pretrain() -> PretrainingRecipe:
    return PretrainingRecipe(
        about="A small RoBERTa: other masks in every epoch, full examples, no second task.",
        model=ModelChoice(name="roberta-base", **MINI),
        sentences="packed",
    )


def albert_pretrain() -> PretrainingRecipe:
    return PretrainingRecipe(
        about="A small ALBERT: up to three words masked at once, and the order of two sentences.",
        model=ModelChoice(name="albert-base", embedding=128, **MINI),
        sentences="order",
        masks="ngrams",
    )


def ernie_pretrain() -> PretrainingRecipe:
    return PretrainingRecipe(
        about="A small ERNIE: phrases and names masked as wholes, found by a segmenter or from a file (units=FILE).",
        model=ModelChoice(name="ernie-base", **MINI),
        sentences="packed",
        masks="units",
    )


def xlm_pretrain() -> PretrainingRecipe:
    return PretrainingRecipe(
        about="A small XLM: a sentence beside its translation, with masked words to guess from both (parallel=FILES).",
        model=ModelChoice(name="xlm-tlm-xnli15", languages=2, **MINI),
        sentences="packed",
    )


def gpt_pretrain() -> PretrainingRecipe:
    return PretrainingRecipe(
        about="A small GPT: of every word the next. `patchword write` goes on with a text of yours.",
        model=ModelChoice(name="gpt2-small", **MINI),
        sentences="packed",
    )


def grover_pretrain() -> PretrainingRecipe:
    return PretrainingRecipe(
        about="A small Grover: news whose fields are learned in any order, each after any others (articles=FILES).",
        model=ModelChoice(name="grover-base", **MINI),
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
