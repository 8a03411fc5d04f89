"""A tiny run, recorded; the runs that resume what a power cut or an error of the disk left of it; and their check."""

import errno
import io
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

from rich.console import Console

from patchword.api.training import train_recipe
from patchword.core.errors import UserError
from patchword.recipes import find_recipe
from patchword.recipes.run_folders.finished import clean
from patchword.recipes.schema.recipe import Recipe
from patchword.training.loggers.loggers import NO_LOGGERS
from patchword.training.run_log import read_metrics
from support.material import differing
from support.power.disk import Image, written
from support.power.events import Acknowledged, Create, Event, MakeFolder, Write
from support.power.recording import Recorder, recording, without_fsync
from support.tiny_texts import QUICK, vocabulary_of, write_table

EPOCHS, STEPS = 2, 2
RESULTS = ("evaluation.json", "config.json", "tokenizer.json", "calibration.json", "recipe.yaml", "data.json")


class TinyRun:
    """A run of a text classifier in a folder of runs, saved after every step. report: also write report.html"""

    def __init__(self, place: Path, report: bool = False) -> None:
        self.runs, self.report = place / "runs", report
        self.folder = self.runs / "tiny"
        self.recipe = _recipe(place / "data")

    def train(self, recorder: Recorder | None = None) -> str:
        """Train or resume, evaluate, and finish the run; return what was printed."""
        console = Console(file=io.StringIO(), soft_wrap=True)
        with _alone(self.report), without_fsync() if recorder is None else recording(recorder):
            train_recipe(self.recipe, self.folder, console, resume=True)
        assert isinstance(console.file, io.StringIO)
        return console.file.getvalue()

    def whole(self) -> tuple[Path, list[Event]]:
        """Return a copy of the uninterrupted run, and its events."""
        self.clear()
        recorder = Recorder(self.runs)
        self.train(recorder)
        copy = self.runs.with_name("whole")
        shutil.copytree(self.folder, copy)
        return copy, recorder.events

    def clear(self) -> None:
        shutil.rmtree(self.runs, ignore_errors=True)
        self.runs.mkdir(parents=True)

    def after(self, image: Image) -> None:
        """Put what a power cut left into the place of the run."""
        shutil.rmtree(self.runs, ignore_errors=True)
        written(image, self.runs)


def resumed_fault(run: TinyRun, whole: Path, acknowledged: str) -> str:
    """Resume the run; return what is wrong with that: an error, a lost save, or another result."""
    try:
        output = run.train()
    except Exception as error:  # of whatever kind: none may happen
        return f"{type(error).__name__}: {error}"
    place = begun_at(output)
    if place < acknowledged:
        return f"resumed from {place or 'the start'}, although {acknowledged} was saved"
    return difference(run.folder, whole)


def begun_at(output: str) -> str:
    """Return the name of the checkpoint from which a run says that it resumed."""
    if "is trained to its end" in output or "is finished" in output:
        return f"epoch-{EPOCHS:05d}-batch-0000000"
    found = re.search(r"resuming from epoch (\d+), batch (\d+)", output)
    return f"epoch-{int(found[1]) - 1:05d}-batch-{int(found[2]) - 1:07d}" if found else ""


def difference(folder: Path, whole: Path) -> str:
    """Return what differs from the uninterrupted run, except for times."""
    if names := differing(folder / "model.safetensors", whole / "model.safetensors"):
        return f"other weights: {names}"
    metrics = [
        [{**record, "seconds": 0} for record in read_metrics(place / "metrics.jsonl")] for place in (folder, whole)
    ]
    if metrics[0] != metrics[1]:
        return f"another log: {metrics[0]}"
    for name in RESULTS:
        if (whole / name).is_file() and (folder / name).read_bytes() != (whole / name).read_bytes():
            return f"another {name}"
    if not (folder / "finished.json").is_file():
        return "it is not finished"
    clean(folder)  # a finished run may keep what a kill left, until this
    litter = [path.name for path in folder.iterdir() if path.name.startswith(".") and path.name != ".lock"]
    return f"left behind: {litter}" if litter else ""


def failing(at: int, number: int) -> Callable[[int, Event], int]:
    """Return what makes the call with this number fail: a full disk also whatever needs space after it."""

    def fails(call: int, event: Event) -> int:
        lasts = number == errno.ENOSPC and call > at and isinstance(event, Create | Write | MakeFolder)
        return number if call == at or lasts else 0

    return fails


def failed_fault(run: TinyRun, whole: Path, at: int, number: int) -> tuple[str, str]:
    """Let a call of a new run fail, then resume it; return how the first one ended, and what is wrong."""
    run.clear()
    recorder = Recorder(run.runs, failing(at, number))
    ended = "went on"
    try:
        run.train(recorder)
    except UserError as error:
        ended = "ended with an error"
        if not (str(error) and "\n" in str(error)):
            return ended, f"an error without a hint: {error}"
    except Exception as error:
        return "ended with an exception", f"{type(error).__name__}: {error}"
    saved = max((event.name for event in recorder.events if isinstance(event, Acknowledged)), default="")
    return ended, resumed_fault(run, whole, saved)


def _recipe(folder: Path) -> Recipe:
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary_of(["a", "good", "bad", "film"], folder / "words")
    table = write_table(folder / "texts.csv", [(f"a {word} film", word) for word in ("good", "bad") * 8])
    fields = [f"train={table}", f"test={table}", f"validation={table}", f"tokenizer={folder / 'words'}", "length=8"]
    sizes = ["model.width=8", "model.hidden=16", "model.max_length=8", f"epochs={EPOCHS}", f"batch_size={16 // STEPS}"]
    rest = ["model.dropout=0.1", "ema_decay=0.9", "save_minutes=0", "device=cpu", "learning_rate=1e-2"]
    return find_recipe("classify-text").with_settings([*QUICK, *fields, *sizes, *rest])


@contextmanager
def _alone(report: bool) -> Iterator[None]:
    """Train without TensorBoard, whose thread writes at any time; and without the report, which takes longest."""
    with ExitStack() as changes:
        changes.enter_context(patch("patchword.api.training.loggers_of", lambda recipe, console: NO_LOGGERS))
        if not report:
            changes.enter_context(
                patch("patchword.api.evaluation.write_report", lambda run, found: run.folder / "report.html")
            )
        yield
