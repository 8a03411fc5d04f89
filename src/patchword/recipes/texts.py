"""Recipes of texts: pretraining, and fine-tuning on every kind of task."""

from collections.abc import Callable

from patchword.data.text.glue import GLUE
from patchword.recipes.pretraining_recipe import PretrainingRecipe
from patchword.recipes.recipe import ModelChoice, Recipe
from patchword.recipes.text_recipe import TextRecipe


def bert_pretrain() -> PretrainingRecipe:
    return PretrainingRecipe(
        about="A small BERT from your own text: masked words and next sentences, as BERT learned.",
        model=ModelChoice.model_validate({"name": "bert-mini", "dropout": 0.0, "attention_dropout": 0.0}),
    )


def classify_text() -> TextRecipe:
    return TextRecipe(about="A classifier of your own texts: a table with a column of texts and one of labels.")


def tag() -> TextRecipe:
    return TextRecipe(
        about="A tag for each word: parts of speech, names; from CoNLL or CoNLL-U files.",
        task="tags",
        rate=1e-4,
    )


def squad() -> TextRecipe:
    return TextRecipe(
        about="The answer to a question, found in a text; from files in SQuAD's form.",
        task="span",
        length=384,
        stride=128,
        batch=16,
    )


def _glue(name: str) -> Callable[[], TextRecipe]:
    def recipe() -> TextRecipe:
        return TextRecipe(
            about=f"GLUE's {GLUE[name].folder}, scored on its validation part by {GLUE[name].counts}.",
            task="classes" if GLUE[name].labels else "number",
            glue=name,
        )

    recipe.__name__ = f"glue_{name}"
    return recipe


TASKS: tuple[Callable[[], Recipe], ...] = (bert_pretrain, classify_text, tag, squad, *(_glue(name) for name in GLUE))
