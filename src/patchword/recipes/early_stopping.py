"""Says why a run ended before its last epoch, on the console and in the report."""

from collections.abc import Mapping, Sequence
from typing import Any

from patchword.recipes.run_folders.finished import best_index, validation_metric
from patchword.recipes.schema.recipe import Recipe


def early_stop(recipe: Recipe, records: Sequence[Mapping[str, Any]]) -> str:
    """Return a sentence about a run that ran out of patience; empty for any other run. records: metrics.jsonl"""
    if not recipe.patience or not records or len(records) >= recipe.epochs:
        return ""
    best = best_index(records)
    if len(records) - 1 - best < recipe.patience:
        return ""  # stopped by a callback
    waited, score = (
        f"{recipe.patience} epochs" if recipe.patience > 1 else "one epoch",
        validation_metric(records[0]).replace("_", " "),
    )
    return (
        f"Training stopped after epoch {len(records)} of {recipe.epochs}: {waited} without a better {score} than that "
        f"of epoch {best + 1}, whose weights were kept (patience={recipe.patience})."
    )
