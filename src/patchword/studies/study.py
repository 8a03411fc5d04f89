"""A study: several runs that differ in one thing, compared in one table."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from pydantic import BaseModel

from patchword.core.errors import UserError
from patchword.recipes.run import Run
from patchword.recipes.run_folders.records import EVALUATION, read_record
from patchword.recipes.schema.recipe import Recipe
from patchword.recipes.text.inference.outputs import Advance
from patchword.recipes.train import check_folder
from patchword.studies.run_models import check_model, cost_of


class Measure(Protocol):
    """A number of a finished run that evaluation does not compute; it is saved in the run's folder."""

    @property
    def name(self) -> str:
        """Return the name as text; results use it with underscores instead of spaces."""

    @property
    def unit(self) -> str:
        """Return the unit of the axis; fractions are shown in %."""

    @property
    def logarithmic(self) -> bool:
        """Return True if ratios matter instead of differences."""

    def known(self, run: Run) -> float | None:
        """Return the saved value if it belongs to the current weights of the run."""

    def measure(self, run: Run, device: str, advance: Advance) -> None:
        """Measure and save the value in the run's folder. advance: called with each completed fraction."""


def field_of(measure: Measure) -> str:
    """Return the name of the measure in a result."""
    return measure.name.replace(" ", "_")


@dataclass(frozen=True)
class ShownMeasure:
    """A measure of the evaluation that is a column of a study's table. field: its name in the results."""

    field: str
    title: str


@dataclass(frozen=True)
class Study:
    """Named runs; each is trained into the folder of its name inside the study's folder.

    A run may use an earlier run of the study: {NAME} in its fields stands for the folder of that run.
    """

    about: str
    time: str
    runs: Mapping[str, Recipe]
    missing: Callable[[Recipe], str] = lambda recipe: ""  # the reason why a run is left out; empty if it is not
    conclusion: Callable[[Sequence["Result"]], str] = lambda results: ""  # a summary of the whole table
    panels: tuple[str, ...] = ()  # prefixes of run names; each prefix gets its own panel
    asks: Mapping[str, str] = field(
        default_factory=dict
    )  # settings that the user must give; the runs contain them as {name}
    shown: tuple[ShownMeasure, ...] = ()  # measures of the evaluation in the table; without any: the main metric
    measured: tuple[Measure, ...] = ()  # measures of each finished run besides its evaluation
    against: str = ""  # what half of the runs have: "SAM" compares the run vit-sam with the run vit
    baseline: str = ""  # the name of the other half, if it has one: "scratch" compares with the run vit-scratch
    costs: bool = False  # whether the table of the shown measures has the cost of each model and the training time

    def possible(self, log: Callable[[str], None]) -> "Study":
        """Return the study with only the runs whose data exists; log the others."""
        reasons = {label: self.missing(recipe.located()) for label, recipe in self.runs.items()}
        for label, reason in reasons.items():
            if reason:
                log(f"{label} is left out: {reason}")
        if all(reasons.values()):
            raise UserError("the data of all runs of this study is missing", got=next(iter(reasons.values())))
        return replace(self, runs={label: recipe for label, recipe in self.runs.items() if not reasons[label]})

    def with_settings(self, settings: Iterable[str]) -> "Study":
        """Return the study with the same fields changed in every run."""
        changes = list(settings)
        given = dict(text.split("=", 1) for text in changes if text.partition("=")[0].strip() in self.asks)
        if given:
            rest = [text for text in changes if text.partition("=")[0].strip() not in self.asks]
            return self._filled({name.strip(): value for name, value in given.items()}).with_settings(rest)
        for path in (setting.partition("=")[0].strip() for setting in changes):
            if len({repr(_value_at(recipe, path)) for recipe in self.runs.values()}) > 1:
                raise UserError(
                    f"{path!r} is what this study compares", expected="a field that is the same in all runs"
                )
        return replace(self, runs={label: recipe.with_settings(changes) for label, recipe in self.runs.items()})

    def in_folder(self, folder: Path) -> "Study":
        """Return the study with the folder of each run where another run names it."""
        return self._filled({label: str(folder / label) for label in self.runs})

    def _filled(self, given: Mapping[str, str]) -> "Study":
        """Replace every {name} in the runs by the value that the user gave for it."""
        runs = {label: filled(recipe, given) for label, recipe in self.runs.items()}
        return replace(self, runs=runs, asks={name: what for name, what in self.asks.items() if name not in given})

    def check(self, folder: Path) -> None:
        """Check before training that every model can be built, and that runs that have started have the same recipe."""
        for name, what in self.asks.items():
            raise UserError(f"this study needs {name}=", expected=what, hint=f"add {name}=PATH to the command")
        checked = set[str]()
        for label, recipe in self.runs.items():
            without_seed = recipe.model_copy(update={"seed": 0}).model_dump_json()
            if without_seed not in checked:
                check_model(recipe)
                checked.add(without_seed)
            if (folder / label / "recipe.yaml").is_file():
                check_folder(recipe.located(), folder / label, resume=True)


def filled(recipe: Recipe, given: Mapping[str, str]) -> Recipe:
    """Return the recipe with every {name} in its fields replaced by the value that is given for it."""
    return recipe.model_copy(update=_replaced(recipe, given))


def _replaced(fields: BaseModel, given: Mapping[str, str]) -> dict[str, Any]:
    """Return the text fields of a recipe and of its inner models, with every {name} replaced by its value."""
    found: dict[str, Any] = {}
    for field_name, value in fields:
        if isinstance(value, str):
            for name, text in given.items():
                value = value.replace(f"{{{name}}}", text)
            found[field_name] = value
        elif isinstance(value, BaseModel):
            found[field_name] = value.model_copy(update=_replaced(value, given))
    return found


def _value_at(recipe: Recipe, path: str) -> Any:
    """Return the value of a field, which may belong to the model; None if there is none."""
    value: Any = recipe.model_dump(mode="json")
    for step in ("model", "name") if path == "model" else path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


@dataclass(frozen=True)
class Result:
    """One row of a study's table. metric: the name of the main measure. part: the data split it was measured on."""

    run: str
    model: str
    parameters: int
    macs: int
    metric: str
    part: str
    measures: dict[str, float]
    loss: float
    epochs: int
    seconds: float
    history: tuple[float, ...] = ()  # the metric on the validation samples after each epoch

    @property
    def score(self) -> float:
        return self.measures[self.metric]

    def to_json(self) -> dict[str, Any]:
        """Return one entry per measure."""
        return {
            "run": self.run,
            "model": self.model,
            "parameters": self.parameters,
            "macs": self.macs,
            "metric": self.metric,
            "part": self.part,
            **self.measures,
            "loss": self.loss,
            "epochs": self.epochs,
            "seconds": self.seconds,
        }


def by_run(results: Iterable[Result]) -> dict[str, list[Result]]:
    """Return the results of each run from all its seeds, by the name of the run without its seed."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result.run.partition("-seed-")[0], []).append(result)
    return groups


def results(study: Study, folder: Path) -> list[Result]:
    """Return the results of the evaluated runs, in the order of the study."""
    done = [label for label in study.runs if (folder / label / "evaluation.json").is_file()]
    if not done:
        raise UserError(f"no run of {folder} is finished", hint="`patchword train` the study first")
    return [_result(label, Run(folder / label), study.measured) for label in done]


def _result(label: str, run: Run, others: Sequence[Measure]) -> Result:
    evaluation, metrics, cost = read_record(run.folder, EVALUATION), run.metrics(), cost_of(run)
    metric = str(evaluation.get("metric", "accuracy"))
    measures = {name: value for name, value in evaluation.items() if isinstance(value, float) and name != "loss"}
    measures |= {field_of(one): value for one in others if (value := one.known(run)) is not None}
    return Result(
        run=label,
        model=cost.name,
        parameters=cost.parameters,
        macs=cost.macs,
        metric=metric,
        part=evaluation.get("part", "test"),
        measures=measures,
        loss=float(evaluation["loss"]),
        epochs=int(metrics[-1]["epoch"]) if metrics else 0,
        seconds=float(metrics[-1]["seconds"]) if metrics else 0.0,
        history=tuple(float(record.get(f"validation_{metric}", "nan")) for record in metrics),
    )
