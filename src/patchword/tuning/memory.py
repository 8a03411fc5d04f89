"""The memory of a training step: counted on any device, measured on a GPU."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn

from patchword.core.memory import ENOUGH, free_memory
from patchword.data.text.batching.batches import TextBatches
from patchword.recipes.distillation.task import TaughtTask
from patchword.recipes.task import Task
from patchword.recipes.text.task import TextTask
from patchword.training.checkpoint.disk_check import tensor_bytes
from patchword.training.step import Batch, autocast
from patchword.tuning.trial_steps import TrialSteps


@dataclass(frozen=True)
class StepMemory:
    """Bytes that a step needs. activations: what autograd keeps of one micro-batch. peak: measured, on a GPU only."""

    weights: int
    gradients: int
    optimizer: int  # the two moments of AdamW
    average: int  # the weight average, if the recipe has one
    teacher: int
    activations: int
    peak: int | None = None

    @property
    def total(self) -> int:
        parts = {name: value for name, value in asdict(self).items() if name != "peak"}
        return self.peak if self.peak is not None else sum(parts.values())


def step_memory(trial: TrialSteps, batches: Iterable[Batch]) -> StepMemory:
    """Count the memory of a step, with the activations of the largest of these batches."""
    model, recipe, task = trial.task.model, trial.recipe, trial.task
    trained = tensor_bytes(weight for group in trial.optimizer.param_groups for weight in group["params"])
    teachers = task.all_teachers if isinstance(task, TaughtTask) else ()
    copies = recipe.average_last_epochs or int(recipe.ema_decay > 0)
    return StepMemory(
        weights=tensor_bytes(model.state_dict().values()),
        gradients=trained,
        optimizer=2 * trained,
        average=copies * tensor_bytes(model.parameters()),
        teacher=sum(tensor_bytes(model.state_dict().values()) for model in teachers),
        activations=max(activation_bytes(trial, batch) for batch in batches),
        peak=None if task.device.type != "cuda" else torch.cuda.max_memory_allocated(task.device),
    )


def activation_bytes(trial: TrialSteps, batch: Batch) -> int:
    """Return the bytes that autograd keeps for the backward pass of one micro-batch, from one forward pass.

    Each storage counts once; weights do not count. What activation checkpointing keeps is not seen.
    """
    sizes: dict[int, int] = {}
    known = {tensor.untyped_storage().data_ptr() for tensor in _tensors(trial.task.model)}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    micro_batch = batch.split(trial.plain.micro_batches)[0]
    with (
        torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor),
        autocast(trial.plain.precision, batch.device),
    ):
        trial.plain.objective(micro_batch, batch)
    return sum(sizes.values())


def longest_texts(task: Task) -> list[Batch]:
    """Return the batch of the longest texts, whose step needs the most memory; nothing for a task of other data."""
    own = task.task if isinstance(task, TaughtTask) else task
    if not isinstance(own, TextTask):
        return []
    return [TextBatches(own.train.examples, own.recipe.batch_size, own.form).whole()[0]]


def memory_limit(device: torch.device) -> int | None:
    """Return the bytes that this process may use for training; None if the system does not report it."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return free + torch.cuda.memory_reserved(device)
    free = free_memory()
    return free if device.type == "cpu" and free < ENOUGH else None


def _tensors(model: nn.Module) -> Iterable[Tensor]:
    yield from model.parameters()
    yield from model.buffers()
