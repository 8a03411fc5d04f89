"""The guard: numbers that are none never reach the weights, and the rows they come from are named.

A step whose loss or gradient is no number is left out: weights, moments and running statistics stay as they were, and
the average takes in the weights as they are. Whether it is one is found out on the device, and told to the host when
the device gets there: nobody waits for it, and a GPU is heard of a step or a few later. Before a checkpoint, and at the
end of an epoch, all of it was heard.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from patchword.core.errors import UserError
from patchword.training.checkpoint.checkpoint import Say
from patchword.training.guard.batch_statistics import Statistics
from patchword.training.guard.loss_spike import LossSpikeRewind, Spike
from patchword.training.guard.report import Name, Place, nonfinite_samples, write_report
from patchword.training.state import State
from patchword.training.step import Halves, PlainStep

OnNonFinite = Literal["stop", "skip"]
IN_A_ROW = 10  # bad steps, after which it is not the rows: the weights themselves give no numbers any more
SHARE = 0.1  # of all steps, likewise
REPORTS = 100  # at most are written


class StepMonitor:
    """What a loop tells of its steps, and asks; this one is indifferent."""

    def on_step(self, state: State, batch: Any) -> None:
        """A step was taken, and counted in the state."""

    def flush(self, state: State) -> None:
        """All that is known of the steps so far is in the state."""

    def resumed(self, state: State) -> None:
        """The state was read from a checkpoint."""

    def wants_snapshot(self, state: State) -> bool:
        """Whether this is a place to come back to."""
        return False

    def keep(self, state: State, tensors: Mapping[str, Tensor]) -> None:
        """Keeps such a place."""

    def places(self) -> int:
        """How many more of them are on the disk at most at one time, each as large as a checkpoint."""
        return 0

    def before(self, spike: Spike, state: State) -> tuple[dict[str, Tensor], Mapping[str, Any]]:
        """What was kept of the last place before the spike."""
        raise spike


class AsyncScalars:
    """Numbers that a device has still to compute; a GPU puts them where the host can read them without asking it."""

    def __init__(self, values: Tensor) -> None:
        self.values, self.done = values, None
        if values.device.type == "cuda":
            self.values = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
            self.values.copy_(values, non_blocking=True)
            self.done = torch.cuda.Event()
            self.done.record(torch.cuda.current_stream(values.device))

    def ready(self) -> bool:
        return self.done is None or self.done.query()

    def read(self) -> list[float]:
        if self.done is not None:
            self.done.synchronize()
        found: list[float] = self.values.tolist()
        return found


@dataclass(frozen=True)
class PendingStep:
    """A step of which nothing was heard yet."""

    told: AsyncScalars  # whether it was bad, and its summed loss
    place: Place
    batch: Any


class NonFiniteGuard(StepMonitor):
    """A step that takes another one's halves, and what watches over it.

    step: the step; plain: the one in it that holds the optimizer. folder: of the run. name: of a batch, its rows.
    again: what goes on with a run that was stopped.
    """

    def __init__(
        self,
        step: Halves,
        plain: PlainStep,
        model: nn.Module,
        folder: Path,
        say: Say,
        *,
        on_bad: OnNonFinite = "stop",
        name: Name | None = None,
        again: str = "--resume on_nonfinite=skip",
        rewind: LossSpikeRewind | None = None,
    ) -> None:
        self.step, self.plain, self.model, self.folder, self.say = step, plain, model, folder, say
        self.on_bad, self.name, self.again, self.rewind = on_bad, name, again, rewind
        self.statistics = Statistics(model)
        self.pending = deque[PendingStep]()
        self.asked = plain.parts
        self.latest: AsyncScalars | None = None

    def __call__(self, batch: Any, rate: float) -> tuple[Tensor, Tensor]:
        noted = self.statistics.noted()
        loss, right = self.step.gradient(batch)
        bad = self.step.descend(rate)
        self.statistics.put(noted, bad)
        self.latest = AsyncScalars(torch.stack((bad.to(loss.dtype), loss)))
        return loss.masked_fill(bad, 0), right.masked_fill(bad, 0)

    def on_step(self, state: State, batch: Any) -> None:
        if self.latest is not None:
            place = Place(state.epoch, state.batch - 1, state.step - 1)
            self.pending.append(PendingStep(self.latest, place, batch))
            self.latest = None
        state.parts = 0 if self.plain.parts == self.asked else self.plain.parts
        while self.pending and self.pending[0].told.ready():
            self._hear(self.pending.popleft(), state)

    def flush(self, state: State) -> None:
        while self.pending:
            self._hear(self.pending.popleft(), state)

    def resumed(self, state: State) -> None:
        self.pending.clear()
        self.latest = None
        self.plain.parts = max(state.parts, self.asked)  # more may be asked for than the memory has forced so far

    def wants_snapshot(self, state: State) -> bool:
        return self.rewind is not None and self.rewind.wants_snapshot(state)

    def keep(self, state: State, tensors: Mapping[str, Tensor]) -> None:
        if self.rewind is not None:
            self.rewind.keep(state, tensors)

    def places(self) -> int:
        """Two are kept, and a third is written before one goes."""
        return 0 if self.rewind is None else max(1, 3 - len(list(self.rewind.folder.glob("*"))))

    def before(self, spike: Spike, state: State) -> tuple[dict[str, Tensor], Mapping[str, Any]]:
        return super().before(spike, state) if self.rewind is None else self.rewind.before(spike, state)

    def _hear(self, taken: PendingStep, state: State) -> None:
        bad, loss = taken.told.read()
        if bad:
            state.seen -= taken.batch.weight
            state.bad, state.bad_in_row = state.bad + 1, state.bad_in_row + 1
            self._tell(taken, state, loss)
            return
        state.bad_in_row = 0
        if self.rewind is not None:
            self.rewind.note(state, taken.place, loss / taken.batch.weight)

    def _tell(self, taken: PendingStep, state: State, loss: float) -> None:
        """Names the rows, and ends the run where that was chosen or where leaving steps out does not help."""
        what = f"the loss is {loss}" if loss - loss != 0 else "the gradient is no number"
        what += f" in epoch {taken.place.epoch + 1}, step {taken.place.batch + 1}"
        rows, hint = "rows that are not looked at any more", "lower learning_rate, or set clip_norm"
        if state.bad <= REPORTS:
            found = nonfinite_samples(taken.batch, self.plain, self.model)
            path, rows = write_report(self.folder / "bad", taken.place, what, taken.batch, found, self.name)
            hint = f"{path} has them; mend or remove them; if it is not the rows, lower learning_rate or set clip_norm"
        if self.on_bad == "stop":
            raise UserError(what, got=rows, hint=f"{hint}; to go on without such steps:\n{self.again}")
        if state.bad_in_row >= IN_A_ROW or state.bad > max(IN_A_ROW, SHARE * (taken.place.step + 1)):
            many = f"{state.bad_in_row} steps in a row" if state.bad_in_row >= IN_A_ROW else f"{state.bad} steps"
            raise UserError(f"{what}: {many} had to be left out", got=rows, hint=hint)
        self.say(f"{what}; the step is left out. {rows}. {hint}")
