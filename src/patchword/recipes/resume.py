"""Resumes a run, and ends a failed run with the command that resumes it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from patchword.core.disk_space import is_disk_error, write_error
from patchword.core.errors import RecoverableError, UserError
from patchword.core.files import write_json
from patchword.recipes.run import resume_command
from patchword.recipes.run_folders.records import MACHINE, read_record
from patchword.recipes.run_folders.sealing import first_checkpoint
from patchword.training.checkpoint.checkpoint import SaveCost
from patchword.training.checkpoint.disk_check import format_cost
from patchword.training.loop import Loop


def resume_loop(loop: Loop, console: Console) -> None:
    """Restore the newest intact checkpoint; log its position, and what is wrong with newer ones.

    If there are checkpoints and none is intact, the run does not start again by itself, since it would overwrite the
    best weights and the log.
    """
    count = len(loop.checkpoints.all())
    found = loop.resume(lambda text: console.print(text, highlight=False, markup=False))
    if found:
        console.print(_position(loop), highlight=False, markup=False)
    place = loop.checkpoints.folder
    if count and not found:
        hint = (
            f"if {place} is on a disk that was not available, try again; restore a copy of it; "
            "or start a new run with another --name"
        )
        raise UserError(
            "the run cannot be resumed", expected="an intact checkpoint", got=f"{count} damaged checkpoints", hint=hint
        )


def note_other_machine(folder: Path, now: Mapping[str, Any], console: Console) -> None:
    """Say that a run resumes on another machine, or with other threads, so that it cannot stay equal to the bit."""
    before = read_record(folder, MACHINE)
    for field in ("device", "processor", "torch"):
        if field in before and before[field] != now[field]:
            text = (
                f"note: the run began with another {field} ({before[field]}; now {now[field]}): results are rounded "
                "differently, so they are not equal to the bit with those of a run that was not stopped"
            )
            console.print(text, highlight=False, markup=False)


def _position(loop: Loop) -> str:
    state, folder = loop.state, loop.checkpoints.folder.parent
    if loop.finished():
        return f"{folder} is trained to its end ({state.epoch} epochs, {state.step:,} steps); only its test is repeated"
    return (
        f"resuming from epoch {state.epoch + 1}, batch {state.batch + 1} of {folder} "
        f"({loop.epochs} epochs of {loop.steps_per_epoch:,} batches; {state.step:,} steps are done)"
    )


def report_cost(cost: SaveCost, folder: Path, console: Console) -> None:
    """Print the cost of a save, and write it to machine.json."""
    with first_checkpoint(folder) as files:
        write_json(files / MACHINE, {**read_record(folder, MACHINE), "checkpoint": format_cost(cost)})
    console.print(f"[dim]checkpoint size {format_cost(cost)}[/dim]", highlight=False)


@contextmanager
def resumable(folder: Path) -> Iterator[None]:
    """Add the command that resumes the run to the error of a full or failing disk, or of missing data."""
    hint = f"then resume with:\n{resume_command(folder)}"
    try:
        yield
    except RecoverableError as error:
        raise error.with_hint(hint) from None
    except OSError as error:
        if not is_disk_error(error):
            raise
        failure = write_error(f"cannot write into {folder}", folder, error)
        raise (failure.with_hint(hint) if isinstance(failure, RecoverableError) else failure) from None
