"""The named recipes of fine-tuning on texts."""

from collections.abc import Callable

from patchword.data.text.formats.glue import GLUE
from patchword.recipes.schema.recipe import Recipe
from patchword.recipes.text.recipe import TextRecipe


def classify_text() -> TextRecipe:
    return TextRecipe(
        about="A classifier of your own texts, from a table with a text column and a label column.",
        patience=3,
    )


def tag() -> TextRecipe:
    return TextRecipe(
        about="One tag per word: parts of speech, named entities; from CoNLL or CoNLL-U files.",
        task="tags",
        learning_rate=1e-4,
        patience=3,
    )


def squad() -> TextRecipe:
    return TextRecipe(
        about="Extractive question answering; from files in SQuAD's format.",
        task="span",
        length=384,
        stride=128,
        batch_size=16,
        patience=3,
    )


def glue_recipe(name: str) -> Callable[[], TextRecipe]:
    def recipe() -> TextRecipe:
        return TextRecipe(
            about=f"GLUE's {GLUE[name].folder}, scored on its validation part by {GLUE[name].counts}.",
            task="classes" if GLUE[name].labels else "number",
            glue=name,
        )

    recipe.__name__ = f"glue_{name}"
    return recipe


TASKS: tuple[Callable[[], Recipe], ...] = (classify_text, tag, squad, *(glue_recipe(name) for name in GLUE))
