"""Where a run is, and who a loop talks to."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple, Protocol

from patchword.training.step import Batch


@dataclass
class State:
    """Where a run is. All of it is in every checkpoint, so that a restart goes on as if nothing had happened."""

    step: int = 0
    epoch: int = 0
    batch: int = 0  # batches of this epoch already taken
    seen: int = 0  # examples of this epoch already seen, or masked words, or tags
    loss: float = 0.0  # summed over them
    right: float = 0.0
    best: float = float("-inf")
    best_epoch: int = -1
    waited: int = 0  # epochs since the best
    seconds: float = 0.0  # spent training, over all starts
    parts: int = 0  # pieces a batch is worked on in by now; 0: as the recipe says
    bad: int = 0  # steps left out so far, since their loss or gradient was no number
    bad_in_row: int = 0  # the last ones of them
    skipped: list[int] = field(default_factory=list)  # steps left out since the loss rose there
    losses: list[float] = field(default_factory=list)  # of the last steps, where rises of the loss are looked for


class Validation(NamedTuple):
    """score: what the best weights are chosen by; measures: what else is worth keeping"""

    loss: float
    score: float
    measures: Mapping[str, float] = MappingProxyType({})


class Data(Protocol):
    """The batches of an epoch from one on; everything random in them follows from the epoch and the sample."""

    def __call__(self, epoch: int, first: int) -> Iterator[Batch]: ...


class Journal(Protocol):
    """Who wants to hear of the run's progress."""

    def start(self, state: State, epochs: int, steps_per_epoch: int) -> None: ...
    def step(self, state: State, loss: Callable[[], float], accuracy: Callable[[], float]) -> None: ...
    def epoch(self, record: dict[str, float], state: State) -> None: ...
    def stop(self) -> None: ...
