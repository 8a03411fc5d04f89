"""Runs the small forms of the lectures' commands, each as the command line does, in a temporary folder."""

import io
import shlex
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from patchword.core.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from patchword.lectures.index import Deck

Run = Callable[[list[str]], object]  # from the words of a command to its exit code; None and others are 0
_LAST = 5  # lines of a failed command that are shown
_STATES = ("passed", "failed", "skipped", "without a small form")


def check_decks(chosen: "Iterable[Deck]", run: Run, out: "Console") -> list[str]:
    """Run the small forms of all items; return the ids of those that failed. run: runs the words of a command"""
    from patchword.lectures.samples import write_samples

    results: Counter[str] = Counter()
    failed = []
    items = {item.id: item for deck in chosen for item in deck.items()}
    with tempfile.TemporaryDirectory(prefix="patchword-lecture-") as name:
        folder = Path(name)
        write_samples(folder)
        for item in items.values():
            if not item.small:
                results["without a small form"] += 1
                continue
            if missing := _missing_models(item.small):
                results["skipped"] += 1
                out.print(f"skipped  {item.id}: {missing}", highlight=False, markup=False)
                continue
            start = time.monotonic()
            fault = run_commands(item.small, run, folder)
            results["failed" if fault else "passed"] += 1
            failed += [item.id] if fault else []
            word = "failed " if fault else "passed "
            out.print(f"{word}  {item.id} ({time.monotonic() - start:.1f} s)", highlight=False, markup=False)
            if fault:
                out.print(fault, highlight=False, markup=False)
    out.print(", ".join(f"{results[state]} {state}" for state in _STATES), highlight=False)
    return failed


def run_commands(commands: Sequence[str], run: Run, folder: Path) -> str:
    """Run commands in a folder, until one fails; return what was wrong, empty if nothing was.

    They run in this process, as a new one would wait for torch; what they print is kept for a failure only.
    """
    for command in commands:
        printed = io.StringIO()
        with chdir(folder), redirect_stdout(printed), redirect_stderr(printed):
            try:
                ended = run(shlex.split(command)[1:])
            except UserError as error:
                ended = 2
                print(f"error: {error}")
            except Exception:  # a fault of ours, which is reported like any other
                ended = 1
                traceback.print_exc()
        if isinstance(ended, int) and ended:
            last = printed.getvalue().strip().splitlines()[-_LAST:]
            return "\n".join([f"  {command}", f"  exit code {ended}", *(f"  {line}" for line in last)])
    return ""


def _missing_models(commands: Iterable[str]) -> str:
    """Return which models of the zoo the commands need that are not installed; empty if all are."""
    from patchword.zoo.entries import entry_folder, is_zoo_name

    for word in (word for command in commands for word in shlex.split(command)):
        if is_zoo_name(word):
            try:
                entry_folder(word)
            except UserError as error:
                return str(error).partition("\n")[0]
    return ""
