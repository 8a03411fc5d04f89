"""What would be found out too late, looked for before an epoch is spent."""

from collections import Counter
from pathlib import Path
from typing import Any

from patchword.core.errors import UserError
from patchword.recipes.text.data import Parts
from patchword.recipes.text.goal import TextGoal
from patchword.recipes.text.recipe import TextRecipe
from patchword.recipes.text.table_sets import ClassSet, TableSet


def check_parts(goal: TextGoal[Any], parts: Parts[Any]) -> None:
    """The files."""
    recipe = goal.recipe
    goal.check(Path(recipe.validation), parts.validation, parts.labels)
    if recipe.test and not recipe.glue:
        goal.check(Path(recipe.test), goal.read("test"), parts.labels)
    goal.check_trained(Path(recipe.train), parts.train)


def doubts(texts: TableSet) -> list[str]:
    """The classes with their numbers, and what looks like a mistake in the table."""
    told = []
    if isinstance(texts, ClassSet):
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


def check_settings(goal: TextGoal[Any]) -> None:
    """A setting that would silently do nothing is refused."""
    for field, reason in goal.idle().items():
        chosen = getattr(goal.recipe, field)
        if chosen != TextRecipe.model_fields[field].default:
            raise UserError(f"recipe field {field!r} has no effect here", got=chosen, hint=reason)
