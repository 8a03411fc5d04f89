"""How the weights of a run move: from the fields of a recipe to a step, and what watches over it."""

from pathlib import Path

import torch
from rich.console import Console

from patchword.core.device import pick_precision
from patchword.core.errors import UserError
from patchword.layers.model import Model
from patchword.recipes.recipe import Recipe
from patchword.recipes.run import resume_command
from patchword.recipes.sample_names import sample_names
from patchword.recipes.task import Task
from patchword.training.guard.loss_spike import LossSpikeRewind
from patchword.training.guard.nonfinite import NonFiniteGuard
from patchword.training.guard.oom_retry import OomRetry
from patchword.training.parallel.process_group import SINGLE_PROCESS, SingleProcess
from patchword.training.parallel.rank import rank_of
from patchword.training.sam import Adaptive, SharpnessAware, Steepest
from patchword.training.step import Objective, PlainStep
from patchword.training.weight_average import Average, EpochAverage


def check_step(recipe: Recipe) -> None:
    """A setting that would silently do nothing is refused."""
    if recipe.sam_adaptive and not recipe.sam:
        raise UserError(
            "recipe field 'sam_adaptive' has no effect without 'sam'", expected="sam above 0", hint="e.g. sam=2"
        )
    if recipe.loss_spike_factor and rank_of() is not None:
        raise UserError(
            "recipe field 'loss_spike_factor' is for runs of one process", hint="leave it out, or --processes"
        )
    if 0 < recipe.loss_spike_factor <= 1:
        raise UserError(
            "recipe field 'loss_spike_factor'", expected="0, or a number above 1, e.g. 3", got=recipe.loss_spike_factor
        )


def step_of(
    recipe: Recipe,
    objective: Objective,
    optimizer: torch.optim.Optimizer,
    model: Model,
    device: torch.device,
    group: SingleProcess = SINGLE_PROCESS,
) -> PlainStep | SharpnessAware:
    """The plain step, or SAM over it."""
    plain = PlainStep(
        objective,
        optimizer,
        clip=recipe.clip_norm,
        parts=group.parts(recipe.gradient_accumulation),
        precision=pick_precision(recipe.precision, device),
        exchange=group.exchange(model, [weight for part in optimizer.param_groups for weight in part["params"]]),
    )
    if not recipe.sam:
        return plain
    return SharpnessAware(plain, model, Adaptive(recipe.sam) if recipe.sam_adaptive else Steepest(recipe.sam))


def averaged(recipe: Recipe, model: Model, steps: int) -> Average:
    """The weights that are tested. steps: of an epoch"""
    return (
        EpochAverage(model, recipe.average_last_epochs, steps)
        if recipe.average_last_epochs
        else Average(model, recipe.ema_decay)
    )


def guarded(
    step: PlainStep | SharpnessAware, recipe: Recipe, task: Task, folder: Path, console: Console
) -> NonFiniteGuard:
    """The step, taken again in smaller pieces when the memory is full, and left out where its numbers are none."""

    def say(text: str) -> None:
        console.print(text, style="yellow", highlight=False, markup=False)

    plain, again = step if isinstance(step, PlainStep) else step.plain, resume_command(folder)
    return NonFiniteGuard(
        OomRetry(step, plain, task.model, say, again),
        plain,
        task.model,
        folder,
        say,
        on_bad=recipe.on_nonfinite,
        name=sample_names(task),
        again=f"{again} on_nonfinite=skip",
        rewind=LossSpikeRewind(recipe.loss_spike_factor, folder / "checkpoints" / "rewind", say)
        if recipe.loss_spike_factor
        else None,
    )
