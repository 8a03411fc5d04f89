"""What would be found out too late, looked for before an epoch is spent."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from patchword.core.errors import UserError
from patchword.data.text.squad import Question
from patchword.recipes.text_data import Parts, check_labels, has_pairs, read_rows
from patchword.recipes.text_recipe import TextRecipe
from patchword.recipes.text_sets import SentenceSet


def check_parts(recipe: TextRecipe, parts: Parts) -> None:
    """The files."""
    check_labels(recipe, Path(recipe.validation), parts.validation, parts.labels)
    if recipe.test and not recipe.glue:
        check_labels(recipe, Path(recipe.test), read_rows(recipe, "test"), parts.labels)
    if recipe.task == "span":
        check_placed(Path(recipe.train), cast(Sequence[Question], parts.train))


def doubts(texts: SentenceSet) -> list[str]:
    """The classes with their numbers, and what looks like a mistake in the table."""
    told = []
    if texts.recipe.task == "classes":
        counts = Counter(texts.truth.tolist())
        shown = [f"{name} {counts[number]:,}" for number, name in enumerate(texts.labels)]
        more = f", and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
        told.append(f"{len(shown)} classes: {', '.join(shown[:_SHOWN])}{more}")
    alike: dict[str, list[str]] = {}
    for name in texts.labels:
        alike.setdefault(_plain(name), []).append(name)
    told += [
        f"note: labels that differ in their form alone: {', '.join(same)}" for same in alike.values() if len(same) > 1
    ]
    if missing := [name for name in texts.labels if name.casefold() in ("nan", "none", "null", "n/a", "")]:
        told.append(f"note: a label is called {missing[0]!r}: is it a missing value?")
    columns = texts.table.columns
    repeated = len(texts.table) - len(set(zip(columns["text"], columns.get("pair", columns["text"]), strict=True)))
    if repeated:
        told.append(f"note: {repeated:,} of {len(texts.table):,} texts are repetitions of others")
    return told


_SHOWN = 10  # classes


def _plain(label: str) -> str:
    """the same for Good and good, for 1 and 1.0"""
    try:
        return str(float(label))
    except ValueError:
        return label.casefold()


def check_settings(recipe: TextRecipe) -> None:
    """A setting that would silently do nothing is refused."""
    idle = {
        "stride": recipe.task == "tags" or (recipe.task != "span" and has_pairs(recipe)),
        "weights": recipe.task != "classes",
        "smoothing": recipe.task != "classes",
        **dict.fromkeys(("test", "text", "pair", "label"), bool(recipe.glue)),
    }
    for field, without_effect in idle.items():
        if without_effect and getattr(recipe, field) != TextRecipe.model_fields[field].default:
            reason = "GLUE's files have their own" if recipe.glue and field in _COLUMNS else _REASONS[field]
            raise UserError(f"recipe field {field!r} has no effect here", got=getattr(recipe, field), hint=reason)


_COLUMNS = ("test", "text", "pair", "label")
_REASONS = {
    "stride": "only single texts and questions are read in windows; of pairs the longer text is cut, long sentences of "
    "tags are always read on",
    "weights": "they balance classes, task=classes",
    "smoothing": "it is for classes, task=classes",
}


def check_placed(path: Path, questions: Sequence[Question]) -> None:
    """What is trained on has an answer whose place is known; what is scored need not."""
    for question in questions:
        if not question.impossible and all(answer.start is None for answer in question.answers):
            raise UserError(
                f"{path}, question {question.id!r}: no answer to train on",
                expected="an answer that is in its context, at answer_start or once",
                got=repr(question.answers[0].text[:80]),
            )
