"""The training loop. It knows nothing of models or tasks: it takes steps on batches, validates, saves and logs."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from patchword.core.errors import UserError
from patchword.training.cancellation import Cancelled, cancellable
from patchword.training.checkpoint.checkpoint import Checkpoints, Log
from patchword.training.guard.loss_spike import LossSpike
from patchword.training.optimizer import optimizer_tensors, restore_optimizer
from patchword.training.state import Data, ProgressLog, State, Validation
from patchword.training.step import Step
from patchword.training.weight_average import WeightAverage

__all__ = ["Loop", "State", "Validation"]


@dataclass
class Loop:
    """All parts of one run. `run` trains to the end, or until `interrupted` returns True."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    step: Step
    schedule: Callable[[int], float]
    average: WeightAverage
    data: Data
    validate: Callable[[], Validation]
    save_best: Callable[[], None]
    checkpoints: Checkpoints
    run_log: ProgressLog
    step_seed: Callable[[int], int]
    epochs: int
    steps_per_epoch: int
    patience: int = 0  # epochs without a better validation score before stopping; 0 is never
    save_seconds: float = 60.0
    metric: str = "accuracy"  # the name of the validation score
    interrupted: Callable[[], bool] = lambda: False  # checked once after every step
    cancelled: Callable[[], bool] = lambda: False  # checked at any time when nothing can be lost, as in validation
    on_validation: Callable[[Validation, State], None] = lambda validation, state: None  # after the epoch is logged
    start_epoch: Callable[[int], None] = lambda epoch: None  # after the model was set to training mode
    any_rank: Callable[[bool, bool], tuple[bool, ...]] = lambda *flags: flags  # True for all if True for any process
    state: State = field(default_factory=State)

    def resume(self, log: Log) -> bool:
        """Restore the newest intact checkpoint; return False if there is none."""
        found = self.checkpoints.newest(log)
        if found is None:
            return False
        self._restore(*found)
        return True

    def _restore(self, tensors: dict[str, Tensor], state: Mapping[str, Any]) -> None:
        self.model.load_state_dict(_with_prefix(tensors, "model."))
        restore_optimizer(self.optimizer, tensors)
        for name, tensor in _with_prefix(tensors, "average.").items():
            self.average.shadow[name].copy_(tensor)
        self.state = State.from_dict(state)
        self.step.on_resume(self.state)

    def run(self) -> bool:
        """Return True if the run is finished, False if it was interrupted; in both cases all of it is saved."""
        self.run_log.start(self.state, self.epochs, self.steps_per_epoch)
        try:
            with self.checkpoints:
                while not self.finished():
                    try:
                        if self.cancelled() or not self._train_epoch() or not self._end_epoch():
                            return False
                    except LossSpike as spike:
                        self._rewind(spike)
            return True
        finally:
            self.run_log.stop()

    def finished(self) -> bool:
        out_of_patience = bool(self.patience) and self.state.epochs_since_best >= self.patience
        return self.state.epoch >= self.epochs or out_of_patience

    def _train_epoch(self) -> bool:
        """Train to the end of the epoch. Return False if the run was interrupted."""
        state, saved, began = self.state, time.monotonic(), time.monotonic()
        self.model.train()
        self.start_epoch(state.epoch)
        loss = correct = None
        before = state.seconds
        self._save_snapshot()
        for batch in self.data(state.epoch, state.batch):
            if state.step in state.skipped_steps:
                state.step, state.batch = state.step + 1, state.batch + 1
                self.average.update(state.step)
                continue
            torch.manual_seed(self.step_seed(state.step))  # a resumed run draws the same dropout
            step_loss, step_correct = self.step(batch, self.schedule(state.step))
            # float64: the sum stays the same however often it passed through a checkpoint
            loss = _float64(step_loss) + (state.loss if loss is None else loss)
            correct = _float64(step_correct) + (state.correct if correct is None else correct)
            state.step, state.batch, state.seen = state.step + 1, state.batch + 1, state.seen + batch.weight
            self.average.update(state.step)
            self.step.on_step(state, batch)
            now = time.monotonic()
            state.seconds = before + now - began
            self.run_log.step(state, _mean(loss, state.seen), _mean(correct, state.seen))
            self.checkpoints.check()
            stop, save_due = self.any_rank(self.interrupted(), now - saved > self.save_seconds)
            save = stop or save_due
            if save or self.step.wants_snapshot(state):
                self.step.flush(state)
                state.loss, state.correct = float(loss), float(correct)
                self._save_snapshot()
            if save:
                self._save()
                saved = time.monotonic()
            if stop:
                return False
        self.step.flush(state)
        if loss is not None and correct is not None:
            state.loss, state.correct = float(loss), float(correct)
        return True

    def _end_epoch(self) -> bool:
        """Validate, log and save. Return False if the validation was cancelled; a resumed run repeats all of it."""
        state = self.state
        if not math.isfinite(state.loss):
            raise UserError(
                f"the loss is {state.loss} in epoch {state.epoch + 1}",
                hint="lower the learning rate (learning_rate), or clip gradients (clip_norm)",
            )
        began = time.monotonic()
        try:
            with self.average.applied():
                self.model.eval()
                with cancellable(self.model, self.cancelled):
                    validation = self.validate()
                if state.is_improved_by(validation):
                    state.best_score, state.best_loss = validation.score, validation.loss
                    state.best_epoch, state.epochs_since_best = state.epoch, 0
                    self.save_best()
                else:
                    state.epochs_since_best += 1
        except Cancelled:
            self._save()
            return False
        state.seconds += time.monotonic() - began
        record = {
            "epoch": state.epoch + 1,
            "step": state.step,
            "loss": state.loss / max(1, state.seen),
            **({} if math.isnan(state.correct) else {"accuracy": state.correct / max(1, state.seen)}),
            "validation_loss": validation.loss,
            f"validation_{self.metric}": validation.score,
            **{f"validation_{name}": value for name, value in validation.measures.items()},
            "learning_rate": self.schedule(state.step - 1),
            "seconds": round(state.seconds, 3),
        }
        state.epoch, state.batch, state.seen, state.loss, state.correct = state.epoch + 1, 0, 0, 0.0, 0.0
        self.run_log.epoch(record, state)  # before the checkpoint: a resumed run drops lines of unfinished epochs
        self.on_validation(validation, state)
        self._save()
        return True

    def _save_snapshot(self) -> None:
        if self.step.wants_snapshot(self.state):
            self.step.save_snapshot(self.state, self._tensors())

    def _rewind(self, spike: LossSpike) -> None:
        """Restore the snapshot before the spike. Later checkpoints are replaced once the restored state is saved."""
        seconds = self.state.seconds
        self._restore(*self.step.rewind(spike, self.state))
        self.state.seconds = seconds
        self.checkpoints.wait()
        self.checkpoints.mark_outdated(_checkpoint_name(self.state.epoch, self.state.batch))
        self._save()

    def _tensors(self) -> dict[str, Tensor]:
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        tensors |= {f"average.{name}": tensor for name, tensor in self.average.shadow.items()}
        return tensors | optimizer_tensors(self.optimizer)

    def _save(self) -> None:
        state = self.state
        best = _checkpoint_name(state.best_epoch + 1, 0) if state.best_epoch >= 0 else ""
        name = _checkpoint_name(state.epoch, state.batch)
        self.checkpoints.save(name, self._tensors(), state.to_dict(), best)


def _checkpoint_name(epoch: int, batch: int) -> str:
    """Return the name of the checkpoint at this position; names sort in the order of the run."""
    return f"epoch-{epoch:05d}-batch-{batch:07d}"


def _float64(value: Tensor) -> Tensor:
    return value if value.device.type == "mps" else value.double()  # MPS has no float64


def _with_prefix(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _mean(total: Tensor, seen: int) -> Callable[[], float]:
    """Return a function that reads the mean: reading a value from an accelerator waits for it."""
    return lambda: float(total) / max(1, seen)
