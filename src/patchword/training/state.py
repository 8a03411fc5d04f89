"""The state of a run, and the interfaces of the loop's parts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, Self

from patchword.training.batch import Batch

# the names of fields in checkpoints that were written before the fields were renamed
_OLD_NAMES = {
    "right": "correct",
    "best": "best_score",
    "waited": "epochs_since_best",
    "parts": "micro_batches",
    "bad": "nonfinite_steps",
    "bad_in_row": "nonfinite_in_a_row",
    "skipped": "skipped_steps",
    "losses": "recent_losses",
}


@dataclass
class State:
    """The position of a run. Every checkpoint holds all of it, so that a resumed run continues bit-equal."""

    step: int = 0
    epoch: int = 0
    batch: int = 0  # batches of this epoch that are done
    seen: int = 0  # examples (or masked words, or tags) of this epoch that are done
    loss: float = 0.0  # summed over them
    correct: float = 0.0  # summed over them
    best_score: float = float("-inf")
    best_loss: float = float("inf")  # of the epoch with the best score
    best_epoch: int = -1
    epochs_since_best: int = 0
    seconds: float = 0.0  # of training, over all starts
    micro_batches: int = 0  # per batch, after running out of memory; 0: as the recipe says
    nonfinite_steps: int = 0  # steps skipped so far, since their loss or gradient was non-finite
    nonfinite_in_a_row: int = 0  # how many of them directly before this position
    skipped_steps: list[int] = field(default_factory=list)  # steps skipped because of a loss spike
    recent_losses: list[float] = field(default_factory=list)  # of the last steps, if loss spikes are detected

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read the content of state.json, also under the names that fields had before."""
        return cls(**{_OLD_NAMES.get(name, name): value for name, value in values.items()})

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def is_improved_by(self, validation: "Validation") -> bool:
        """Return True for a better score, or an equal one with a lower loss: easy sets reach the best score early."""
        return (validation.score, -validation.loss) > (self.best_score, -self.best_loss)


class Validation(NamedTuple):
    """The result of a validation. score: selects the best weights; measures: further values to log.

    confusion: counts of a classifier of few classes; rows are true classes, columns predictions.
    """

    loss: float
    score: float
    measures: Mapping[str, float] = MappingProxyType({})
    confusion: Sequence[Sequence[int]] | None = None


class Data(Protocol):
    """Yields the batches of an epoch from batch `first` on. Randomness depends on the epoch and the sample only."""

    def __call__(self, epoch: int, first: int) -> Iterator[Batch]: ...


class ProgressLog(Protocol):
    """Receives the progress of a run."""

    def start(self, state: State, epochs: int, steps_per_epoch: int) -> None: ...
    def step(self, state: State, loss: Callable[[], float], accuracy: Callable[[], float]) -> None: ...
    def epoch(self, record: dict[str, float], state: State) -> None: ...
    def stop(self) -> None: ...
