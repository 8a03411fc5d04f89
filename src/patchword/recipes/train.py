"""Trains a recipe: loads its data and model, builds the loop, runs it."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import nn

from patchword.core.device import machine
from patchword.core.errors import UserError
from patchword.core.files import make_folder, remove_temporary_files, write_json, write_text
from patchword.core.seal.changing import changing, remove_staging
from patchword.data.randomness import step_seed
from patchword.fusion.compile import compile
from patchword.layers.activation_checkpointing import checkpoint_activations
from patchword.recipes.early_stopping import early_stop
from patchword.recipes.kinds import kind_of
from patchword.recipes.parallel import check_agreement, check_group, samples_of
from patchword.recipes.results.calibration import CALIBRATION
from patchword.recipes.results.mistakes import MISTAKES
from patchword.recipes.resume import note_other_machine, report_cost, resumable, resume_loop
from patchword.recipes.run_folders.finished import is_finished
from patchword.recipes.run_folders.records import DATA, EVALUATION, read_record
from patchword.recipes.run_folders.restarts import check_recipe_is_there, check_resumable, has_results
from patchword.recipes.run_folders.samples import SAMPLES, check_trained, recording
from patchword.recipes.run_folders.sealing import begun, origin_of_run
from patchword.recipes.schema.batch_size import AUTO_BATCH
from patchword.recipes.schema.fields import flat_fields
from patchword.recipes.schema.reading import read_recipe
from patchword.recipes.schema.recipe import CHANGEABLE, Recipe
from patchword.recipes.steps import build_average, build_step, check_step
from patchword.recipes.task import Task
from patchword.training.checkpoint.background import BackgroundCheckpoints
from patchword.training.checkpoint.checkpoint import SaveCost
from patchword.training.checkpoint.disk_check import check_disk
from patchword.training.freezing import epoch_starter, freeze_backbone
from patchword.training.lock.lock import check_in_place, check_unlocked, exclusive
from patchword.training.loggers.loggers import RunLoggers
from patchword.training.loggers.progress import LoggedProgress
from patchword.training.loop import Loop
from patchword.training.optimizer import adamw
from patchword.training.parallel.files import SilentLog, checkpoints_of
from patchword.training.parallel.process_group import SINGLE_PROCESS, SingleProcess
from patchword.training.parallel.rank import is_main
from patchword.training.parallel.rendezvous import SAVED, join_group, report_to_launcher
from patchword.training.progress_files import ConfusionLog, RecordedSteps
from patchword.training.run_log import RunLog, read_metrics
from patchword.training.schedule import WarmupCosine, WarmupLinear, WarmupSteps, inverse_root
from patchword.training.signals import interruptible, stop_requested
from patchword.training.state import ProgressLog

SCHEDULES: dict[str, Callable[[float, int, int, float], Callable[[int], float]]] = {
    "cosine": WarmupCosine,
    "linear": WarmupLinear,
    "inverse-root": inverse_root,
    "step": WarmupSteps,
}


class Supervision:
    """How a run is observed and stopped. By default, only signals stop it."""

    def observe(self, log: ProgressLog) -> ProgressLog:
        """Return the log that the loop uses instead of the run's own; called in the main process."""
        return log

    def interruptible(self) -> AbstractContextManager[Callable[[], bool]]:
        """Return a context in which signals are handled; its value is a function that is True after the first one."""
        return interruptible()

    def stop(self) -> bool:
        """Return True once the run must stop for another reason than a signal."""
        return False

    def ends_early(self) -> bool:
        """Return True if an unfinished run was stopped on purpose, so that its best weights are evaluated."""
        return False


def train(
    recipe: Recipe,
    folder: Path,
    console: Console,
    resume: bool = False,
    supervision: Supervision | None = None,
    loggers: RunLoggers | None = None,
) -> bool:
    """Train to the end (True) or until a stop is requested (False). With `resume` the run continues bit-equal.

    A run that is finished already stays as it is. loggers: record the run, and are closed by the caller.
    """
    supervision = supervision or Supervision()
    recipe = recipe.located()
    check_folder(recipe, folder, resume)
    check_step(recipe)
    if is_main():
        check_unlocked(folder)  # if this fails, the other processes end with the main one
    with join_group(recipe.sharding, recipe.device) as group:
        console = console if group.is_main else Console(quiet=True)
        if any(group.any_rank(resume and is_main() and is_finished(folder))):
            return True
        check_group(recipe, group)
        task = build_task(recipe, console)
        if group.size > 1:
            check_agreement(task.fingerprint(), group)
        prepare_model(recipe, task.model)
        group.prepare(task.model)
        with resumable(folder), group.main_only(exclusive(folder)), supervision.interruptible() as interrupted:
            if group.is_main:
                check_folder(recipe, folder, resume)  # another process may have had the lock while the data were read
                if resume:
                    note_other_machine(folder, machine(task.device), console)
                begin(recipe, task, folder, resume)
            loop = assemble(recipe, task, folder, console, group)

            def stopped() -> bool:
                if group.is_main:
                    check_in_place(folder)  # else the next save would make another folder
                return supervision.stop()

            loop.interrupted = lambda: interrupted() or stopped()
            loop.cancelled = group.local_decision(lambda: stop_requested() or stopped())
            if group.is_main:
                loop.run_log = supervision.observe(loop.run_log)
                if loggers is not None:
                    fields = dict(flat_fields(recipe.model_dump(mode="json")))
                    loop.run_log = LoggedProgress(loop.run_log, loggers, folder, fields)
            if resume:
                resume_loop(loop, console)
            if group.is_main:
                check_disk(loop, folder)
            with recording(recipe, folder, console, group.is_main) as record:
                finished = loop.run() and not any(group.any_rank(stop_requested()))
                if finished:
                    record.wait()
            if finished and (reason := early_stop(recipe, read_metrics(folder / "metrics.jsonl"))):
                console.print(reason, highlight=False, markup=False)
            return finished


def begin(recipe: Recipe, task: Task, folder: Path, resume: bool = False) -> None:
    """Write the files that a run folder has before the first step. A finished run, which cannot resume, is refused."""
    if is_finished(folder) and (folder / "model.safetensors").is_file():
        raise UserError(
            f"{folder} was finished by another process meanwhile", hint=f"its result: patchword runs show {folder}"
        )
    data = task.fingerprint()
    check_data(data, folder)
    if resume:
        check_trained(recipe, folder)
    else:
        (folder / SAMPLES).unlink(missing_ok=True)  # of a start that failed
    remove_temporary_files(folder)
    remove_staging(folder)
    with begun(folder, recipe, samples_of(data), resume) as files:
        write_json(files / DATA, data)
        write_text(files / "recipe.yaml", recipe.to_yaml())
        write_json(files / "machine.json", machine(task.device))


def save_best(task: Task, folder: Path) -> None:
    """Save the current weights; what was computed with earlier ones is removed, so that none has others' result."""
    with changing(folder, removed=(EVALUATION, MISTAKES, CALIBRATION)) as files:
        task.save(files)


def build_task(recipe: Recipe, console: Console) -> Task:
    """Read the training data and build the model."""
    if recipe.batch_size == AUTO_BATCH:
        raise UserError(
            "batch_size=auto is for one recipe", expected="a number: a study compares runs of one batch size"
        )
    return kind_of(recipe).build_task(recipe, console)


def prepare_model(recipe: Recipe, model: nn.Module) -> None:
    """Change the model of a new task as its recipe asks, before the optimizer is built."""
    if recipe.activation_checkpointing is not False:
        stages = None if recipe.activation_checkpointing is True else recipe.activation_checkpointing
        checkpoint_activations(model, stages)
    if recipe.freeze == "backbone":
        freeze_backbone(model)


def build_optimizer(recipe: Recipe, model: nn.Module) -> torch.optim.AdamW:
    return adamw(
        model,
        recipe.learning_rate,
        recipe.weight_decay,
        layer_decay=recipe.layer_decay,
        lr_ratios=recipe.lr_ratios(),
        bias_correction=recipe.bias_correction,
    )


def check_data(now: dict[str, Any], folder: Path) -> None:
    """Raise an error if a resumed run began with other training samples."""
    before = read_record(folder, DATA) or now
    if samples_of(before) != samples_of(now):
        raise UserError(
            f"the training samples of {now['name']} have changed since the run {folder} was started",
            expected=f"the same {before.get('samples')} samples",
            got=f"{now['samples']} samples",
            hint="restore the samples, or start a new run with another --name",
        )


def check_folder(recipe: Recipe, folder: Path, resume: bool) -> None:
    """Raise an error if the folder has another run, or one that cannot be resumed, or cannot be written."""
    if has_results(folder):
        check_recipe_is_there(folder)
        before = read_recipe(folder / "recipe.yaml")
        if not resume:
            raise UserError(f"{folder} has a run already", hint="add --resume to resume it, or choose another --name")
        changed = [name for name in type(recipe).model_fields if getattr(before, name, None) != getattr(recipe, name)]
        changed = [name for name in changed if name not in CHANGEABLE]
        if changed:
            original = ", ".join(f"{name}={getattr(before, name)}" for name in changed)
            raise UserError(
                f"{folder} was started with another recipe",
                expected=original,
                hint=f"`patchword train {folder} --resume` keeps them; a new run needs another --name",
            )
        check_resumable(folder)
    check_writable(folder)


def check_writable(folder: Path) -> None:
    """Raise an error if the folder cannot be created or written; does not create it."""
    if len(os.fsencode(folder.name)) > 200:
        raise UserError(
            "the name of the run is too long", expected="at most 200 bytes", got=len(os.fsencode(folder.name))
        )
    check_is_utf8(folder)
    make_folder(next(path for path in (folder, *folder.absolute().parents) if path.exists()))


def check_is_utf8(folder: Path) -> None:
    """Raise an error for a folder in which safetensors cannot open a file."""
    try:
        str(folder.absolute()).encode()
    except UnicodeEncodeError:
        raise UserError("a run cannot be written there", expected="a folder whose name is UTF-8", got=folder) from None


def assemble(recipe: Recipe, task: Task, folder: Path, console: Console, group: SingleProcess = SINGLE_PROCESS) -> Loop:
    """Build the loop of a recipe. group: the processes of the run; the model is already prepared for them."""
    model = task.model
    forward: Callable[[Any], Any] = model
    if recipe.compile:
        records = recipe.gradient_accumulation == 1 and recipe.sharding == "none"
        forward = compile(model, training=True, dynamic=task.shapes_change or None, cuda_graphs=records)
    optimizer = build_optimizer(recipe, model)
    steps = task.steps_per_epoch()
    total = steps * recipe.epochs
    step = build_step(recipe, task, task.objective(forward), optimizer, folder, console, group)

    def on_first_save(cost: SaveCost) -> None:
        report_to_launcher(SAVED)
        report_cost(cost, folder, console)

    schedule = SCHEDULES[recipe.schedule](
        recipe.learning_rate, total, round(total * recipe.warmup), recipe.min_lr_ratio
    )
    run_log: ProgressLog = SilentLog()
    if group.is_main:
        run_log = RecordedSteps(RunLog(folder, console, task.unit, task.metric), folder, schedule)
    origin = origin_of_run(folder)
    checkpoints = BackgroundCheckpoints(folder / "checkpoints", on_first_save=on_first_save, origin=origin)
    return Loop(
        model=model,
        optimizer=optimizer,
        step=step,
        schedule=schedule,
        average=build_average(recipe, model, steps),
        data=lambda epoch, first: group.batches(task.data(epoch, first, group.sharing)),
        validate=lambda: task.validate(group.sharing),
        save_best=lambda: group.save(model, lambda: save_best(task, folder)),
        checkpoints=checkpoints_of(group, checkpoints, model, optimizer),
        run_log=run_log,
        step_seed=lambda step: group.seed(step_seed(recipe.seed, step), step_seed),
        on_validation=ConfusionLog(folder) if group.is_main else lambda validation, state: None,
        start_epoch=epoch_starter(model, recipe.freeze),
        any_rank=group.any_rank,
        epochs=recipe.epochs,
        steps_per_epoch=steps,
        patience=recipe.patience,
        save_seconds=60 * recipe.save_minutes,
        metric=task.metric,
    )
