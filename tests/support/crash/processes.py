"""Runs of the `patchword` command in forked processes: everything is imported once, so that a run starts at once."""

import importlib
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

LONGEST = 600.0  # seconds after which a run that hangs is a failure


@dataclass
class Command:
    """A command that runs; it leads a session of its own. output: the file with what it prints."""

    pid: int
    output: Path
    began: float = field(default_factory=time.monotonic)
    code: int | None = None

    def is_running(self) -> bool:
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code is None

    def wait(self, seconds: float = LONGEST) -> bool:
        """Wait until it ends; return False if it still runs after so long."""
        end = time.monotonic() + seconds
        while self.is_running() and time.monotonic() < end:
            time.sleep(0.005)
        return self.code is not None

    def send(self, number: int, pid: int = 0) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid or self.pid, number)

    def children(self) -> list[int]:
        """Return the other processes of its session."""
        found = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
        return [pid for pid in found if pid != self.pid and _session_of(pid) == self.pid]

    def kill(self) -> None:
        """Kill all its processes at once, and wait until none is left."""
        while others := [*([self.pid] if self.is_running() else []), *self.children()]:
            for pid in others:
                self.send(signal.SIGKILL, pid)
            time.sleep(0.01)


def start(words: Sequence[str], folder: Path, output: Path, around: Callable[[], object] = lambda: None) -> Command:
    """Run a command in a folder. around: is called in the new process first"""
    sys.stdout.flush()
    sys.stderr.flush()
    output.touch()  # a process may be killed before it opens it
    if pid := os.fork():
        return Command(pid, output)
    code = 1
    try:
        os.setsid()
        os.chdir(folder)
        _redirect(output)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        around()
        code = _run(words)
    except KeyboardInterrupt:  # before the command begins, as while Python starts
        code = 130
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(BaseException):
            sys.stdout.flush()
        os._exit(code)


def preload(words: Sequence[str], folder: Path) -> None:
    """Import what a command imports, found by running it in another process."""
    names = folder / "modules"

    def at_end() -> None:
        import atexit

        atexit.register(lambda: names.write_text("\n".join(sys.modules)))

    Command.wait(start(words, folder, folder / "preload", at_end))
    for name in names.read_text().split():
        if not name.startswith("__"):
            with suppress(Exception):
                importlib.import_module(name)


def _run(words: Sequence[str]) -> int:
    import atexit

    from patchword.cli import main

    sys.argv = ["patchword", *words]
    code = 0
    try:
        main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()
    return code


def _redirect(output: Path) -> None:
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for number in (1, 2):
        os.dup2(descriptor, number)
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115


def _session_of(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    state, _, _, session = text.rpartition(")")[2].split()[:4]
    return 0 if state == "Z" else int(session)
