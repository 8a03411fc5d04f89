"""The log of a run: a progress bar or log lines on the console, metrics.jsonl and TensorBoard events for tools."""

import json
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from patchword.core.files import write_text
from patchword.training.state import State

_LINE_SECONDS = 30.0  # between log lines if the output is not a terminal
_BAR_SECONDS = 0.5  # between updates of the progress bar; each reads the loss from the device
PERCENT = ("accuracy", "f1", "exact", "error_reduction")  # metrics that are shown in percent


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Return the records of metrics.jsonl; an incomplete last line, left by a kill, is dropped.

    The learning rate was called "rate" in files of earlier versions.
    """
    records = []
    for line in path.read_text().splitlines() if path.is_file() else []:
        try:
            record = json.loads(line)
            records.append({"learning_rate" if name == "rate" else name: value for name, value in record.items()})
        except ValueError:
            break
    return records


class RunLog:
    """Writes metrics.jsonl and TensorBoard events into the run folder, and shows the progress on the console."""

    def __init__(self, folder: Path, console: Console, unit: str = "images", metric: str = "accuracy") -> None:
        self.folder, self.console, self.unit, self.metric = folder, console, unit, metric
        self.events: Any = None
        self.bar: Progress | None = None
        self.task: TaskID | None = None
        self.epochs = self.steps_per_epoch = 0
        self.shown = self.began = time.monotonic()
        self.first_step = 0
        self.batch = 0

    def start(self, state: State, epochs: int, steps_per_epoch: int) -> None:
        self.epochs, self.steps_per_epoch, self.first_step = epochs, steps_per_epoch, state.step
        kept = [record for record in read_metrics(self.folder / "metrics.jsonl") if record["epoch"] <= state.epoch]
        write_text(self.folder / "metrics.jsonl", "".join(json.dumps(record) + "\n" for record in kept))
        self.events = _event_writer(self.folder, state.step)
        self.began = self.shown = time.monotonic()
        if self.console.is_terminal:
            self.bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[text]}"),
                console=self.console,
                transient=True,
            )
            self.task = self.bar.add_task("training", total=epochs * steps_per_epoch, completed=state.step, text="")
            self.bar.start()

    def step(self, state: State, loss: Callable[[], float], accuracy: Callable[[], float]) -> None:
        self.batch = max(self.batch, state.seen // max(1, state.batch))
        now = time.monotonic()
        if now - self.shown < (_BAR_SECONDS if self.bar else _LINE_SECONDS):
            return
        self.shown = now
        done = state.step - self.first_step
        speed = done * self.batch / (now - self.began)
        left = (self.epochs * self.steps_per_epoch - state.step) * (now - self.began) / max(1, done)
        text = f"loss {loss():.4f}{_accuracy(accuracy())}  {speed:,.0f} {self.unit}/s  {_duration(left)} left"
        if self.bar and self.task is not None:
            self.bar.update(
                self.task, completed=state.step, text=text, description=f"epoch {state.epoch + 1}/{self.epochs}"
            )
        else:
            position = f"{state.batch}/{self.steps_per_epoch}"
            self.console.print(f"epoch {state.epoch + 1}/{self.epochs}, step {position}: {text}", highlight=False)

    def epoch(self, record: dict[str, float], state: State) -> None:
        with (self.folder / "metrics.jsonl").open("a") as file:
            file.write(json.dumps(record) + "\n")
            file.flush()
            os.fsync(file.fileno())
        for key, value in record.items():
            if self.events and key not in ("epoch", "step"):
                self.events.add_scalar(key, value, record["step"])
        star = " *" if state.epochs_since_best == 0 else ""
        score = record[f"validation_{self.metric}"]
        shown = f"{score:.2%}" if self.metric in PERCENT else f"{score:.4f}"
        self.console.print(
            f"epoch {record['epoch']:>{len(str(self.epochs))}}/{self.epochs}  "
            f"loss {record['loss']:.4f}{_accuracy(record.get('accuracy', math.nan))}  |  "
            f"validation loss {record['validation_loss']:.4f}  {self.metric} {shown}{star}  "
            f"[dim]{_duration(record['seconds'])}[/dim]",
            highlight=False,
        )

    def stop(self) -> None:
        if self.bar:
            self.bar.stop()
        if self.events:
            self.events.close()


def _accuracy(accuracy: float) -> str:
    """Return nothing for a task without correct predictions."""
    return "" if math.isnan(accuracy) else f"  accuracy {accuracy:.2%}"


def _event_writer(folder: Path, step: int) -> Any:
    """Return a TensorBoard writer if it is installed; events after `step` of an earlier start are purged."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(folder, purge_step=step)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
