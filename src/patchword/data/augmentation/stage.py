"""Stages of an augmentation, each with its own random numbers."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from torch import Tensor

from patchword.core.device import to_device
from patchword.data.augmentation.random_draws import Draws

StagePlan = tuple[Tensor, ...]  # random choices of a stage, one entry per sample in each tensor
Change = Callable[[Tensor, Tensor], Tensor]  # (images, amount per image) -> images


class StageContext(NamedTuple):
    """Context of a stage: the random draws, on the CPU, and the mean colour of the data set (0 to 1)."""

    draws: Draws
    colour: Sequence[float]


class Stage(Protocol):
    """One operation of an augmentation."""

    def plan(self, draws: Draws) -> StagePlan:
        """Draw the random choices of each sample, for a whole epoch at once."""
        ...

    def __call__(self, pixels: Tensor, plan: StagePlan, given: StageContext) -> Tensor: ...


def apply_to(pixels: Tensor, chosen: Tensor, change: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Apply `change` to the chosen images; it is called with them and their row indices. chosen: on the CPU."""
    rows = chosen.nonzero()[:, 0]
    if not len(rows):
        return pixels
    if len(rows) == len(pixels):
        return change(pixels, rows)
    places = to_device(rows, pixels.device)
    return pixels.index_copy(0, places, change(pixels.index_select(0, places), rows))


def broadcast(values: Tensor, pixels: Tensor) -> Tensor:
    """Reshape one value per image to broadcast with (batch, channels, height, width), on the images' device."""
    return to_device(values, pixels.device).view(-1, 1, 1, 1)


def with_amounts(change: Change, amounts: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    """Adapt `change` for `apply_to`: it is called with the amounts of its rows."""
    return lambda pixels, rows: change(pixels, to_device(amounts[rows], pixels.device))
