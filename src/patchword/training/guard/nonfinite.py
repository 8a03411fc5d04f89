"""Non-finite losses and gradients never reach the weights, and a report names the samples that cause them.

A step with a non-finite loss or gradient is skipped: weights, moments and running statistics stay as they were, and the
weight average is updated with the unchanged weights. The check runs on the device, and the host reads the result when
it is ready, without a synchronization: on a GPU that can be a few steps later. Before a checkpoint, and at the end of
an epoch, the host waits for all results.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from patchword.core.errors import UserError
from patchword.training.checkpoint.checkpoint import Log
from patchword.training.guard.loss_spike import LossSpike, LossSpikeRewind
from patchword.training.guard.model_buffers import ModelBuffers
from patchword.training.guard.report import SampleNames, StepIndex, nonfinite_samples, write_report
from patchword.training.state import State
from patchword.training.step import Batch, ComputesGradient, PlainStep, Step

OnNonFinite = Literal["stop", "skip"]
MAX_IN_A_ROW = 10  # non-finite steps; after more of them the weights are the cause, not the samples
MAX_FRACTION = 0.1  # of all steps, likewise
MAX_REPORTS = 100  # files that are written per run


class AsyncScalars:
    """Values that the device still computes. From a GPU they are copied into pinned memory without a sync."""

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
    """A step whose result the host has not read yet. result: whether it was non-finite, and its summed loss."""

    result: AsyncScalars
    index: StepIndex
    batch: Batch


class NonFiniteGuard(Step):
    """Takes a step, undoes it if it is non-finite, and reports the samples that cause it.

    step: computes the gradient. plain: the step inside of it, which applies the gradient.
    folder: of the run. name: returns the names of the samples of a batch.
    resume_command: resumes a run that was stopped and skips such steps; it is part of the error message.
    spikes: detects loss spikes, if given.
    """

    def __init__(
        self,
        step: ComputesGradient,
        plain: PlainStep,
        model: nn.Module,
        folder: Path,
        log: Log,
        *,
        on_nonfinite: OnNonFinite = "stop",
        name: SampleNames | None = None,
        resume_command: str = "--resume on_nonfinite=skip",
        spikes: LossSpikeRewind | None = None,
    ) -> None:
        self.step, self.plain, self.model, self.folder, self.log = step, plain, model, folder, log
        self.on_nonfinite, self.name, self.resume_command, self.spikes = on_nonfinite, name, resume_command, spikes
        self.buffers = ModelBuffers(model)
        self.pending = deque[PendingStep]()
        self.requested_micro_batches = plain.micro_batches
        self.latest: AsyncScalars | None = None

    def __call__(self, batch: Batch, learning_rate: float) -> tuple[Tensor, Tensor]:
        buffers = self.buffers.saved()
        loss, correct = self.step.gradient(batch)
        nonfinite = self.plain.update(learning_rate)
        self.buffers.restore(buffers, where=nonfinite)
        self.latest = AsyncScalars(torch.stack((nonfinite.to(loss.dtype), loss)))
        return loss.masked_fill(nonfinite, 0), correct.masked_fill(nonfinite, 0)

    def on_step(self, state: State, batch: Batch) -> None:
        if self.latest is not None:
            index = StepIndex(state.epoch, state.batch - 1, state.step - 1)
            self.pending.append(PendingStep(self.latest, index, batch))
            self.latest = None
        unchanged = self.plain.micro_batches == self.requested_micro_batches
        state.micro_batches = 0 if unchanged else self.plain.micro_batches
        while self.pending and self.pending[0].result.ready():
            self._read(self.pending.popleft(), state)

    def flush(self, state: State) -> None:
        while self.pending:
            self._read(self.pending.popleft(), state)

    def on_resume(self, state: State) -> None:
        self.pending.clear()
        self.latest = None
        # the resumed recipe can ask for more micro-batches than the run used so far
        self.plain.micro_batches = max(state.micro_batches, self.requested_micro_batches)

    def wants_snapshot(self, state: State) -> bool:
        return self.spikes is not None and self.spikes.wants_snapshot(state)

    def save_snapshot(self, state: State, tensors: Mapping[str, Tensor]) -> None:
        if self.spikes is not None:
            self.spikes.save_snapshot(state, tensors)

    def snapshots_to_write(self) -> int:
        return 0 if self.spikes is None else self.spikes.snapshots_to_write()

    def rewind(self, spike: LossSpike, state: State) -> tuple[dict[str, Tensor], Mapping[str, Any]]:
        return super().rewind(spike, state) if self.spikes is None else self.spikes.rewind(spike, state)

    def _read(self, step: PendingStep, state: State) -> None:
        nonfinite, loss = step.result.read()
        if nonfinite:
            state.seen -= step.batch.weight
            state.nonfinite_steps, state.nonfinite_in_a_row = state.nonfinite_steps + 1, state.nonfinite_in_a_row + 1
            self._report(step, state, loss)
            return
        state.nonfinite_in_a_row = 0
        if self.spikes is not None:
            self.spikes.record(state, step.index, loss / step.batch.weight)

    def _report(self, step: PendingStep, state: State, loss: float) -> None:
        """Name the samples; stop the run if the user chose that, or if skipping steps does not help."""
        what = f"the loss is {loss}" if loss - loss != 0 else "the gradient is non-finite"
        what += f" in epoch {step.index.epoch + 1}, step {step.index.batch + 1}"
        samples = f"samples unknown, since {MAX_REPORTS} reports are written already"
        hint = "lower the learning rate (learning_rate), or clip gradients (clip_norm)"
        if state.nonfinite_steps <= MAX_REPORTS:
            found = nonfinite_samples(step.batch, self.plain, self.model)
            path, samples = write_report(self.folder / "bad", step.index, what, step.batch, found, self.name)
            hint = (
                f"see {path}; fix or remove these samples; "
                "if they are correct, lower the learning rate (learning_rate) or clip gradients (clip_norm)"
            )
        if self.on_nonfinite == "stop":
            raise UserError(what, got=samples, hint=f"{hint}; to resume and skip such steps:\n{self.resume_command}")
        in_a_row, total = state.nonfinite_in_a_row, state.nonfinite_steps
        if in_a_row >= MAX_IN_A_ROW or total > max(MAX_IN_A_ROW, MAX_FRACTION * (step.index.step + 1)):
            count = f"{in_a_row} steps in a row" if in_a_row >= MAX_IN_A_ROW else f"{total} steps"
            raise UserError(f"{what}: {count} had to be skipped", got=samples, hint=hint)
        self.log(f"{what}; the step is skipped. Cause: {samples}. To do: {hint}")
