"""What a kind of recipe brings to the loop: a model, batches, what is learned from them and how it is scored."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import torch

from patchword.core.work_sharing import SINGLE, WorkSharing
from patchword.layers.model import Model
from patchword.recipes.recipe import Recipe
from patchword.training.loop import Validation
from patchword.training.step import Batch, Objective


class Task(Protocol):
    """Everything of a run that depends on its data."""

    @property
    def recipe(self) -> Recipe: ...

    @property
    def model(self) -> Model: ...

    @property
    def device(self) -> torch.device: ...

    @property
    def unit(self) -> str:
        """what a batch's weight counts, e.g. "images\""""
        ...

    @property
    def metric(self) -> str:
        """what validation scores"""
        ...

    @property
    def shapes_change(self) -> bool:
        """whether batches differ in shape, as those of texts do"""
        ...

    def steps_per_epoch(self) -> int: ...

    def data(self, epoch: int, first: int, group: WorkSharing = SINGLE) -> Iterator[Batch]:
        """the batches of an epoch from number `first` on; of each, what is this process's"""
        ...

    def objective(self, forward: Callable[[Any], Any]) -> Objective:
        """forward: the model, perhaps compiled"""
        ...

    def validate(self, group: WorkSharing = SINGLE) -> Validation:
        """group: the processes that share the work"""
        ...

    def save(self, folder: Path) -> None:
        """the model as it is now, and whatever is needed to use it"""
        ...

    def fingerprint(self) -> dict[str, Any]:
        """of the training data, so that a run cannot go on with other data"""
        ...
