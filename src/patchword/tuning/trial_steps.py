"""Real training steps on a model of their own, which is never saved."""

import math
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import count

import torch
from rich.console import Console

from patchword.data.randomness import step_seed
from patchword.recipes.schema.recipe import Recipe
from patchword.recipes.steps import build_gradient, check_step
from patchword.recipes.task import Task
from patchword.recipes.train import build_optimizer, build_task, prepare_model
from patchword.training.freezing import epoch_starter
from patchword.training.step import Batch

WARM_UP = 2  # steps: memory is allocated, kernels are chosen, threads that read data start
_LEAST, _MOST = 3, 50  # steps that are timed
_SLOW = 60.0  # seconds after which fewer steps have to do


def trial_task(recipe: Recipe, console: Console) -> Task:
    """Read the data and build the model as training does, without a run folder."""
    check_step(recipe)
    task = build_task(recipe.located(), console)
    prepare_model(recipe, task.model)
    return task


class TrialSteps:
    """Takes steps as the run does, except that torch.compile is left out and that memory errors are not handled.

    All weights are trained that the run trains in its last epoch: with freeze=gradual, its first epochs are cheaper.
    """

    def __init__(self, task: Task) -> None:
        self.task, self.recipe = task, task.recipe
        self.optimizer = build_optimizer(self.recipe, task.model)
        self.plain, self.gradient = build_gradient(self.recipe, task, task.objective(task.model), self.optimizer)
        self._start_epoch = epoch_starter(task.model, self.recipe.freeze)
        self._taken = 0

    def batches(self) -> Iterator[Batch]:
        """Yield the batches of the run, from its first on; close the iterator when you have enough."""
        for epoch in count():
            self.task.model.train()
            self._start_epoch(self.recipe.epochs - 1)
            yield from self.task.data(epoch, 0)

    def step(self, batch: Batch, learning_rate: float) -> float:
        """Take a step and return the mean loss before it; NaN if the loss or the gradient is non-finite."""
        torch.manual_seed(step_seed(self.recipe.seed, self._taken))
        self._taken += 1
        loss, _ = self.gradient.gradient(batch)
        nonfinite = self.plain.update(learning_rate)
        return math.nan if bool(nonfinite) else float(loss) / batch.weight


@dataclass(frozen=True)
class StepTimes:
    """Seconds per step, with the reading of its batch. seconds: of each timed step, without the warm-up."""

    seconds: tuple[float, ...]

    @property
    def mean(self) -> float:
        return sum(self.seconds) / len(self.seconds)


def timed_steps(trial: TrialSteps, seconds: float) -> StepTimes:
    """Time steps for about this many seconds after the warm-up; the learning rate is 0, so that nothing diverges."""
    taken: list[float] = []
    with closing(trial.batches()) as batches:  # type: ignore[type-var]  # a generator
        began = time.perf_counter()
        for number, batch in enumerate(batches):
            trial.step(batch, 0.0)
            now = time.perf_counter()
            if number >= WARM_UP or now - began > _SLOW:
                taken.append(now - began)
            spent = sum(taken)
            if len(taken) >= _MOST or (spent >= seconds and (len(taken) >= _LEAST or spent > _SLOW)):
                break
            began = now
    return StepTimes(tuple(taken))
