"""Launches a training run as several processes on this machine, monitors them, and restarts them together."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import IO, Any

from patchword.core.errors import UserError
from patchword.training.signals import stop_signals

STARTING = 1800.0  # seconds until every process must have started, on a busy machine
RENDEZVOUS = 150.0  # seconds for the rendezvous once all have started
MAX_RENDEZVOUS = 3  # failed rendezvous until the launcher gives up
AFTER = 2.0  # seconds for the others to exit after one has died
TWICE = 1.0  # two signals within this many seconds count as one, here and in the processes
STOPPING = 60.0  # seconds for the others after one stopped on request: rank 0 may still be saving
STOPPED = (129, 130, 143)  # exit codes after SIGHUP, Ctrl-C and SIGTERM
ENDED = (0, 2, *STOPPED)  # finished, user error, stopped on request: no restart
NOTE, LAUNCHER = (
    "PATCHWORD_JOINED",
    "PATCHWORD_LAUNCHER",
)  # environment variables with file descriptors, read by training/parallel


@dataclass
class Attempt:
    """One start of all processes.

    begun, met: how many processes have started, and how many have completed the rendezvous. saved: whether a checkpoint
    was saved. first: rank and exit code of the first failure. asked: the first stop signal, and when it arrived.
    """

    processes: list[subprocess.Popen[bytes]]
    errors: Sequence[IO[bytes]]
    joined: int
    since: float = field(default_factory=time.monotonic)
    begun: int = 0
    met: int = 0
    saved: bool = False
    first: tuple[int, int] | None = None
    asked: tuple[int, float] | None = None

    def wait(self) -> int:
        """Wait until all processes have exited and return the exit code; if one dies, the others are killed."""
        died = 0.0
        while any(process.poll() is None for process in self.processes):
            self._read_events()
            codes = [process.poll() for process in self.processes]
            if self.first is None and any(codes):
                self.first = next((number, code) for number, code in enumerate(codes) if code)
                died = time.monotonic()
            patience = STOPPING if self.first and self.first[1] in STOPPED else AFTER
            if self.first and time.monotonic() - died > patience:
                self.send(signal.SIGKILL)
            if self._is_late():
                self.send(signal.SIGKILL)
            time.sleep(0.05)
        self._read_events()
        codes = [process.wait() for process in self.processes]
        if self.first is None:
            self.first = next(((number, code) for number, code in enumerate(codes) if code), None)
        deliberate = [code for code in codes if code in (2, *STOPPED)]
        return deliberate[0] if deliberate else self.first[1] if self.first else 0

    def send(self, number: int) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(number)

    def stop(self, number: int) -> None:
        """Forward a signal to all processes; a second one kills them.

        A process that waits in a collective operation for one that hangs cannot run its Python signal handler. One in
        which Python itself still starts would print a traceback after Ctrl-C, and ends silently after SIGTERM.
        """
        if self.asked is None:
            self.asked = number, time.monotonic()
        if number == signal.SIGINT and self.begun < len(self.processes):
            number = signal.SIGTERM
        self.send(signal.SIGKILL if time.monotonic() - self.asked[1] > TWICE else number)

    def _read_events(self) -> None:
        """Read the progress bytes of the processes: b (started), m (rendezvous done), s (checkpoint saved)."""
        with suppress(BlockingIOError):
            events, all_before = os.read(self.joined, 4096), self.begun == len(self.processes)
            self.begun, self.met = self.begun + events.count(b"b"), self.met + events.count(b"m")
            self.saved = self.saved or b"s" in events
            if not all_before and self.begun == len(self.processes):
                self.since = time.monotonic()

    def _is_late(self) -> bool:
        """Return whether the processes take too long to start or, once all have started, to complete the rendezvous."""
        patience = RENDEZVOUS if self.begun == len(self.processes) else STARTING
        return self.met < len(self.processes) and time.monotonic() - self.since > patience

    def complaint(self) -> str:
        """Return the last lines on stderr of the process that failed first; rank 0 prints its own."""
        if self.first is None or self.first[0] == 0:
            return ""
        file = self.errors[self.first[0]]
        file.seek(0)
        return "\n".join(file.read().decode("utf-8", "replace").strip().splitlines()[-5:])


def launch(words: Sequence[str], processes: int, restarts: int, report: Callable[[str], None]) -> int:
    """Run a command as several processes and return the exit code.

    If a process dies, the others are killed and all restart from the newest checkpoint, at most `restarts` times; a
    start that saved a checkpoint resets the count.
    """
    failed = missed = begun = 0
    while True:
        with started(words, processes) as attempt:
            code = attempt.wait()
            complaint = attempt.complaint() if code not in (0, *STOPPED) and not attempt.asked else ""
        if complaint:
            report(complaint)
        if code in STOPPED and attempt.asked:
            return 128 + attempt.asked[0]
        if code in ENDED:
            return code
        if attempt.asked:
            report("killed; the same command with --resume resumes from the newest checkpoint")
            return 128 + attempt.asked[0]
        met = attempt.met == processes
        if attempt.saved:
            failed = missed = 0
        failed, missed, begun = failed + met, missed + (not met), begun + 1
        number, how = attempt.first or (0, code)
        what = f"process {number} of {processes} {_cause(how)}" if met else "the rendezvous of the processes failed"
        if failed > restarts or missed >= MAX_RENDEZVOUS:
            report(f"{what}; gave up after {begun} starts. The same command with --resume resumes the run")
            return 1
        report(
            f"{what}; restarting all from the newest checkpoint ({restarts - failed + 1} of {restarts} restarts left)"
        )
        words = [*words, *(() if "--resume" in words else ("--resume",))]


def one_run_only(several: bool) -> None:
    """Raise an error for a study or several seeds: --processes works for one run only."""
    if several:
        raise UserError("--processes works for one run only", expected="a recipe without --seeds", got="several runs")


@contextmanager
def started(words: Sequence[str], processes: int) -> Iterator[Attempt]:
    """Start the processes and forward signals to them; on exit, none is left.

    Every process holds the reading end of a pipe that this one never writes to: end of file means the launcher died.
    """
    joined, note = os.pipe()
    alive, held = os.pipe()
    os.set_blocking(joined, False)
    common = _environment(processes) | {NOTE: str(note), LAUNCHER: str(alive)}
    with ExitStack() as files:
        errors = [files.enter_context(tempfile.TemporaryFile()) for _ in range(processes)]
        attempt = Attempt([], errors, joined)
        before: dict[int, Any] = {}  # handlers

        def forward(number: int, frame: FrameType | None) -> None:
            attempt.stop(number)

        try:
            for number, complaints in enumerate(errors):
                own = {"RANK": str(number), "LOCAL_RANK": str(number)}
                out, err = (subprocess.DEVNULL, complaints) if number else (None, None)  # rank 0 prints directly
                attempt.processes.append(
                    subprocess.Popen(
                        list(words),
                        env=common | own,
                        pass_fds=(note, alive),
                        start_new_session=True,
                        stdout=out,
                        stderr=err,
                    )
                )
            for end in (note, alive):
                os.close(end)
            before |= {number: signal.signal(number, forward) for number in stop_signals()}
            yield attempt
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            attempt.send(signal.SIGKILL)
            for child in attempt.processes:
                child.wait()
            for end in (joined, held):
                os.close(end)


def _environment(processes: int) -> dict[str, str]:
    """Return the environment: the cores are divided among the processes, which communicate over the loopback device."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    environment = {"OMP_NUM_THREADS": str(max(1, cores // processes)), **os.environ}
    loopback = "lo0" if sys.platform == "darwin" else "lo"
    rendezvous = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port()), "GLOO_SOCKET_IFNAME": loopback}
    return {**environment, **rendezvous, "WORLD_SIZE": str(processes)}


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _cause(code: int) -> str:
    try:
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"failed with exit code {code}"
    except ValueError:
        return f"was killed by signal {-code}"
