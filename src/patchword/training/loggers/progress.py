"""Passes the progress of a run on to its loggers."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from patchword.training.loggers.logger import LoggedRun
from patchword.training.loggers.loggers import RunLoggers
from patchword.training.state import ProgressLog, State

STEP_SECONDS = 5.0  # between records within an epoch; each reads the loss from the device, which waits for it


class LoggedProgress:
    """The log of a run that also feeds the loggers: all measures of an epoch, and the running loss within it."""

    def __init__(self, log: ProgressLog, loggers: RunLoggers, folder: Path, recipe: Mapping[str, Any]) -> None:
        self.inner, self.loggers, self.folder, self.recipe = log, loggers, folder, recipe
        self.logged = time.monotonic()

    def start(self, state: State, epochs: int, steps_per_epoch: int) -> None:
        self.inner.start(state, epochs, steps_per_epoch)
        self.loggers.start(LoggedRun(self.folder, self.recipe, state.step))
        self.logged = time.monotonic()

    def step(self, state: State, loss: Callable[[], float], accuracy: Callable[[], float]) -> None:
        self.inner.step(state, loss, accuracy)
        if self.loggers.loggers and time.monotonic() - self.logged >= STEP_SECONDS:
            self.logged = time.monotonic()
            self.loggers.log({"running_loss": loss()}, state.step)

    def epoch(self, record: dict[str, float], state: State) -> None:
        self.inner.epoch(record, state)
        values = {name: value for name, value in record.items() if name != "step"}
        self.loggers.log(values, int(record["step"]))

    def stop(self) -> None:
        self.inner.stop()
