"""Files of a run that other programs read while it trains: steps.jsonl, and confusion.jsonl of a classifier.

Both are bounded: when a file is full, half of its lines stay, evenly over the run. A kill leaves at most an incomplete
last line, which readers ignore. Neither file is needed to train or to resume, so an error of the disk only ends them.
"""

import json
import math
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from patchword.core.errors import UserError
from patchword.core.files import write_text
from patchword.training.state import ProgressLog, State, Validation

STEPS, CONFUSION = "steps.jsonl", "confusion.jsonl"
STEP_SECONDS = 1.0  # between lines of steps.jsonl; each reads the loss from the device, which waits for it
MOST_STEPS, MOST_CONFUSIONS = 4000, 400  # lines

Record = dict[str, Any]


def read_lines(path: Path) -> list[Record]:
    """Return the objects of a JSONL file; lines that cannot be read, such as an incomplete last one, are left out."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return parse_lines(text)


def parse_lines(text: str) -> list[Record]:
    """Return the objects of JSONL text."""
    found = []
    for line in text.split("\n"):
        with suppress(ValueError, RecursionError):
            record = json.loads(line)
            if isinstance(record, dict):
                found.append(record)
    return found


class BoundedLines:
    """A JSONL file of at most `most` lines, each with the step it belongs to."""

    def __init__(self, path: Path, most: int) -> None:
        self.path, self.most, self.records = path, most, list[Record]()
        self.failed = False

    def start(self, keep: Callable[[Record], bool]) -> None:
        """Continue the file with those of its records that are kept."""
        self.records = [record for record in read_lines(self.path) if _kept(record, keep)]
        self._rewrite()

    def add(self, record: Record) -> None:
        self.records.append(record)
        if len(self.records) > self.most:
            self.records = _thinned(self.records, self.most // 2)
            self._rewrite()
        elif not self.failed:
            try:
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(_line(record))
            except OSError:
                self.failed = True

    def _rewrite(self) -> None:
        if self.failed or not (self.records or self.path.exists()):
            return
        try:
            write_text(self.path, "".join(map(_line, self.records)))
        except (OSError, UserError):
            self.failed = True


class RecordedSteps:
    """The log of a run that also writes steps.jsonl, one line per second.

    epoch: how many are done, with a fraction. loss, accuracy: means over the steps since the line before, or since the
    start of the epoch. seconds: of training.
    """

    def __init__(self, log: ProgressLog, folder: Path, learning_rate: Callable[[int], float]) -> None:
        self.inner, self.learning_rate = log, learning_rate
        self.lines = BoundedLines(folder / STEPS, MOST_STEPS)
        self.steps_per_epoch = 1
        self.at = 0.0
        self.last = State()

    def start(self, state: State, epochs: int, steps_per_epoch: int) -> None:
        self.inner.start(state, epochs, steps_per_epoch)
        self.lines.start(lambda record: record["step"] <= state.step)
        self.steps_per_epoch, self.at = steps_per_epoch, time.monotonic()
        self._remember(state, state.loss, state.correct)

    def step(self, state: State, loss: Callable[[], float], accuracy: Callable[[], float]) -> None:
        self.inner.step(state, loss, accuracy)
        if time.monotonic() - self.at < STEP_SECONDS:
            return
        self.at = time.monotonic()
        if state.step <= self.last.step:  # the run went back to before a loss spike
            self.lines.start(lambda record: record["step"] < state.step)
        total, correct = loss() * state.seen, accuracy() * state.seen
        before = self.last if (self.last.epoch, self.last.step < state.step) == (state.epoch, True) else State()
        seen = max(1, state.seen - before.seen)
        means = {"loss": (total - before.loss) / seen, "accuracy": (correct - before.correct) / seen}
        self.lines.add(
            {
                "step": state.step,
                "epoch": round(state.epoch + state.batch / max(1, self.steps_per_epoch), 4),
                **{name: float(f"{value:.6g}") for name, value in means.items() if math.isfinite(value)},
                "learning_rate": float(f"{self.learning_rate(state.step - 1):.6g}"),
                "seconds": round(state.seconds, 2),
            }
        )
        self._remember(state, total, correct)

    def epoch(self, record: dict[str, float], state: State) -> None:
        self.inner.epoch(record, state)

    def stop(self) -> None:
        self.inner.stop()

    def _remember(self, state: State, total: float, correct: float) -> None:
        self.last = State(step=state.step, epoch=state.epoch, seen=state.seen, loss=total, correct=correct)


class ConfusionLog:
    """Writes the confusion matrix of each validation into confusion.jsonl: rows are true classes."""

    def __init__(self, folder: Path) -> None:
        self.lines = BoundedLines(folder / CONFUSION, MOST_CONFUSIONS)
        self.started = False

    def __call__(self, validation: Validation, state: State) -> None:
        """Add a matrix. state: after the epoch of this validation"""
        if validation.confusion is None:
            return
        if not self.started:
            self.started = True
            self.lines.start(lambda record: record["epoch"] < state.epoch)
        self.lines.add({"epoch": state.epoch, "step": state.step, "counts": validation.confusion})


def _kept(record: Record, keep: Callable[[Record], bool]) -> bool:
    try:
        return keep(record)
    except (KeyError, TypeError):
        return False


def _thinned(records: list[Record], count: int) -> list[Record]:
    """Return about `count` records at even distances of their steps, with the newest one."""
    distance = (records[-1]["step"] - records[0]["step"]) / count
    found = records[:1]
    for record in records[1:]:
        if record["step"] - found[-1]["step"] >= distance:
            found.append(record)
    return found if found[-1] is records[-1] else [*found, records[-1]]


def _line(record: Record) -> str:
    return json.dumps(record, separators=(",", ":")) + "\n"
