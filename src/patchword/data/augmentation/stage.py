"""What an augmentation consists of: stages, each with its own random numbers."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from torch import Tensor

from patchword.core.to_device import to_device
from patchword.data.augmentation.random_draws import Draws

StagePlan = tuple[Tensor, ...]  # one entry a sample in each
Change = Callable[[Tensor, Tensor], Tensor]  # pictures, and an amount for each of them


class Given(NamedTuple):
    """What a stage may need besides its plan: the samples' numbers, in the main memory, and the set's mean
    colour (0 to 1)."""

    draws: Draws
    colour: Sequence[float]


class Stage(Protocol):
    """One kind of change."""

    def plan(self, draws: Draws) -> StagePlan:
        """What happens to each sample; drawn for a whole epoch at once, which costs less than many small draws."""
        ...

    def __call__(self, pixels: Tensor, plan: StagePlan, given: Given) -> Tensor: ...


def apply_to(pixels: Tensor, chosen: Tensor, change: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """`change` for the chosen pictures, which it is given with their rows; `chosen` is in the main memory."""
    rows = chosen.nonzero()[:, 0]
    if not len(rows):
        return pixels
    places = to_device(rows, pixels.device)
    return pixels.index_copy(0, places, change(pixels.index_select(0, places), rows))


def broadcast(values: Tensor, pixels: Tensor) -> Tensor:
    """One value a picture, on the pictures' device, in a shape that meets (batch, channels, height, width)."""
    return to_device(values, pixels.device).view(-1, 1, 1, 1)


def with_amounts(change: Change, amounts: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    """`change`, as `only` wants it: it gets its own rows of the amounts."""
    return lambda pixels, rows: change(pixels, to_device(amounts[rows], pixels.device))
