"""A study: several runs that differ in one thing, brought into one table."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from patchword.analysis.cost import count
from patchword.core.errors import UserError
from patchword.core.files import read_json
from patchword.models import REGISTRY
from patchword.recipes.recipe import Recipe
from patchword.recipes.run import Run
from patchword.recipes.train import check_folder, located


@dataclass(frozen=True)
class Study:
    """Runs by what tells them apart; each is trained into a folder of that name below the study's."""

    about: str
    time: str
    runs: Mapping[str, Recipe]

    def with_settings(self, settings: Iterable[str]) -> "Study":
        """The same field changed in every run."""
        changes = list(settings)
        for path in (setting.partition("=")[0].strip() for setting in changes):
            if len({repr(_value_at(recipe, path)) for recipe in self.runs.values()}) > 1:
                raise UserError(
                    f"{path!r} is what this study compares", expected="a field that is the same in all runs"
                )
        return replace(self, runs={label: recipe.with_settings(changes) for label, recipe in self.runs.items()})

    def check(self, folder: Path) -> None:
        """Before training: every model can be made, and every run that has begun was begun with this recipe."""
        for label, recipe in self.runs.items():
            with torch.device("meta"):
                REGISTRY.create(recipe.model.name, **recipe.model.overrides())
            if (folder / label / "recipe.yaml").is_file():
                check_folder(located(recipe), folder / label, resume=True)


def _value_at(recipe: Recipe, path: str) -> Any:
    """The value of a field, or of a field of its model, which may not be there."""
    value: Any = recipe.model_dump(mode="json")
    for step in ("model", "name") if path == "model" else path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


@dataclass(frozen=True)
class Result:
    """One row of a study's table."""

    run: str
    model: str
    parameters: int
    macs: int
    accuracy: float
    loss: float
    epochs: int
    seconds: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def results(study: Study, folder: Path) -> list[Result]:
    """The runs of a study that have been evaluated, in the study's order."""
    done = [label for label in study.runs if (folder / label / "evaluation.json").is_file()]
    if not done:
        raise UserError(f"no run of {folder} is finished", hint="`patchword train` the study first")
    return [_result(label, Run(folder / label)) for label in done]


def _result(label: str, run: Run) -> Result:
    evaluation, metrics, recipe = read_json(run.folder / "evaluation.json"), run.metrics(), run.recipe()
    cost = count(run.model().card)
    return Result(
        run=label,
        model=recipe.model.name,
        parameters=cost.parameters,
        macs=cost.macs,
        accuracy=float(evaluation["accuracy"]),
        loss=float(evaluation["loss"]),
        epochs=int(metrics[-1]["epoch"]) if metrics else 0,
        seconds=float(metrics[-1]["seconds"]) if metrics else 0.0,
    )
