"""What a supervised process may do instead of serving models: answer with its number, die, refuse."""

import os
import signal
import socket
import sys
import time
from collections.abc import Callable

from patchword.core.errors import UserError
from patchword.serving.settings import ServeSettings
from patchword.serving.supervisor import Report, Supervisor, report_line

Ready = Callable[[], None]


def answering(settings: ServeSettings, bound: socket.socket, report: Report, ready: Ready) -> None:
    """Answer every connection with the number of this process; end in order at SIGTERM."""
    stopped = list[int]()
    signal.signal(signal.SIGTERM, lambda number, frame: stopped.append(number))
    bound.settimeout(0.05)
    report(f"process {os.getpid()}")
    ready()
    while not stopped:
        try:
            client, _ = bound.accept()
        except TimeoutError:
            continue
        with client:
            client.sendall(str(os.getpid()).encode())
    report("drained")


def dying(settings: ServeSettings, bound: socket.socket, report: Report, ready: Ready) -> None:
    ready()
    os.kill(os.getpid(), signal.SIGKILL)


def refusing(settings: ServeSettings, bound: socket.socket, report: Report, ready: Ready) -> None:
    raise UserError("no such model", expected="one that is there", got="none", hint="look again")


def opening(settings: ServeSettings, bound: socket.socket, report: Report, ready: Ready) -> None:
    """Open models for ever."""
    report("opening")
    time.sleep(1000)


def supervise(name: str) -> None:
    """Run one of them on a free port, as the command does."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        report_line(f"port {bound.getsockname()[1]}")
        try:
            Supervisor(globals()[name], ServeSettings(()), bound, report_line).run()
        except UserError as error:
            report_line(f"{type(error).__name__} {error.what} | {error.expected} | {error.got} | {error.hint}")
            sys.exit(2)
    report_line("ended")
