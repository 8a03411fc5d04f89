"""A dry run: what a run will train, how long it will take and how much it needs, before it starts."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from html import escape
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console

from patchword.core.device import pick_precision
from patchword.core.disk_space import format_bytes, free_bytes
from patchword.recipes.schema.batch_size import AUTO_BATCH
from patchword.recipes.schema.recipe import Recipe
from patchword.recipes.task import Task
from patchword.recipes.text.model import packs
from patchword.recipes.train import assemble
from patchword.training.checkpoint.disk_check import run_bytes
from patchword.tuning.batch_size import with_batch_size
from patchword.tuning.macs import TrainingMacs, training_macs
from patchword.tuning.memory import StepMemory, longest_texts, memory_limit, step_memory
from patchword.tuning.trial_steps import WARM_UP, StepTimes, TrialSteps, timed_steps, trial_task
from patchword.tuning.words import about_time, amount, counted

SECONDS = 5.0  # for which steps are timed, by default
_BATCHES = 3  # whose activations are counted


@dataclass(frozen=True)
class DryRun:
    """What a run will do. Time and memory are estimates; the rest is exact.

    folder: of the run, which is not created. samples: per data split. decided: the fields that were decided on this
    machine. unit: of `samples`. disk: the most bytes that the run needs at one time.
    """

    recipe: Recipe
    folder: Path
    device: str
    samples: Mapping[str, int]
    classes: tuple[str, ...]
    steps_per_epoch: int
    parameters: int
    trained: int
    macs: TrainingMacs
    memory: StepMemory
    memory_limit: int | None
    times: StepTimes
    disk: int
    disk_free: int
    decided: Mapping[str, str]

    @property
    def steps(self) -> int:
        return self.steps_per_epoch * self.recipe.epochs

    @property
    def macs_per_epoch(self) -> int:
        return self.macs.training * self.samples["training"]

    @property
    def epoch_seconds(self) -> float:
        """Training and validation of one epoch. A validation sample is counted as a third of a training sample."""
        training = self.steps_per_epoch * self.times.mean
        return training * (1 + self.samples["validation"] / (3 * max(1, self.samples["training"])))

    @property
    def seconds(self) -> float:
        """The estimated time of all epochs."""
        return self.recipe.epochs * self.epoch_seconds

    def to_json(self) -> dict[str, Any]:
        return {
            "run": str(self.folder),
            "recipe": self.recipe.model_dump(mode="json"),
            "decided": dict(self.decided),
            "samples": dict(self.samples),
            "classes": list(self.classes),
            "steps_per_epoch": self.steps_per_epoch,
            "steps": self.steps,
            "parameters": self.parameters,
            "trained_parameters": self.trained,
            "macs": {**asdict(self.macs), "epoch": self.macs_per_epoch},
            "memory": {**asdict(self.memory), "total": self.memory.total, "limit": self.memory_limit},
            "seconds": {
                "step": self.times.mean,
                "timed_steps": list(self.times.seconds),
                "epoch": self.epoch_seconds,
                "run": self.seconds,
            },
            "disk": {"run": self.disk, "free": self.disk_free},
        }

    def lines(self) -> list[str]:
        """Return the dry run as lines of text."""
        return [f"{name:<8} {text}" for name, text in self._texts().items()]

    def _texts(self) -> dict[str, str]:
        recipe, macs = self.recipe, self.macs
        fixed = f", {self.trained:,} of them trained" if self.trained < self.parameters else ""
        unit = (type(recipe).model_fields["batch_size"].description or "").partition(";")[0]
        patience = (
            f"; fewer if it stops early (patience={recipe.patience})" if 0 < recipe.patience < recipe.epochs else ""
        )
        return {
            "data": self._data(),
            "model": f"{recipe.model.name}, {self.parameters:,} parameters{fixed}",
            "steps": f"{self.steps_per_epoch:,} per epoch x {counted(recipe.epochs, 'epoch')} = {self.steps:,} steps "
            f"(batch_size={recipe.batch_size}: {unit}){patience}",
            "MACs": f"{amount(macs.forward)} per {macs.input}, forward; {amount(macs.training)} in training with the "
            f"backward pass; {amount(self.macs_per_epoch)} per epoch",
            "memory": self._memory(),
            "time": self._time(),
            "disk": f"at most {format_bytes(self.disk)} in {self.folder}, {format_bytes(self.disk_free)} are free",
            "decided": ", ".join(f"{name}={value}" for name, value in self.decided.items()) or "nothing",
        }

    def _data(self) -> str:
        parts = ", ".join(f"{number:,} for {name}" for name, number in self.samples.items())
        names = ", ".join(self.classes[:5]) + (", ..." if len(self.classes) > 5 else "")
        classes = f"; {counted(len(self.classes), 'class')}: {names}" if self.classes else ""
        return f"{parts}{classes}; test data are read once, at the end"

    def _memory(self) -> str:
        memory = self.memory
        free = f"; {format_bytes(self.memory_limit)} are free" if self.memory_limit is not None else ""
        if memory.peak is not None:
            return f"about {format_bytes(memory.peak)}, the measured peak of a step on {self.device}{free}"
        parts = {name: value for name, value in asdict(memory).items() if value}
        listed = ", ".join(f"{name} {format_bytes(value)}" for name, value in parts.items())
        unseen = " at least" if self.recipe.activation_checkpointing is not False else ""
        return f"about{unseen} {format_bytes(memory.total)} ({listed}), and that of the libraries and the data{free}"

    def _time(self) -> str:
        times = self.times.seconds
        spread = f"{min(times):.2g} to {max(times):.2g} s, {len(times)} steps timed after {WARM_UP} of warm-up"
        without = ", without torch.compile" if self.recipe.compile else ""
        return (
            f"about {about_time(self.seconds)} on {self.device}: {self.times.mean:.2g} s per step ({spread}{without}), "
            f"about {about_time(self.epoch_seconds)} per epoch with validation; the test at the end is not included"
        )

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def dry_run(recipe: Recipe, folder: Path, console: Console, seconds: float = SECONDS) -> DryRun:
    """Read the data, build the model and take a few steps, none of which is kept. Nothing is written.

    folder: of the run that is planned. seconds: for which steps are timed.
    """
    is_auto = recipe.batch_size == AUTO_BATCH
    recipe = with_batch_size(recipe, folder, console)
    task = trial_task(recipe, console)
    trial = TrialSteps(task)
    times = timed_steps(trial, seconds)
    with closing(trial.batches()) as endless:  # type: ignore[type-var]  # a generator
        batches = [*islice(endless, _BATCHES), *longest_texts(task)]
    loop = assemble(recipe.model_copy(update={"compile": False}), task, folder, Console(quiet=True))
    return DryRun(
        recipe=recipe,
        folder=folder,
        device=str(task.device),
        samples=task.samples(),
        classes=tuple(task.model.card.labels),
        steps_per_epoch=task.steps_per_epoch(),
        parameters=sum(parameter.numel() for parameter in task.model.parameters()),
        trained=_trained(trial),
        macs=training_macs(task, batches[0]),
        memory=step_memory(trial, batches),
        memory_limit=memory_limit(task.device),
        times=times,
        disk=run_bytes(loop),
        disk_free=free_bytes(folder),
        decided=decided(recipe, task) | ({"batch_size": str(recipe.batch_size)} if is_auto else {}),
    )


def decided(recipe: Recipe, task: Task) -> dict[str, str]:
    """Return the fields that the recipe leaves to the machine or the data, with the values that were chosen."""
    found = {"device": str(task.device)} if recipe.device == "auto" else {}
    if recipe.precision == "auto":
        found["precision"] = pick_precision("auto", task.device)
    if getattr(recipe, "packed", "") == "auto":
        found["packed"] = str(packs("auto", task.device)).lower()
    if getattr(recipe, "metric", None) == "":
        found["metric"] = task.metric
    return found


def _trained(trial: TrialSteps) -> int:
    groups: Sequence[Mapping[str, Any]] = trial.optimizer.param_groups
    return sum(weight.numel() for group in groups for weight in group["params"])
