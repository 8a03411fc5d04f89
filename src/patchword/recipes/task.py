"""The task: what a recipe kind gives to the training loop (model, batches, objective, validation)."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol, Self

import torch

from patchword.core.work_sharing import SINGLE, WorkSharing
from patchword.layers.model import ModuleWithCard
from patchword.recipes.schema.recipe import Recipe
from patchword.training.loop import Validation
from patchword.training.step import Batch, Objective


class Task(Protocol):
    """The parts of a run that depend on its data."""

    @property
    def recipe(self) -> Recipe: ...

    @property
    def model(self) -> ModuleWithCard: ...

    @property
    def device(self) -> torch.device: ...

    @property
    def unit(self) -> str:
        """Return what the weight of a batch counts, e.g. "images"."""
        ...

    @property
    def metric(self) -> str:
        """Return the name of the validation score, e.g. "accuracy"."""
        ...

    @property
    def shapes_change(self) -> bool:
        """Return True if the shapes of batches vary, as those of texts do."""
        ...

    def steps_per_epoch(self) -> int: ...

    def data(self, epoch: int, first: int, group: WorkSharing = SINGLE) -> Iterator[Batch]:
        """Yield the batches of an epoch from index `first` on; of each batch, the part of this process."""
        ...

    def objective(self, forward: Callable[[Any], Any]) -> Objective:
        """Build the objective. forward: the model, which may be compiled."""
        ...

    def validate(self, group: WorkSharing = SINGLE) -> Validation:
        """Compute the validation loss and score. group: the processes that divide the work."""
        ...

    def save(self, folder: Path) -> None:
        """Save the current model and everything that is needed to use it, such as its tokenizer."""
        ...

    def samples(self) -> dict[str, int]:
        """Return the number of samples of the data splits that were read: "training" and "validation"."""
        ...

    def with_batch_size(self, size: int) -> Self:
        """Return the same task with another batch size. It shares the model and the data, which are not read again."""
        ...

    def fingerprint(self) -> dict[str, Any]:
        """Return a description of the training data, which must be the same when a run is resumed."""
        ...
