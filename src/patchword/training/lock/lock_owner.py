"""Who holds a run folder, in words that another process, another machine and a person can read."""

import json
import os
import platform
import time
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class LockOwner:
    """A process: where it runs (host, boot, table of processes), its number, when it began and when it took the lock.

    A number is given to another process after the first one's end, so its beginning is kept beside it.
    """

    host: str
    boot: str
    processes: str
    process: int
    began: str
    since: str

    @classmethod
    def this(cls) -> "LockOwner":
        return cls(
            platform.node(), _boot(), _processes(), os.getpid(), _began(os.getpid()), time.strftime("%Y-%m-%d %H:%M:%S")
        )

    @classmethod
    def read(cls, text: str) -> "LockOwner | None":
        """None where the words are not a holder's, as those of an empty file."""
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError):
            return None

    def text(self) -> str:
        return json.dumps(asdict(self)) + "\n"

    def told(self) -> str:
        return f"process {self.process} on {self.host}, since {self.since}"

    def is_gone(self) -> bool:
        """Whether it has certainly ended: this machine has no such process any more."""
        return not self.is_elsewhere() and self.processes == _processes() and _began(self.process) != self.began

    def is_elsewhere(self) -> bool:
        """On another machine, whose processes cannot be seen from here. Several may have one name, as `localhost`; then
        it may also be this one before it was started anew, which cannot be told apart."""
        return (self.host, self.boot) != (platform.node(), _boot())


def _boot() -> str:
    return _line(Path("/proc/sys/kernel/random/boot_id"))


def _processes() -> str:
    """which table of processes this one is in: containers have their own"""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _began(process: int) -> str:
    """A process's beginning in ticks since the boot, or what can be told of it; "gone" where it has ended."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return "gone"
    except OSError:
        pass  # it is there, and is somebody else's
    fields = _line(Path(f"/proc/{process}/stat")).rpartition(")")[2].split()
    if not fields:
        return "there"
    return "gone" if fields[0] == "Z" else fields[19]  # state and starttime; a zombie has ended


def _line(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
