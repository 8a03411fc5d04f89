"""batch_size=auto: finds the number by real steps, before the run starts; the run's recipe then has the number."""

from contextlib import closing
from pathlib import Path
from typing import TypeVar

import torch
from rich.console import Console

from patchword.core.disk_space import format_bytes
from patchword.core.errors import UserError
from patchword.core.memory import is_out_of_memory
from patchword.recipes.run_folders.restarts import has_results
from patchword.recipes.schema.batch_size import AUTO_BATCH
from patchword.recipes.schema.reading import read_recipe
from patchword.recipes.schema.recipe import Recipe
from patchword.recipes.task import Task
from patchword.training.parallel.rank import rank_of
from patchword.tuning.batch_search import BatchSearch, BatchTrial, FoundBatch
from patchword.tuning.memory import longest_texts, memory_limit, step_memory
from patchword.tuning.trial_steps import TrialSteps, timed_steps, trial_task

R = TypeVar("R", bound=Recipe)

_STEPS = 10  # that an epoch has at least: fewer updates would train worse, whatever fits into memory
_SECONDS = 1.0  # for which steps are timed per size
_HEADROOM = {"cuda": 0.9, "cpu": 0.5}  # fraction of the free memory; on a CPU, temporary results are not counted


def with_batch_size(recipe: R, folder: Path, console: Console, usual: int = 0) -> R:
    """Return the recipe with a number for batch_size=auto; any other recipe is returned unchanged.

    A run that exists in the folder, or in a sub-folder for another seed, keeps the number that it has.

    usual: the batch size of the recipe before it was changed, for the hint on the learning rate.
    """
    if recipe.batch_size != AUTO_BATCH:
        return recipe
    if earlier := _earlier(folder):
        return recipe.model_copy(update={"batch_size": earlier})
    _check(recipe)
    default = int(type(recipe).model_fields["batch_size"].default)
    found = find_batch_size(trial_task(recipe.model_copy(update={"batch_size": default}), Console(quiet=True)))
    console.print(describe(recipe, found, usual or default), highlight=False, markup=False)
    return recipe.model_copy(update={"batch_size": found.trial.size})


def find_batch_size(task: Task) -> FoundBatch:
    """Return the largest batch size that fits, by steps on this machine."""
    device, default = task.device, int(type(task.recipe).model_fields["batch_size"].default)
    free, first = memory_limit(device), max(2, default // 16)
    most = first
    while task.with_batch_size(2 * most).steps_per_epoch() >= _STEPS:
        most *= 2
    limit = None if free is None else round(_HEADROOM.get(device.type, 0.5) * free)
    search = BatchSearch(first, most, limit, on_cpu=device.type == "cpu")
    return search.run(lambda size: try_steps(task, size))


def try_steps(task: Task, size: int) -> BatchTrial | None:
    """Take steps with a batch size; None if the memory is full."""
    if task.device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(task.device)
    trial = TrialSteps(task.with_batch_size(size))
    try:
        for longest in longest_texts(trial.task):
            trial.step(longest, 0.0)
        times = timed_steps(trial, _SECONDS)
        with closing(trial.batches()) as batches:  # type: ignore[type-var]  # a generator
            memory = step_memory(trial, longest_texts(trial.task) or [next(batches)])
        return BatchTrial(size, memory.total, times.mean)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    finally:
        trial.optimizer.zero_grad(set_to_none=True)
    return None


def describe(recipe: Recipe, found: FoundBatch, usual: int) -> str:
    """Return the number that was found, why, and the usual rules for the learning rate, which stays."""
    size, rate = found.trial.size, recipe.learning_rate
    needs = f"a step needs about {format_bytes(found.trial.memory)} and takes about {found.trial.seconds:.2g} s"
    text = f"batch_size={size} was found for batch_size=auto: {needs}; {found.reason}."
    if size == usual:
        return text
    root, linear = (rate * (size / usual) ** power for power in (0.5, 1.0))
    return (
        f"{text}\nlearning_rate={rate:g} stays as it is, for batch_size={usual} in the recipe. The usual rules for "
        f"another batch size: with its square root (Adam), learning_rate={root:.2g}; linear (SGD), {linear:.2g}."
    )


def _earlier(folder: Path) -> int:
    """Return the number of an existing run; 0 if there is none. One that failed before it saved anything is none."""
    for file in [folder / "recipe.yaml", *sorted(folder.glob("*/recipe.yaml"))]:
        if file.is_file() and has_results(file.parent):
            return read_recipe(file).batch_size
    return 0


def _check(recipe: Recipe) -> None:
    if rank_of() is not None:
        raise UserError(
            "batch_size=auto looks at one process",
            expected="a number",
            hint="find it with one process (--dry-run), and multiply it by the number of processes",
        )
    if getattr(recipe, "tokens", 0):
        raise UserError("batch_size=auto has no effect with 'tokens'", expected="tokens=0, or a number")
