"""The task: what a recipe kind gives to the training loop (model, batches, objective, validation)."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import torch

from patchword.core.work_sharing import SINGLE, WorkSharing
from patchword.layers.model import Model
from patchword.recipes.schema.recipe import Recipe
from patchword.training.loop import Validation
from patchword.training.step import Batch, Objective


class Task(Protocol):
    """The parts of a run that depend on its data."""

    @property
    def recipe(self) -> Recipe: ...

    @property
    def model(self) -> Model: ...

    @property
    def device(self) -> torch.device: ...

    @property
    def unit(self) -> str:
        """what the weight of a batch counts, e.g. images"""
        ...

    @property
    def metric(self) -> str:
        """the name of the validation score"""
        ...

    @property
    def shapes_change(self) -> bool:
        """whether the shapes of batches vary, as those of texts do"""
        ...

    def steps_per_epoch(self) -> int: ...

    def data(self, epoch: int, first: int, group: WorkSharing = SINGLE) -> Iterator[Batch]:
        """the batches of an epoch from index `first` on; of each, the part of this process"""
        ...

    def objective(self, forward: Callable[[Any], Any]) -> Objective:
        """forward: the model, which can be compiled"""
        ...

    def validate(self, group: WorkSharing = SINGLE) -> Validation:
        """group: the processes that share the work"""
        ...

    def save(self, folder: Path) -> None:
        """saves the current model and everything that is needed to use it"""
        ...

    def fingerprint(self) -> dict[str, Any]:
        """of the training data, so that a run is not resumed with other data"""
        ...
