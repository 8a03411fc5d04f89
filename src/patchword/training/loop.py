"""The loop. It knows nothing of models or tasks: batches in, steps taken, checkpoints and log lines out."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from patchword.core.errors import UserError
from patchword.training.average import Average
from patchword.training.checkpoint import Checkpoints, Say, optimizer_tensors, restore_optimizer
from patchword.training.step import Batch, Step


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
    interrupted: Callable[[], bool] = lambda: False
    state: State = field(default_factory=State)

    def resume(self, say: Say) -> bool:
        """Goes on from the newest whole checkpoint, if there is one."""
        found = self.checkpoints.newest(say)
        if found is None:
            return False
        tensors, state = found
        self.model.load_state_dict(_below(tensors, "model."))
        restore_optimizer(self.optimizer, tensors)
        for name, tensor in _below(tensors, "average.").items():
            self.average.shadow[name].copy_(tensor)
        self.state = State(**state)
        return True

    def run(self) -> bool:
        """True when the run is finished, False when it was interrupted; either way all of it is on the disk."""
        self.journal.start(self.state, self.epochs, self.steps_per_epoch)
        try:
            while not self.finished():
                if not self._train_epoch():
                    return False
                self._end_epoch()
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
        for batch in self.data(state.epoch, state.batch):
            torch.manual_seed(self.step_seed(state.step))  # dropout and the like repeat themselves after a restart
            step_loss, step_right = self.step(batch, self.schedule(state.step))
            # double, so that the sum is the same however often it passed through a checkpoint
            loss = _exact(step_loss) + (state.loss if loss is None else loss)
            right = _exact(step_right) + (state.right if right is None else right)
            state.step, state.batch, state.seen = state.step + 1, state.batch + 1, state.seen + batch.weight
            self.average.update(state.step)
            now = time.monotonic()
            state.seconds = before + now - began
            self.journal.step(state, _mean_of(loss, state.seen), _mean_of(right, state.seen))
            stop = self.interrupted()
            if stop or now - saved > self.save_seconds:
                state.loss, state.right = float(loss), float(right)
                self._save()
                saved = time.monotonic()
            if stop:
                return False
        if loss is not None and right is not None:
            state.loss, state.right = float(loss), float(right)
        return True

    def _end_epoch(self) -> None:
        state = self.state
        if not math.isfinite(state.loss):
            raise UserError(f"the loss is {state.loss} in epoch {state.epoch + 1}", hint="lower the rate, or set clip")
        began = time.monotonic()
        with self.average.applied():
            self.model.eval()
            validation = self.validate()
            if validation.score > state.best:
                state.best, state.best_epoch, state.waited = validation.score, state.epoch, 0
                self.keep_best()
            else:
                state.waited += 1
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

    def _save(self) -> None:
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        tensors |= {f"average.{name}": tensor for name, tensor in self.average.shadow.items()}
        tensors |= optimizer_tensors(self.optimizer)
        name = f"epoch-{self.state.epoch:05d}-batch-{self.state.batch:07d}"
        self.checkpoints.save(name, tensors, asdict(self.state))


def _exact(value: Tensor) -> Tensor:
    return value if value.device.type == "mps" else value.double()  # Apple's GPUs have no doubles


def _below(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _mean_of(total: Tensor, seen: int) -> Callable[[], float]:
    """Computed only when somebody looks, since reading a number from an accelerator waits for it."""
    return lambda: float(total) / max(1, seen)
