"""What the loop calls between the steps of a run."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from patchword.training.batch import Batch
from patchword.training.state import State


class LossSpike(BaseException):
    """The mean loss of these steps, first and last included, is far above that of the steps before."""

    def __init__(self, first: int, last: int) -> None:
        super().__init__(f"steps {first} to {last}")
        self.first, self.last = first, last


class StepMonitor:
    """What the loop calls between steps. By default these methods do nothing."""

    def on_step(self, state: State, batch: Batch) -> None:
        """Called after each step, when the state already counts it."""

    def flush(self, state: State) -> None:
        """Wait for the results of all steps so far and enter them into the state."""

    def on_resume(self, state: State) -> None:
        """Called when the state was read from a checkpoint or a snapshot."""

    def wants_snapshot(self, state: State) -> bool:
        """Return True if the loop must save a snapshot here, to which the run can be rewound."""
        return False

    def save_snapshot(self, state: State, tensors: Mapping[str, Tensor]) -> None:
        """Save a snapshot."""

    def snapshots_to_write(self) -> int:
        """Return how many more snapshots can be on the disk at one time; each is as large as a checkpoint."""
        return 0

    def rewind(self, spike: LossSpike, state: State) -> tuple[dict[str, Tensor], Mapping[str, Any]]:
        """Return the tensors and the state of the newest snapshot before a loss spike."""
        raise spike
