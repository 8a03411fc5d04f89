"""What would be found out too late, looked for before an epoch is spent."""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from patchword.core.errors import UserError
from patchword.data.text.squad import Question
from patchword.recipes.text_data import Parts, check_labels, read_rows
from patchword.recipes.text_recipe import TextRecipe


def check_parts(recipe: TextRecipe, parts: Parts) -> None:
    check_labels(recipe, Path(recipe.validation), parts.validation, parts.labels)
    if recipe.test and not recipe.glue:
        check_labels(recipe, Path(recipe.test), read_rows(recipe, "test"), parts.labels)
    if recipe.task == "span":
        check_placed(Path(recipe.train), cast(Sequence[Question], parts.train))


def check_placed(path: Path, questions: Sequence[Question]) -> None:
    """What is trained on has an answer whose place is known; what is scored need not."""
    for question in questions:
        if not question.impossible and all(answer.start is None for answer in question.answers):
            raise UserError(
                f"{path}, question {question.id!r}: no answer to train on",
                expected="an answer that is in its context, at answer_start or once",
                got=repr(question.answers[0].text[:80]),
            )
