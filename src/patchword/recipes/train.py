"""From a recipe to a finished run: gather what it asks for, assemble the loop, run it."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from patchword.core.device import machine
from patchword.core.errors import UserError
from patchword.core.files import clear_litter, make_folder, read_json, write_json, write_text
from patchword.data.randomness import step_seed
from patchword.fusion.compile import compile
from patchword.layers.activation_checkpointing import checkpoint_activations
from patchword.recipes.distillation.gather import compressed
from patchword.recipes.distillation.images import taught
from patchword.recipes.elmo import task as elmo_task
from patchword.recipes.elmo.recipe import ElmoRecipe
from patchword.recipes.image import task as image_task
from patchword.recipes.image.recipe import ImageRecipe
from patchword.recipes.parallel import check_group
from patchword.recipes.pretraining import task as pretraining_task
from patchword.recipes.pretraining.recipe import PretrainingRecipe
from patchword.recipes.recipe import CHANGEABLE, Recipe, read_recipe
from patchword.recipes.resume import resumable, resume_loop, tell_cost
from patchword.recipes.steps import averaged, check_step, guarded, step_of
from patchword.recipes.task import Task
from patchword.recipes.text import task as text_task
from patchword.recipes.text.recipe import TextRecipe
from patchword.recipes.translation import task as translation_task
from patchword.recipes.translation.recipe import TranslationRecipe
from patchword.recipes.vectors import task as over_vectors_task
from patchword.recipes.vectors.recipe import OverVectorsRecipe
from patchword.training.checkpoint.background import BackgroundCheckpoints
from patchword.training.checkpoint.checkpoint import Cost
from patchword.training.checkpoint.disk_check import check_disk
from patchword.training.journal import RunJournal
from patchword.training.lock.lock import exclusive, refuse_second
from patchword.training.loop import Loop
from patchword.training.optimizer import adamw
from patchword.training.parallel.files import Silent, checkpoints_of
from patchword.training.parallel.process_group import SINGLE_PROCESS, SingleProcess
from patchword.training.parallel.rank import is_main
from patchword.training.parallel.rendezvous import SAVED, joined, tell_launcher
from patchword.training.schedule import WarmupCosine, WarmupLinear, inverse_root
from patchword.training.signals import interruptible, stop_asked

SCHEDULES: dict[str, Callable[[float, int, int, float], Callable[[int], float]]] = {
    "cosine": WarmupCosine,
    "linear": WarmupLinear,
    "inverse-root": inverse_root,
}


def train(recipe: Recipe, folder: Path, console: Console, resume: bool = False) -> bool:
    """Trains until the end (True) or until asked to stop (False); the same call with `resume` goes on bit by bit."""
    recipe = recipe.located()
    check_folder(recipe, folder, resume)
    check_step(recipe)
    if is_main():
        refuse_second(folder)  # the others hear of it by the end of the first one
    with joined(recipe.sharding, recipe.device) as group:
        console = console if group.is_main else Console(quiet=True)
        check_group(recipe, group)
        task = gather(recipe, console)
        if recipe.recompute is not False:
            checkpoint_activations(task.model, None if recipe.recompute is True else recipe.recompute)
        group.prepare(task.model)
        with resumable(folder), group.first(exclusive(folder)), interruptible() as interrupted:
            if group.is_main:
                begin(recipe, task, folder)
            loop = assemble(recipe, task, folder, console, group)
            loop.interrupted, loop.abandoned = interrupted, group.alone(stop_asked)
            if resume:
                resume_loop(loop, console)
            if group.is_main:
                check_disk(loop, folder)
            return loop.run() and not any(group.agree(stop_asked()))


def begin(recipe: Recipe, task: Task, folder: Path) -> None:
    """What a run's folder says before the first step."""
    remember_data(task.fingerprint(), folder)
    clear_litter(folder)
    write_text(folder / "recipe.yaml", recipe.to_yaml())
    write_json(folder / "machine.json", machine(task.device))


def gather(recipe: Recipe, console: Console) -> Task:
    """Reads the training data and builds the model."""
    match recipe:
        case ImageRecipe():
            return taught(image_task.gather(recipe, console), console)
        case TextRecipe():
            return compressed(text_task.gather(recipe, console), console)
        case TranslationRecipe():
            return translation_task.gather(recipe, console)
        case PretrainingRecipe():
            return compressed(pretraining_task.gather(recipe, console), console)
        case OverVectorsRecipe():
            return over_vectors_task.gather(recipe, console)
        case ElmoRecipe():
            return elmo_task.gather(recipe, console)
    raise TypeError(f"no task is made of a {type(recipe).__name__}")


def remember_data(now: dict[str, Any], folder: Path) -> None:
    """Refuses to go on with other training samples than a run began with."""
    before = read_json(folder / "data.json") if (folder / "data.json").is_file() else now
    if before != now:
        raise UserError(
            f"the training samples of {now['name']} have changed since {folder} was begun",
            expected=f"{before.get('samples')} samples as they were",
            got=f"{now['samples']} samples",
            hint="restore them, or give this run another --name",
        )
    write_json(folder / "data.json", now)


def check_folder(recipe: Recipe, folder: Path, resume: bool) -> None:
    """Refuses to mix two runs in one folder."""
    if (folder / "recipe.yaml").is_file() and _has_learned(folder):
        before = read_recipe(folder / "recipe.yaml")
        if not resume:
            raise UserError(
                f"{folder} holds a run already", hint="add --resume to go on with it, or give another --name"
            )
        changed = [name for name in type(recipe).model_fields if getattr(before, name, None) != getattr(recipe, name)]
        changed = [name for name in changed if name not in CHANGEABLE]
        if changed:
            was = ", ".join(f"{name}={getattr(before, name)}" for name in changed)
            raise UserError(
                f"{folder} was started with another recipe", expected=was, hint="give this run another --name"
            )
    check_writable(folder)


def _has_learned(folder: Path) -> bool:
    """A run that failed before it kept anything may be begun anew."""
    return (folder / "model.safetensors").is_file() or any((folder / "checkpoints").glob("*"))


def check_writable(folder: Path) -> None:
    """The folder can be made or written into, found out without making it yet."""
    if len(os.fsencode(folder.name)) > 200:
        raise UserError("the run's name is too long", expected="200 letters at most", got=len(folder.name))
    make_folder(next(path for path in (folder, *folder.absolute().parents) if path.exists()))


def assemble(recipe: Recipe, task: Task, folder: Path, console: Console, group: SingleProcess = SINGLE_PROCESS) -> Loop:
    """The loop of a recipe. group: the processes of the run, which the model is prepared for"""
    model = task.model
    forward: Callable[[Any], Any] = model
    if recipe.compile:
        records = recipe.accumulate == 1 and recipe.sharding == "none"
        forward = compile(model, training=True, dynamic=task.shapes_change or None, cuda_graphs=records)
    optimizer = adamw(model, recipe.rate, recipe.decay, layer_decay=recipe.layer_decay, corrected=recipe.corrected)
    steps = task.steps_per_epoch()
    total = steps * recipe.epochs
    step = step_of(recipe, task.objective(forward), optimizer, model, task.device, group)
    guard = guarded(step, recipe, task, folder, console)

    def first_saved(cost: Cost) -> None:
        tell_launcher(SAVED)
        tell_cost(cost, folder, console)

    saved = BackgroundCheckpoints(folder / "checkpoints", tell=first_saved)
    return Loop(
        model=model,
        optimizer=optimizer,
        step=guard,
        watch=guard,
        schedule=SCHEDULES[recipe.schedule](recipe.rate, total, round(total * recipe.warmup), recipe.floor),
        average=averaged(recipe, model, steps),
        data=lambda epoch, first: group.batches(task.data(epoch, first, group.deal)),
        validate=lambda: task.validate(group.deal),
        keep_best=lambda: group.save(model, lambda: task.save(folder)),
        checkpoints=checkpoints_of(group, saved, model, optimizer),
        journal=RunJournal(folder, console, task.unit, task.metric) if group.is_main else Silent(),
        step_seed=lambda step: group.seed(step_seed(recipe.seed, step), step_seed),
        agree=group.agree,
        epochs=recipe.epochs,
        steps_per_epoch=steps,
        patience=recipe.patience,
        save_seconds=60 * recipe.save_minutes,
        metric=task.metric,
    )
