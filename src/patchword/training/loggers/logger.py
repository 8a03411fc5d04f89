"""The interface of all loggers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Literal, Protocol

from patchword.core.errors import UserError
from patchword.core.files import read_json, write_json

Outcome = Literal["finished", "stopped", "failed"]
_IDS = "loggers.json"
_WRITING = Lock()  # loggers start at the same time


@dataclass(frozen=True)
class LoggedRun:
    """What a logger knows of a run at its start.

    recipe: all fields; those of inner models have a dot in their name. step: where the run begins or resumes.
    """

    folder: Path
    recipe: Mapping[str, Any]
    step: int = 0

    def known_id(self, logger: str) -> str:
        """Return the name that the logger gave the run at its first start, so that a resumed run continues there."""
        try:
            return str(self._ids().get(logger, ""))
        except (UserError, AttributeError):
            return ""

    def remember_id(self, logger: str, name: str) -> None:
        """Save that name in the run's folder."""
        with _WRITING:
            write_json(self.folder / _IDS, {**self._ids(), logger: name})

    def _ids(self) -> dict[str, str]:
        path = self.folder / _IDS
        return dict(read_json(path)) if path.is_file() else {}


class Logger(Protocol):
    """Records a run. The methods are called in this order, all in one thread of its own."""

    def start(self, run: LoggedRun) -> str:
        """Begin or continue to record a run; return where, in words, or nothing if that goes without saying."""
        ...

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Record numbers of the training or the validation. step: how many steps are done"""
        ...

    def result(self, values: Mapping[str, float], files: Sequence[Path]) -> None:
        """Record the result on the test set, and files such as the report."""
        ...

    def close(self, outcome: Outcome) -> None:
        """End the recording; what was recorded is saved when this returns."""
        ...
