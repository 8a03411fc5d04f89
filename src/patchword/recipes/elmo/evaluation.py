"""Evaluation of an ELMo on the held-out sentences."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from patchword.layers.model import Model
from patchword.recipes.elmo.recipe import ElmoRecipe
from patchword.recipes.elmo.task import ElmoTask, build_task, judge
from patchword.recipes.run_folder import RunFolder
from patchword.recipes.schema.recipe import ModelChoice
from patchword.training.console import run_console


@dataclass(frozen=True)
class ElmoEvaluation:
    kind: ClassVar[str] = "elmo"
    model: Model
    measures: dict[str, float]
    task: ElmoTask

    def lines(self) -> Sequence[str]:
        return [f"Held-out {name.replace('_', ' ')}: {value:.4f}" for name, value in self.measures.items()]

    def summary(self) -> dict[str, Any]:
        return {**self.measures, "metric": self.task.metric, "part": "held out"}


def evaluate_elmo(run: RunFolder, recipe: ElmoRecipe, device: str) -> ElmoEvaluation:
    """Evaluate on the held-out sentences, which are never trained on."""
    run.model()  # raises an error with a hint if there are no weights yet
    own = {"device": device, "model": ModelChoice(name=str(run.folder))}  # its initial weights may have been deleted
    task = build_task(recipe.model_copy(update=own), run_console(quiet=True))
    return ElmoEvaluation(task.model.eval(), judge(task.model, task.held), task)
