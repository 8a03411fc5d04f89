"""The owner of a lock, written so that another process, another machine and a person can read it."""

import json
import os
import platform
import time
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class LockOwner:
    """A process: where it runs (host, boot id, PID namespace), its PID, its start, and since when it has the lock.

    The system reuses PIDs, so the start time is kept beside it. The field names are the keys of the lock file.
    """

    host: str
    boot: str
    processes: str
    process: int
    began: str
    since: str

    @classmethod
    def this(cls) -> "LockOwner":
        return cls.of(os.getpid())

    @classmethod
    def of(cls, process: int) -> "LockOwner":
        """Describe a process of this machine."""
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        return cls(platform.node(), _boot(), _pid_namespace(), process, _start_time(process), since)

    @classmethod
    def read(cls, text: str) -> "LockOwner | None":
        """Return None if the text names no owner, as in an empty file."""
        try:
            owner = cls(**json.loads(text))
        except (ValueError, TypeError, RecursionError):
            return None
        texts = (owner.host, owner.boot, owner.processes, owner.began, owner.since)
        is_number = type(owner.process) is int and 0 < owner.process < 2**31
        return owner if is_number and all(isinstance(one, str) for one in texts) else None

    def text(self) -> str:
        return json.dumps(asdict(self)) + "\n"

    def describe(self) -> str:
        return f"process {self.process} on {self.host}, since {self.since}"

    def is_gone(self) -> bool:
        """Return True if it has certainly ended: it ran on this machine, which has no such process any more."""
        return (
            not self.is_elsewhere() and self.processes == _pid_namespace() and _start_time(self.process) != self.began
        )

    def is_alive(self) -> bool:
        """Return True if it certainly runs: it is a process of this machine, with the same start."""
        here = not self.is_elsewhere() and self.processes == _pid_namespace()
        return here and self.began != "gone" and _start_time(self.process) == self.began

    def is_elsewhere(self) -> bool:
        """Return True if it ran on another machine, whose processes are not visible here.

        Machines can share a name, such as `localhost`, so the boot id is compared, too: this machine before its last
        boot counts as another one.
        """
        return (self.host, self.boot) != (platform.node(), _boot())


def _boot() -> str:
    return _line(Path("/proc/sys/kernel/random/boot_id"))


def _pid_namespace() -> str:
    """Return the PID namespace of this process: containers have their own."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _start_time(process: int) -> str:
    """Return the start of a process in ticks since the boot; "there" if that is unknown, "gone" if it has ended."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return "gone"
    except OSError:
        pass  # it exists and belongs to another user
    fields = _line(Path(f"/proc/{process}/stat")).rpartition(")")[2].split()
    if not fields:
        return "there"
    return "gone" if fields[0] == "Z" else fields[19]  # state and starttime; a zombie has ended


def _line(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
