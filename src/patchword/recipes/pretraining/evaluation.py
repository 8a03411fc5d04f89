"""Evaluation of a pretrained model on the documents that were kept for validation."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from patchword.layers.model import Model
from patchword.recipes.pretraining.recipe import PretrainingRecipe
from patchword.recipes.pretraining.task import PretrainingTask, build_task, judge
from patchword.recipes.run_folder import RunFolder
from patchword.recipes.schema.recipe import ModelChoice
from patchword.recipes.text.model import as_text
from patchword.training.console import run_console


@dataclass(frozen=True)
class PretrainingEvaluation:
    kind: ClassVar[str] = "pretraining"
    model: Model
    measures: dict[str, float]
    task: PretrainingTask

    def lines(self) -> Sequence[str]:
        return [f"Held-out {name.replace('_', ' ')}: {value:.4f}" for name, value in self.measures.items()]

    def summary(self) -> dict[str, Any]:
        return {**self.measures, "metric": "accuracy", "part": "held out"}


def evaluate_pretraining(run: RunFolder, recipe: PretrainingRecipe, device: str) -> PretrainingEvaluation:
    """Evaluate on the held-out documents, which are never trained on."""
    own = recipe.model_copy(update={"device": device, "tokenizer": str(run.folder)})
    own = own.model_copy(
        update={"model": ModelChoice(name=str(run.folder))}
    )  # its initial weights may have been deleted
    task = build_task(own, run_console(quiet=True))
    model = as_text(run.model().to(task.device), str(run.folder))
    return PretrainingEvaluation(model, judge(model, task.held), task)
