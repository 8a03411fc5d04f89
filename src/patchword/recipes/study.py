"""A study: several runs that differ in one thing, brought into one table."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from patchword.analysis.cost import count
from patchword.core.errors import UserError
from patchword.core.files import read_json
from patchword.recipes.recipe import Recipe
from patchword.recipes.run import Run


@dataclass(frozen=True)
class Study:
    """Runs by what tells them apart; each is trained into a folder of that name below the study's."""

    about: str
    time: str
    runs: Mapping[str, Recipe]

    def with_settings(self, settings: Iterable[str]) -> "Study":
        """The same field changed in every run."""
        changes = list(settings)
        return replace(self, runs={label: recipe.with_settings(changes) for label, recipe in self.runs.items()})


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
