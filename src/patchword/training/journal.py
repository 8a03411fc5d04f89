"""What is told of a run while it goes: a bar for people, lines for logs, JSON and TensorBoard for tools."""

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

_LINE_SECONDS = 30.0  # between lines where the output is no terminal
_LOOK_SECONDS = 0.5  # between looks at the loss
SHARES = ("accuracy", "f1", "exact")  # measures told in percent


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl; a last line cut short by a kill is left out."""
    records = []
    for line in path.read_text().splitlines() if path.is_file() else []:
        try:
            records.append(json.loads(line))
        except ValueError:
            break
    return records


class RunJournal:
    """Writes metrics.jsonl and TensorBoard events into the run's folder, and shows the progress on the console."""

    def __init__(self, folder: Path, console: Console, unit: str = "images", metric: str = "accuracy") -> None:
        self.folder, self.console, self.unit, self.metric = folder, console, unit, metric
        self.events: Any = None
        self.bar: Progress | None = None
        self.task: TaskID | None = None
        self.epochs = self.steps_per_epoch = 0
        self.looked = self.began = time.monotonic()
        self.first_step = 0
        self.batch = 0

    def start(self, state: State, epochs: int, steps_per_epoch: int) -> None:
        self.epochs, self.steps_per_epoch, self.first_step = epochs, steps_per_epoch, state.step
        kept = [record for record in read_metrics(self.folder / "metrics.jsonl") if record["epoch"] <= state.epoch]
        write_text(self.folder / "metrics.jsonl", "".join(json.dumps(record) + "\n" for record in kept))
        self.events = _event_writer(self.folder, state.step)
        self.began = self.looked = time.monotonic()
        if self.console.is_terminal:
            self.bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[told]}"),
                console=self.console,
                transient=True,
            )
            self.task = self.bar.add_task("training", total=epochs * steps_per_epoch, completed=state.step, told="")
            self.bar.start()

    def step(self, state: State, loss: Callable[[], float], accuracy: Callable[[], float]) -> None:
        self.batch = max(self.batch, state.seen // max(1, state.batch))
        now = time.monotonic()
        if now - self.looked < (_LOOK_SECONDS if self.bar else _LINE_SECONDS):
            return
        self.looked = now
        taken = state.step - self.first_step
        speed = taken * self.batch / (now - self.began)
        left = (self.epochs * self.steps_per_epoch - state.step) * (now - self.began) / max(1, taken)
        told = f"loss {loss():.4f}{_share(accuracy())}  {speed:,.0f} {self.unit}/s  {_duration(left)} left"
        if self.bar and self.task is not None:
            self.bar.update(
                self.task, completed=state.step, told=told, description=f"epoch {state.epoch + 1}/{self.epochs}"
            )
        else:
            share = f"{state.batch}/{self.steps_per_epoch}"
            self.console.print(f"epoch {state.epoch + 1}/{self.epochs}, step {share}: {told}", highlight=False)

    def epoch(self, record: dict[str, float], state: State) -> None:
        with (self.folder / "metrics.jsonl").open("a") as file:
            file.write(json.dumps(record) + "\n")
            file.flush()
            os.fsync(file.fileno())
        for key, value in record.items():
            if self.events and key not in ("epoch", "step"):
                self.events.add_scalar(key, value, record["step"])
        star = " *" if state.waited == 0 else ""
        score = record[f"validation_{self.metric}"]
        told = f"{score:.2%}" if self.metric in SHARES else f"{score:.4f}"
        self.console.print(
            f"epoch {record['epoch']:>{len(str(self.epochs))}}/{self.epochs}  "
            f"loss {record['loss']:.4f}{_share(record.get('accuracy', math.nan))}  |  "
            f"validation loss {record['validation_loss']:.4f}  {self.metric} {told}{star}  "
            f"[dim]{_duration(record['seconds'])}[/dim]",
            highlight=False,
        )

    def stop(self) -> None:
        if self.bar:
            self.bar.stop()
        if self.events:
            self.events.close()


def _share(accuracy: float) -> str:
    """nothing where answers are neither right nor wrong"""
    return "" if math.isnan(accuracy) else f"  accuracy {accuracy:.2%}"


def _event_writer(folder: Path, step: int) -> Any:
    """TensorBoard's writer where TensorBoard is installed; what an earlier start told after `step` is taken back."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(folder, purge_step=step)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
