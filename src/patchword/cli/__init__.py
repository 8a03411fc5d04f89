"""VERBS: one file per verb. Heavy modules are imported when a verb runs, so that --help is fast."""

import atexit
import errno
import io
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

from patchword.core.errors import AmbiguityWarning, PeerLostError, UnsealedWarning, UserError
from patchword.core.memory import is_out_of_memory

FAULTS = "data-faults.txt"  # in the current folder
_OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # of writing to stdout


def main() -> None:
    """Run the `patchword` command."""
    if not sys.stdout.isatty():  # FORCE_COLOR, which notebooks and CI set, asks for colours, not for animations
        os.environ.setdefault("TTY_INTERACTIVE", "0")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")  # a file name need not be UTF-8, or fit the terminal
    try:
        _run()
    except SystemExit as ended:
        _interruptible_end()
        _end_beside_others(ended.code if isinstance(ended.code, int) else int(ended.code is not None))
        raise
    _interruptible_end()
    _end_beside_others(0)


def _interruptible_end() -> None:
    """Let Ctrl-C end the process silently while Python and torch clean up: everything is written by then.

    What is registered last runs first.
    """
    atexit.unregister(_end_at_interrupt)
    atexit.register(_end_at_interrupt)


def _end_at_interrupt() -> None:
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def _end_beside_others(code: int) -> None:
    """Exit at once if this process belongs to a process group.

    A communication thread that is still busy during the interpreter's shutdown would end the process as if it had
    crashed.
    """
    rendezvous = sys.modules.get("patchword.training.parallel.rendezvous")
    if rendezvous is not None and rendezvous.rank_of() is not None:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _run() -> None:
    from patchword.cli.app import app

    shown, warnings.showwarning = warnings.showwarning, _note_printer()
    try:
        _with_output(app)
    except UserError as error:
        from patchword.training.console import PrintableConsole

        console = PrintableConsole(stderr=True, soft_wrap=True)
        first, *rest = str(error).splitlines()
        console.print(f"[bold red]error:[/bold red] {_plain(first)}", highlight=False)
        for line in [*rest, *_whole_list(error)]:
            console.print(f"  {_plain(line)}", highlight=False)
        sys.exit(2)
    except PeerLostError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
    finally:
        warnings.showwarning = shown


def _with_output(app: Callable[[], None]) -> None:
    """Run the command; a full disk behind stdout is an error of the user's, not a fault of ours."""
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.filename is not None or error.errno not in _OUTPUT_ERRORS:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left of it cannot be written either
        hint = "free some space, or write to another place"
        raise UserError("cannot write the output", got=error.strerror, hint=hint) from None
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        got, hint = str(error).partition("\n")[0] or None, "choose a smaller model, a smaller batch or smaller inputs"
        raise UserError("there is not enough memory", got=got, hint=hint) from None


def _note_printer() -> Callable[..., None]:
    """Return a function that prints our warnings as notes, each once, and those of other libraries as Python does."""
    printed = set[str]()

    def show(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
    ) -> None:
        if not issubclass(category, (AmbiguityWarning, UnsealedWarning)):
            (file or sys.stderr).write(warnings.formatwarning(message, category, filename, lineno, line))
        elif str(message) not in printed:
            printed.add(str(message))
            print(f"note: {message}", file=sys.stderr)

    return show


def _whole_list(error: UserError) -> list[str]:
    """Write all faults of a data set to a file if the message does not show them all; return the line that names it."""
    from patchword.data.faults import SHOWN, DataError, fault_lines

    if not isinstance(error, DataError) or len(fault_lines(error.faults)) == len(fault_lines(error.faults, None)):
        return []
    import tempfile
    from pathlib import Path

    from patchword.core.files import write_text

    for folder in (Path.cwd(), Path(tempfile.gettempdir())):
        try:
            write_text(folder / FAULTS, "\n".join(fault_lines(error.faults, None)) + "\n")
            return [f"these are the first {SHOWN} of each kind; the full list is in {folder / FAULTS}"]
        except UserError:
            continue
    return []


def _plain(text: str) -> str:
    from rich.markup import escape

    return escape(text)
