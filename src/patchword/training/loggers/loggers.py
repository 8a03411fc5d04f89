"""The loggers of a run: which there are, and all of one run together."""

import math
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Literal, NamedTuple, Self

from patchword.core.errors import UserError
from patchword.training.loggers.background import BackgroundLogger
from patchword.training.loggers.logger import LoggedRun, Logger, Outcome
from patchword.training.loggers.mlflow import MLflow
from patchword.training.loggers.tensorboard import TensorBoard
from patchword.training.loggers.wandb import WandB

LoggerName = Literal["tensorboard", "mlflow", "wandb"]


class KnownLogger(NamedTuple):
    """A logger. module: what it imports; install: the command that installs that."""

    create: Callable[[], Logger]
    module: str
    install: str


LOGGERS: dict[str, KnownLogger] = {
    "tensorboard": KnownLogger(TensorBoard, "torch.utils.tensorboard", "pip install 'patchword[log]'"),
    "mlflow": KnownLogger(MLflow, "mlflow", "pip install 'patchword[mlflow]'"),
    "wandb": KnownLogger(WandB, "wandb", "pip install 'patchword[wandb]'"),
}


def check_loggers(names: Sequence[str]) -> None:
    """Raise an error if the package of a logger cannot be imported, before anything else is done."""
    for name in names:
        try:
            import_module(LOGGERS[name].module)
        except Exception as error:  # an installation with parts that do not fit raises anything
            raise UserError(
                f"the logger {name} cannot be used", got=str(error), hint=f"install it: {LOGGERS[name].install}"
            ) from None


class RunLoggers:
    """The loggers of a run, as a context: leaving it closes them."""

    def __init__(self, names: Sequence[str], report: Callable[[str], None]) -> None:
        self.loggers = [BackgroundLogger(name, LOGGERS[name].create(), report) for name in names]
        self.outcome: Outcome = "finished"

    @classmethod
    def of(cls, names: Sequence[str], report: Callable[[str], None]) -> Self:
        """Return the named loggers, and TensorBoard if it is installed. report: receives one message at a time"""
        return cls(list(dict.fromkeys([*(["tensorboard"] if _has_tensorboard() else []), *names])), report)

    def start(self, run: LoggedRun) -> None:
        for logger in self.loggers:
            logger.start(run)

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Record numbers; those that are not finite are left out."""
        finite = {name: float(value) for name, value in values.items() if math.isfinite(value)}
        for logger in self.loggers:
            logger.log(finite, step)

    def result(self, values: Mapping[str, float], files: Sequence[Path]) -> None:
        for logger in self.loggers:
            logger.result(values, files)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, type_: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if type_ is not None:
            self.outcome = "stopped" if issubclass(type_, KeyboardInterrupt) else "failed"
        for logger in self.loggers:
            logger.close(self.outcome)


NO_LOGGERS = RunLoggers([], print)


def _has_tensorboard() -> bool:
    try:
        import_module(LOGGERS["tensorboard"].module)
    except Exception:  # e.g. a TypeError of another protobuf: a logger that no user asked for stops no run
        return False
    return True
