"""TensorBoard: event files in the run's folder."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from patchword.training.loggers.logger import LoggedRun, Outcome


class TensorBoard:
    """Writes event files; events after the first step, of an earlier start, are purged."""

    def __init__(self) -> None:
        self.writer: Any = None

    def start(self, run: LoggedRun) -> str:
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(run.folder, purge_step=run.step)
        return ""

    def log(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)

    def result(self, values: Mapping[str, float], files: Sequence[Path]) -> None:
        """The files are beside the events."""

    def close(self, outcome: Outcome) -> None:
        if self.writer is not None:
            self.writer.close()
