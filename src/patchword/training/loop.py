"""The loop. It knows nothing of models or tasks: batches in, steps taken, checkpoints and log lines out."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from patchword.core.errors import UserError
from patchword.training.cancellation import Abandoned, abandonable
from patchword.training.checkpoint.checkpoint import Checkpoints, Say
from patchword.training.guard.loss_spike import Spike
from patchword.training.guard.nonfinite import StepMonitor
from patchword.training.optimizer import optimizer_tensors, restore_optimizer
from patchword.training.state import Data, Journal, State, Validation
from patchword.training.step import Step
from patchword.training.weight_average import Average

__all__ = ["Loop", "State", "Validation"]


@dataclass
class Loop:
    """Everything one run consists of; `run` ends with the finished state, or in the middle if `interrupted` says so."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    step: Step
    schedule: Callable[[int], float]
    average: Average
    data: Data
    validate: Callable[[], Validation]
    keep_best: Callable[[], None]
    checkpoints: Checkpoints
    journal: Journal
    step_seed: Callable[[int], int]
    epochs: int
    steps_per_epoch: int
    patience: int = 0  # epochs without a better validation score before stopping; 0 is never
    save_seconds: float = 60.0
    metric: str = "accuracy"  # what the validation's score is
    interrupted: Callable[[], bool] = lambda: False  # asked once after every step
    abandoned: Callable[[], bool] = lambda: False  # asked at any time where nothing is lost, as during validation
    watch: StepMonitor = field(default_factory=StepMonitor)
    agree: Callable[[bool, bool], tuple[bool, ...]] = lambda *asked: asked  # what one process asks for, all do
    state: State = field(default_factory=State)

    def resume(self, say: Say) -> bool:
        """Goes on from the newest whole checkpoint, if there is one."""
        found = self.checkpoints.newest(say)
        if found is None:
            return False
        self._put_back(*found)
        return True

    def _put_back(self, tensors: dict[str, Tensor], state: Mapping[str, Any]) -> None:
        self.model.load_state_dict(_below(tensors, "model."))
        restore_optimizer(self.optimizer, tensors)
        for name, tensor in _below(tensors, "average.").items():
            self.average.shadow[name].copy_(tensor)
        self.state = State(**state)
        self.watch.resumed(self.state)

    def run(self) -> bool:
        """True when the run is finished, False when it was interrupted; either way all of it is on the disk."""
        self.journal.start(self.state, self.epochs, self.steps_per_epoch)
        try:
            with self.checkpoints:
                while not self.finished():
                    try:
                        if self.abandoned() or not self._train_epoch() or not self._end_epoch():
                            return False
                    except Spike as spike:
                        self._go_back(spike)
            return True
        finally:
            self.journal.stop()

    def finished(self) -> bool:
        out_of_patience = bool(self.patience) and self.state.waited >= self.patience
        return self.state.epoch >= self.epochs or out_of_patience

    def _train_epoch(self) -> bool:
        state, saved, began = self.state, time.monotonic(), time.monotonic()
        self.model.train()
        loss = right = None
        before = state.seconds
        self._keep_place()
        for batch in self.data(state.epoch, state.batch):
            if state.step in state.skipped:
                state.step, state.batch = state.step + 1, state.batch + 1
                self.average.update(state.step)
                continue
            torch.manual_seed(self.step_seed(state.step))  # dropout and the like repeat themselves after a restart
            step_loss, step_right = self.step(batch, self.schedule(state.step))
            # double, so that the sum is the same however often it passed through a checkpoint
            loss = _exact(step_loss) + (state.loss if loss is None else loss)
            right = _exact(step_right) + (state.right if right is None else right)
            state.step, state.batch, state.seen = state.step + 1, state.batch + 1, state.seen + batch.weight
            self.average.update(state.step)
            self.watch.on_step(state, batch)
            now = time.monotonic()
            state.seconds = before + now - began
            self.journal.step(state, _mean_of(loss, state.seen), _mean_of(right, state.seen))
            self.checkpoints.check()
            stop, due = self.agree(self.interrupted(), now - saved > self.save_seconds)
            save = stop or due
            if save or self.watch.wants_snapshot(state):
                self.watch.flush(state)
                state.loss, state.right = float(loss), float(right)
                self._keep_place()
            if save:
                self._save()
                saved = time.monotonic()
            if stop:
                return False
        self.watch.flush(state)
        if loss is not None and right is not None:
            state.loss, state.right = float(loss), float(right)
        return True

    def _end_epoch(self) -> bool:
        """False when asked to stop before the validation was done; it is begun again after a restart."""
        state = self.state
        if not math.isfinite(state.loss):
            raise UserError(
                f"the loss is {state.loss} in epoch {state.epoch + 1}", hint="lower learning_rate, or set clip_norm"
            )
        began = time.monotonic()
        try:
            with self.average.applied():
                self.model.eval()
                with abandonable(self.model, self.abandoned):
                    validation = self.validate()
                if validation.score > state.best:
                    state.best, state.best_epoch, state.waited = validation.score, state.epoch, 0
                    self.keep_best()
                else:
                    state.waited += 1
        except Abandoned:
            self._save()
            return False
        state.seconds += time.monotonic() - began
        record = {
            "epoch": state.epoch + 1,
            "step": state.step,
            "loss": state.loss / max(1, state.seen),
            **({} if math.isnan(state.right) else {"accuracy": state.right / max(1, state.seen)}),
            "validation_loss": validation.loss,
            f"validation_{self.metric}": validation.score,
            **{f"validation_{name}": value for name, value in validation.measures.items()},
            "rate": self.schedule(state.step - 1),
            "seconds": round(state.seconds, 3),
        }
        state.epoch, state.batch, state.seen, state.loss, state.right = state.epoch + 1, 0, 0, 0.0, 0.0
        self.journal.epoch(record, state)  # before the checkpoint: a restart drops lines of epochs it has not finished
        self._save()
        return True

    def _keep_place(self) -> None:
        if self.watch.wants_snapshot(self.state):
            self.watch.keep(self.state, self._tensors())

    def _go_back(self, spike: Spike) -> None:
        """To before the spike; what was saved since comes from a way that is not taken, and goes when this is saved."""
        spent = self.state.seconds
        self._put_back(*self.watch.before(spike, self.state))
        self.state.seconds = spent
        self.checkpoints.wait()
        self.checkpoints.outdate(_place(self.state.epoch, self.state.batch))
        self._save()

    def _tensors(self) -> dict[str, Tensor]:
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        tensors |= {f"average.{name}": tensor for name, tensor in self.average.shadow.items()}
        return tensors | optimizer_tensors(self.optimizer)

    def _save(self) -> None:
        state = self.state
        best = _place(state.best_epoch + 1, 0) if state.best_epoch >= 0 else ""
        self.checkpoints.save(_place(state.epoch, state.batch), self._tensors(), asdict(state), best)


def _place(epoch: int, batch: int) -> str:
    """the name of the checkpoint of that place in a run; names sort as places do"""
    return f"epoch-{epoch:05d}-batch-{batch:07d}"


def _exact(value: Tensor) -> Tensor:
    return value if value.device.type == "mps" else value.double()  # Apple's GPUs have no doubles


def _below(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _mean_of(total: Tensor, seen: int) -> Callable[[], float]:
    """Computed only when somebody looks, since reading a number from an accelerator waits for it."""
    return lambda: float(total) / max(1, seen)
