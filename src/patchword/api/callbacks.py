"""Callbacks: the user's own code that runs after each epoch of a run and can stop it."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from patchword.api.run import Run
from patchword.recipes.train import Supervision
from patchword.training.parallel.rank import is_main
from patchword.training.signals import interruptible, raise_interrupt, stop_requested
from patchword.training.state import ProgressLog, State


class Callback:
    """The base class of callbacks. Each method does nothing; override those that you need.

    In a run of several processes, only the main process calls them.

    >>> class StopAt(patchword.Callback):
    ...     def on_epoch_end(self, metrics):
    ...         return metrics["validation_accuracy"] > 0.95
    >>> patchword.train("digits-vit", callbacks=[StopAt()])
    """

    def on_start(self, run: Run) -> None:
        """Called before the first step."""

    def on_epoch_end(self, metrics: Mapping[str, float]) -> bool | None:
        """Called after each epoch with its line of `Run.metrics`; return True to stop the run after this epoch."""
        return None

    def on_end(self, run: Run) -> None:
        """Called after the evaluation, when the report is written; not if the run is interrupted or fails."""


class CallbackSupervision(Supervision):
    """Calls the callbacks of a run inside a Python program, which a second Ctrl-C does not end."""

    def __init__(self, callbacks: Sequence[Callback], folder: Path) -> None:
        self.callbacks, self.folder, self.asked = callbacks, folder, False

    def observe(self, log: ProgressLog) -> ProgressLog:
        return _ObservedLog(log, self)

    def interruptible(self) -> AbstractContextManager[Callable[[], bool]]:
        return interruptible(raise_interrupt)

    def stop(self) -> bool:
        return self.asked

    def ends_early(self) -> bool:
        # The other processes are not informed why the main one stopped; those without a signal end quietly.
        return (self.asked or not is_main()) and not stop_requested()

    def start(self) -> None:
        for callback in self.callbacks:
            callback.on_start(Run(self.folder))

    def end_epoch(self, metrics: Mapping[str, float]) -> None:
        answers = [callback.on_epoch_end(dict(metrics)) for callback in self.callbacks]
        self.asked = any(answers)

    def end(self, run: Run) -> None:
        for callback in self.callbacks:
            callback.on_end(run)


class _ObservedLog:
    """The log of a run that also calls its callbacks."""

    def __init__(self, log: ProgressLog, supervision: CallbackSupervision) -> None:
        self.log, self.supervision = log, supervision

    def start(self, state: State, epochs: int, steps_per_epoch: int) -> None:
        self.supervision.start()
        self.log.start(state, epochs, steps_per_epoch)

    def step(self, state: State, loss: Callable[[], float], accuracy: Callable[[], float]) -> None:
        self.log.step(state, loss, accuracy)

    def epoch(self, record: dict[str, float], state: State) -> None:
        self.log.epoch(record, state)
        self.supervision.end_epoch(record)

    def stop(self) -> None:
        self.log.stop()
