"""A run goes on: from where, at what price, and with which command."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from patchword.core.disk_space import disk_full, is_full
from patchword.core.errors import RecoverableError, UserError
from patchword.core.files import read_json, write_json
from patchword.recipes.run import resume_command
from patchword.training.checkpoint.checkpoint import Cost
from patchword.training.checkpoint.disk_check import told_cost
from patchword.training.loop import Loop


def resume_loop(loop: Loop, console: Console) -> None:
    """From the newest whole checkpoint; says which, and what is wrong with newer ones. Where there are some and none
    can be used, a run does not begin again by itself: it would write over its best weights and its log."""
    there = len(loop.checkpoints.all())
    found = loop.resume(lambda text: console.print(text, highlight=False, markup=False))
    if found and not loop.finished():
        console.print(f"going on from epoch {loop.state.epoch + 1}, batch {loop.state.batch + 1}", highlight=False)
    if there and not found:
        folder = loop.checkpoints.folder
        hint = (
            f"if {folder} lies on a disk that was away, try again; put a copy back; or begin anew with another --name"
        )
        raise UserError("no checkpoint can be used", expected="a whole one", got=f"{there} that are not", hint=hint)


def tell_cost(cost: Cost, folder: Path, console: Console) -> None:
    """What a save costs, said once and kept in machine.json."""
    path = folder / "machine.json"
    write_json(path, {**(read_json(path) if path.is_file() else {}), "checkpoint": told_cost(cost)})
    console.print(f"[dim]a checkpoint is {told_cost(cost)}[/dim]", highlight=False)


@contextmanager
def resumable(folder: Path) -> Iterator[None]:
    """A full disk, or data that went away, ends a run with the command that goes on with it."""
    hint = f"then go on with:\n{resume_command(folder)}"
    try:
        yield
    except RecoverableError as fault:
        raise fault.with_hint(hint) from None
    except OSError as error:
        if not is_full(error):
            raise
        raise disk_full(f"cannot write into {folder}", folder, error.strerror or str(error)).with_hint(hint) from None
