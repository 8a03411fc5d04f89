"""The log of a run: a progress bar or log lines on the console, and metrics.jsonl for tools."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from patchword.core.files import write_text
from patchword.training.epoch_lines import epoch_lines, step_text
from patchword.training.state import State

_LINE_SECONDS = 30.0  # between log lines if the output is not a terminal
_BAR_SECONDS = 0.5  # between updates of the progress bar; each reads the loss from the device
_ROWS_PER_HEADER = 20


METRICS, BROKEN = "metrics.jsonl", "metrics-broken.jsonl"


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Return the records of metrics.jsonl; lines that are none are left out, such as the last one after a kill."""
    return _read(path)[0]


def _read(path: Path) -> tuple[list[dict[str, Any]], list[bytes]]:
    """Return the records of metrics.jsonl, and the lines that are none; not an incomplete last one."""
    records, broken = [], []
    for line in path.read_bytes().splitlines(keepends=True) if path.is_file() else []:
        record = _record(line)
        if record is not None:
            records.append(record)
        elif line.endswith(b"\n"):
            broken.append(line)
    return records, broken


def _record(line: bytes) -> dict[str, Any] | None:
    """Return the record of an epoch. The learning rate was called "rate" in files of earlier versions."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or type(found.get("epoch")) is not int:
        return None
    if not all(value is None or type(value) in (int, float) for value in found.values()):
        return None
    return {"learning_rate" if name == "rate" else name: value for name, value in found.items()}


class RunLog:
    """Writes metrics.jsonl into the run folder, and shows the progress on the console."""

    def __init__(self, folder: Path, console: Console, unit: str = "images", metric: str = "accuracy") -> None:
        self.folder, self.console, self.unit, self.metric = folder, console, unit, metric
        self.bar: Progress | None = None
        self.task: TaskID | None = None
        self.epochs = self.steps_per_epoch = 0
        self.shown = self.began = time.monotonic()
        self.first_step = 0
        self.batch = 0
        self.header, self.rows = "", 0  # the header above the last row, and the rows below it

    def start(self, state: State, epochs: int, steps_per_epoch: int) -> None:
        self.epochs, self.steps_per_epoch, self.first_step = epochs, steps_per_epoch, state.step
        self._keep_records(state.epoch)
        self.began = self.shown = time.monotonic()
        if self.console.is_interactive:
            self.bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(self._bar_width()),
                TextColumn("{task.fields[text]}"),
                console=self.console,
                transient=True,
            )
            self.task = self.bar.add_task("training", total=epochs * steps_per_epoch, completed=state.step, text="")
            self.bar.start()

    def _keep_records(self, epoch: int) -> None:
        """Keep the records up to an epoch; lines that cannot be read move into a file of their own."""
        records, broken = _read(self.folder / METRICS)
        if broken:
            with (self.folder / BROKEN).open("ab") as file:
                file.writelines(broken)
            lines = "1 line" if len(broken) == 1 else f"{len(broken):,} lines"
            text = f"{lines} of metrics.jsonl cannot be read and moved to {BROKEN}; the training is not affected"
            self.console.print(text, style="yellow", highlight=False, markup=False)
        kept = [record for record in records if record["epoch"] <= epoch]
        write_text(self.folder / METRICS, "".join(json.dumps(record) + "\n" for record in kept))

    def step(self, state: State, loss: Callable[[], float], accuracy: Callable[[], float]) -> None:
        self.batch = max(self.batch, state.seen // max(1, state.batch))
        now = time.monotonic()
        if now - self.shown < (_BAR_SECONDS if self.bar else _LINE_SECONDS):
            return
        self.shown = now
        done = state.step - self.first_step
        speed = done * self.batch / (now - self.began)
        left = (self.epochs * self.steps_per_epoch - state.step) * (now - self.began) / max(1, done)
        epoch = f"epoch {state.epoch + 1}/{self.epochs}"
        bar, task = self.bar, self.task
        before = "" if bar else f"{epoch}, step {state.batch}/{self.steps_per_epoch}: "
        room = self.console.width - (len(epoch) + (self._bar_width() + 2) if bar else len(before))
        text = step_text(loss(), accuracy(), speed, self.unit, left, room)
        if bar and task is not None:
            bar.update(task, completed=state.step, text=text, description=epoch)
        else:
            self.console.print(f"{before}{text}", highlight=False, markup=False)
            self.header = ""  # the next row is far below its header

    def epoch(self, record: dict[str, float], state: State) -> None:
        with (self.folder / METRICS).open("a") as file:
            file.write(json.dumps(record) + "\n")
            file.flush()
            os.fsync(file.fileno())
        best = state.epochs_since_best == 0
        header, row = epoch_lines(record, self.metric, self.epochs, best, self.console.width)
        if header != self.header or self.rows == _ROWS_PER_HEADER:
            self.console.print(header, style="bold", highlight=False, markup=False)
            self.header, self.rows = header, 0
        self.rows += 1
        self.console.print(row, highlight=False, markup=False)

    def _bar_width(self) -> int:
        return 40 if self.console.width > 100 else 10

    def stop(self) -> None:
        if self.bar:
            self.bar.stop()
