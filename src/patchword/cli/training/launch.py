"""Several processes of one training run on this machine: started, watched over, stopped and started again together."""

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

STARTING = 1800.0  # seconds that the processes have to begin, on a machine with much else to do
MEETING = 150.0  # seconds that they then have to find each other
MEETINGS = 3  # times that they may fail to, until the run is given up
AFTER = 2.0  # seconds that the others have to end by themselves when one has died
TWICE = 1.0  # seconds within which two signals are one wish, as the processes themselves have it
STOPPING = 60.0  # seconds that the others have when one has stopped as it was asked to: the first may still save
ENDED = (0, 2, 130, 143)  # done, a user's mistake, and asked to stop: reasons not to begin again
NOTE, LAUNCHER = "PATCHWORD_JOINED", "PATCHWORD_LAUNCHER"  # file descriptors, of which training/parallel knows


@dataclass
class Attempt:
    """One start of all processes. begun, met: how many look for the others, and how many have found them; saved:
    whether a checkpoint was; first: the first that failed, and its code; asked: the first signal that asked for a stop,
    and when."""

    processes: list[subprocess.Popen[bytes]]
    errors: Sequence[IO[bytes]]
    joined: int
    since: float = field(default_factory=time.monotonic)
    begun: int = 0
    met: int = 0
    saved: bool = False
    first: tuple[int, int] | None = None
    asked: tuple[int, float] | None = None

    def watch(self) -> int:
        """Until all have ended; one that dies takes the others with it, since they would wait for it."""
        died = 0.0
        while any(process.poll() is None for process in self.processes):
            self._hear()
            codes = [process.poll() for process in self.processes]
            if self.first is None and any(codes):
                self.first = next((number, code) for number, code in enumerate(codes) if code)
                died = time.monotonic()
            patience = STOPPING if self.first and self.first[1] in (130, 143) else AFTER
            if self.first and time.monotonic() - died > patience:
                self.send(signal.SIGKILL)
            if self._is_late():
                self.send(signal.SIGKILL)
            time.sleep(0.05)
        self._hear()
        codes = [process.wait() for process in self.processes]
        if self.first is None:
            self.first = next(((number, code) for number, code in enumerate(codes) if code), None)
        told = [code for code in codes if code in (2, 130, 143)]
        return told[0] if told else self.first[1] if self.first else 0

    def send(self, number: int) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(number)

    def stop(self, number: int) -> None:
        """Passes a signal on. The second ends all: a process that waits inside of an exchange with one that hangs runs
        no line of Python, and hears none."""
        if self.asked is None:
            self.asked = number, time.monotonic()
        self.send(signal.SIGKILL if time.monotonic() - self.asked[1] > TWICE else number)

    def _hear(self) -> None:
        with suppress(BlockingIOError):
            told, all_before = os.read(self.joined, 4096), self.begun == len(self.processes)
            self.begun, self.met = self.begun + told.count(b"b"), self.met + told.count(b"m")
            self.saved = self.saved or b"s" in told
            if not all_before and self.begun == len(self.processes):
                self.since = time.monotonic()

    def _is_late(self) -> bool:
        """Whether the processes take too long to begin or, from when all have begun, to find each other."""
        patience = MEETING if self.begun == len(self.processes) else STARTING
        return self.met < len(self.processes) and time.monotonic() - self.since > patience

    def complaint(self) -> str:
        """The last lines of the process that failed first, if it is not the one that everybody hears."""
        if self.first is None or self.first[0] == 0:
            return ""
        file = self.errors[self.first[0]]
        file.seek(0)
        return "\n".join(file.read().decode("utf-8", "replace").strip().splitlines()[-5:])


def launch(words: Sequence[str], processes: int, restarts: int, say: Callable[[str], None]) -> int:
    """Runs this command as so many processes and answers the exit code. A process that dies ends the others; all
    are then started again, and go on from the newest checkpoint, `restarts` times at most; a start that saved one got
    further, and the count begins anew with it."""
    failed = missed = begun = 0
    while True:
        with started(words, processes) as attempt:
            code = attempt.watch()
            complaint = attempt.complaint() if code not in (0, 130, 143) and not attempt.asked else ""
        if complaint:
            say(complaint)
        if code in ENDED:
            return code
        if attempt.asked:
            say("stopped at once; the same command with --resume goes on from the newest checkpoint")
            return 128 + attempt.asked[0]
        met = attempt.met == processes
        if attempt.saved:
            failed = missed = 0
        failed, missed, begun = failed + met, missed + (not met), begun + 1
        number, how = attempt.first or (0, code)
        what = f"process {number} of {processes} {_told(how)}" if met else "the processes did not find each other"
        if failed > restarts or missed >= MEETINGS:
            say(f"{what}; given up after {begun} starts. The same command with --resume goes on")
            return 1
        say(f"{what}; all start again from the newest checkpoint ({restarts - failed + 1} of {restarts} restarts left)")
        words = [*words, *(() if "--resume" in words else ("--resume",))]


def one_run_only(several: bool) -> None:
    if several:
        raise UserError("several processes work on one run", expected="a recipe without --seeds", hint="one at a time")


@contextmanager
def started(words: Sequence[str], processes: int) -> Iterator[Attempt]:
    """Inside, the processes are there, and signals to this one go to all of them; behind it none is left.

    Every process holds the reading end of a pipe that this one never writes to: when this one dies, they hear its end.
    """
    joined, note = os.pipe()
    alive, held = os.pipe()
    os.set_blocking(joined, False)
    common = _environment(processes) | {NOTE: str(note), LAUNCHER: str(alive)}
    with ExitStack() as files:
        errors = [files.enter_context(tempfile.TemporaryFile()) for _ in range(processes)]
        attempt = Attempt([], errors, joined)
        before: dict[int, Any] = {}  # handlers

        def hear(number: int, frame: FrameType | None) -> None:
            attempt.stop(number)

        try:
            for number, complaints in enumerate(errors):
                own = {"RANK": str(number), "LOCAL_RANK": str(number)}
                out, told = (subprocess.DEVNULL, complaints) if number else (None, None)  # the first is heard at once
                attempt.processes.append(
                    subprocess.Popen(
                        list(words),
                        env=common | own,
                        pass_fds=(note, alive),
                        start_new_session=True,
                        stdout=out,
                        stderr=told,
                    )
                )
            for end in (note, alive):
                os.close(end)
            before |= {number: signal.signal(number, hear) for number in (signal.SIGINT, signal.SIGTERM)}
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
    """The cores are shared out. On one machine the processes speak through its own loop, whatever its name is."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    told = {"OMP_NUM_THREADS": str(max(1, cores // processes)), **os.environ}
    loop = "lo0" if sys.platform == "darwin" else "lo"
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port()), "GLOO_SOCKET_IFNAME": loop}
    return {**told, **meeting, "WORLD_SIZE": str(processes)}


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _told(code: int) -> str:
    try:
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"failed with exit code {code}"
    except ValueError:
        return f"was ended by signal {-code}"
