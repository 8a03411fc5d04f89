"""Builds the training step of a recipe.

From `patchword train` to `optimizer.step()` there are six files:
    cli/training/train.py         train      reads the command line
    recipes/train.py              train      opens the run folder, loads data and model, builds the loop
    recipes/steps.py              build_step builds the step: this file
    training/loop.py              Loop.run   calls the step for each batch
    training/guard/nonfinite.py   __call__   computes the gradient, applies it unless it is non-finite
    training/step.py              PlainStep  gradient: micro-batches, backward; update: clip, optimizer.step()
"""

from pathlib import Path

import torch
from rich.console import Console
from torch import nn

from patchword.core.device import pick_precision
from patchword.core.errors import UserError
from patchword.recipes.run import resume_command
from patchword.recipes.sample_names import sample_names
from patchword.recipes.schema.recipe import Recipe
from patchword.recipes.task import Task
from patchword.training.guard.loss_spike import LossSpikeRewind
from patchword.training.guard.nonfinite import NonFiniteGuard
from patchword.training.guard.oom_retry import OomRetry
from patchword.training.parallel.process_group import SINGLE_PROCESS, SingleProcess
from patchword.training.parallel.rank import rank_of
from patchword.training.sam import Adaptive, SharpnessAware, Steepest
from patchword.training.step import ComputesGradient, Objective, PlainStep, Step
from patchword.training.weight_average import EpochAverage, WeightAverage


def check_step(recipe: Recipe) -> None:
    """Raise an error for a setting that would have no effect."""
    if recipe.sam_adaptive and not recipe.sam:
        raise UserError(
            "recipe field 'sam_adaptive' has no effect without 'sam'", expected="sam above 0", hint="e.g. sam=2"
        )
    if recipe.loss_spike_factor and rank_of() is not None:
        raise UserError(
            "recipe field 'loss_spike_factor' works with one process only",
            hint="set loss_spike_factor=0, or train without --processes",
        )
    if recipe.freeze == "gradual" and (recipe.compile or rank_of() is not None or not recipe.bias_correction):
        raise UserError(
            "recipe field 'freeze': gradual unfreezing changes the set of trained weights in every epoch",
            expected="one process, compile=false and bias_correction=true",
        )
    if 0 < recipe.loss_spike_factor <= 1:
        raise UserError(
            "recipe field 'loss_spike_factor'", expected="0, or a number above 1, e.g. 3", got=recipe.loss_spike_factor
        )


def build_step(
    recipe: Recipe,
    task: Task,
    objective: Objective,
    optimizer: torch.optim.Optimizer,
    folder: Path,
    console: Console,
    group: SingleProcess = SINGLE_PROCESS,
) -> Step:
    """Build the step of a run, from the inside to the outside.

    objective -> micro-batches -> backward -> clip -> optimizer  PlainStep
    a second gradient at perturbed weights                       SharpnessAware, if the recipe asks for SAM
    the gradient again in smaller micro-batches                  OomRetry, when the memory is full
    no update from a non-finite loss or gradient                 NonFiniteGuard
    """
    model, resume = task.model, resume_command(folder)

    def log(text: str) -> None:
        console.print(text, style="yellow", highlight=False, markup=False)

    plain, gradient = build_gradient(recipe, task, objective, optimizer, group)
    return NonFiniteGuard(
        OomRetry(gradient, plain, model, log, resume),
        plain,
        model,
        folder,
        log,
        on_nonfinite=recipe.on_nonfinite,
        name=sample_names(task),
        resume_command=f"{resume} on_nonfinite=skip",
        spikes=LossSpikeRewind(recipe.loss_spike_factor, folder / "checkpoints" / "rewind", log)
        if recipe.loss_spike_factor
        else None,
    )


def build_gradient(
    recipe: Recipe,
    task: Task,
    objective: Objective,
    optimizer: torch.optim.Optimizer,
    group: SingleProcess = SINGLE_PROCESS,
) -> tuple[PlainStep, ComputesGradient]:
    """Return the plain step, and what computes its gradient: itself, or SAM around it."""
    plain = PlainStep(
        objective,
        optimizer,
        clip_norm=recipe.clip_norm,
        micro_batches=group.micro_batches(recipe.gradient_accumulation),
        precision=pick_precision(recipe.precision, task.device),
        gradient_sync=group.gradient_sync(task.model, [p for part in optimizer.param_groups for p in part["params"]]),
    )
    if not recipe.sam:
        return plain, plain
    ascent = Adaptive(recipe.sam) if recipe.sam_adaptive else Steepest(recipe.sam)
    return plain, SharpnessAware(plain, task.model, ascent)


def build_average(recipe: Recipe, model: nn.Module, steps: int) -> WeightAverage:
    """Return the average of the weights that is validated. steps: per epoch"""
    if recipe.average_last_epochs:
        return EpochAverage(model, recipe.average_last_epochs, steps)
    return WeightAverage(model, recipe.ema_decay)
