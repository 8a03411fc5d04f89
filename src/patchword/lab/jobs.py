"""Long work of the lab: child processes `python -m patchword VERB ...`, one at a time, which outlive the lab.

    job = lab.jobs.start("landscape", ["runs/demo", "--points", "21"], name="demo", about={"run": "demo"})
    lab.jobs.list()           newest first; also those that another start of the lab began
    lab.jobs.find(job.id)     an unknown id is an UnknownIdError
    lab.jobs.stop(job.id)     SIGTERM, as Ctrl-C does: a training saves a checkpoint and can be resumed
    lab.jobs.output(job.id)   the last lines that it printed
    job.state                 running, stopping, finished, stopped, failed

Every job has a folder in runs/.lab/jobs with its record, its output and, in the end, its exit code. A shell waits for
the process and writes the code, so that it is known even if the lab was killed meanwhile. All methods are quick and
block; routes call them in a thread.
"""

import fcntl
import json
import os
import re
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from patchword.core.errors import UserError
from patchword.core.files import write_json
from patchword.lab.errors import UnknownIdError
from patchword.training.lock.lock_owner import LockOwner

State = Literal["running", "stopping", "finished", "stopped", "failed"]

MOST_KEPT = 20  # records of ended jobs
MOST_OUTPUT = 64_000  # bytes of the tail
STOPPED = (129, 130, 143)  # exit codes after SIGHUP, SIGINT and SIGTERM
_ID = re.compile(r"[a-z0-9-]{1,80}")
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")
# The shell ignores the signal that ends the child, and writes the child's exit code.
_SCRIPT = 'trap : TERM INT; "$@"; code=$?; echo "$code" > "$0/code"'


@dataclass(frozen=True)
class Job:
    """A job. name: what it works on, to show. about: ids of the caller, e.g. of a run. words: after `patchword`."""

    id: str
    verb: str
    name: str
    words: tuple[str, ...]
    about: Mapping[str, str]
    started: str
    owner: LockOwner
    folder: Path

    @property
    def code(self) -> int | None:
        """The exit code; None while it runs, or if the machine went down meanwhile."""
        try:
            return int((self.folder / "code").read_text())
        except (OSError, ValueError):
            return None

    @property
    def state(self) -> State:
        code, asked = self.code, (self.folder / "stop").is_file()
        if code is None and self.owner.is_alive():
            return "stopping" if asked else "running"
        code = self.code if code is None else code  # it may have ended between the two looks
        if code == 0:
            return "finished"
        return "stopped" if asked or code in STOPPED else "failed"

    @property
    def is_running(self) -> bool:
        return self.state in ("running", "stopping")

    def to_json(self) -> dict[str, Any]:
        """Return what the page shows."""
        command = shlex.join(["patchword", *self.words])
        names = {"id": self.id, "verb": self.verb, "name": self.name, "about": dict(self.about)}
        return {**names, "started": self.started, "state": self.state, "code": self.code, "command": command}


class BusyError(UserError):
    """Another job is running."""


class Jobs:
    """The jobs of a folder of runs. runs: the folder; its hidden folder .lab is made by the first job."""

    def __init__(self, runs: Path) -> None:
        self.folder = runs.absolute() / ".lab" / "jobs"
        self._children: list[subprocess.Popen[bytes]] = []

    def start(self, verb: str, words: Sequence[str], name: str = "", about: Mapping[str, str] | None = None) -> Job:
        """Start `python -m patchword VERB WORDS`; BusyError if a job is running. words: checked by the caller."""
        with self._one_starter():
            if (running := self.running()) is not None:
                hint = "wait until it ends, or stop it"
                raise BusyError("one job runs at a time", got=f"{running.verb} {running.name}".strip(), hint=hint)
            self._remove_old()
            id = f"{time.strftime('%Y%m%d-%H%M%S')}-{verb}-{secrets.token_hex(3)}"
            folder = self.folder / id
            folder.mkdir()
            process = self._launch(folder, [verb, *words])
            owner, started = LockOwner.of(process.pid), time.strftime("%Y-%m-%d %H:%M:%S")
            job = Job(id, verb, name, (verb, *words), dict(about or {}), started, owner, folder)
            write_json(folder / "job.json", {**asdict(job), "folder": ""})
            return job

    def list(self) -> list[Job]:
        """Return all jobs, the newest first; a record that cannot be read is left out."""
        self._children = [child for child in self._children if child.poll() is None]
        try:
            folders = sorted(self.folder.iterdir(), reverse=True)
        except OSError:
            return []
        return [job for folder in folders if (job := _read(folder)) is not None]

    def running(self) -> Job | None:
        """Return the job that is running."""
        return next((job for job in self.list() if job.is_running), None)

    def find(self, id: str) -> Job:
        """Return a job by its id."""
        job = _read(self.folder / id) if _ID.fullmatch(id) else None
        if job is None:
            raise UnknownIdError(f"the lab has no job {id[:80]!r}")
        return job

    def stop(self, id: str) -> Job:
        """Ask a job to stop, once: a second signal would end it without saving. An ended job stays as it is."""
        self.list()  # reaps a child that has ended
        job = self.find(id)
        if job.state == "running":
            (job.folder / "stop").touch()
            with suppress(ProcessLookupError):
                os.killpg(job.owner.process, signal.SIGTERM)
        return job

    def output(self, id: str, most: int = MOST_OUTPUT) -> str:
        """Return the last characters that a job printed, from the start of a line."""
        path = self.find(id).folder / "output.txt"
        try:
            with path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - most))
                text = file.read(most).decode("utf-8", "replace")
        except OSError:
            return ""
        text = text.partition("\n")[2] if size > most else text
        return _ESCAPES.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))

    def version(self) -> str:
        """Return a text that changes when a job starts, stops or ends."""
        return ";".join(f"{job.id} {job.state}" for job in self.list()[:MOST_KEPT])

    def _launch(self, folder: Path, words: Sequence[str]) -> subprocess.Popen[bytes]:
        command = ["/bin/sh", "-c", _SCRIPT, str(folder), sys.executable, "-m", "patchword", *words]
        environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}
        with (folder / "output.txt").open("wb") as output:
            process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._children.append(process)
        return process

    def _remove_old(self) -> None:
        for job in [one for one in self.list() if not one.is_running][MOST_KEPT - 1 :]:
            shutil.rmtree(job.folder, ignore_errors=True)

    @contextmanager
    def _one_starter(self) -> Iterator[None]:
        """Keep two labs from starting a job at the same time."""
        self.folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _read(folder: Path) -> Job | None:
    try:
        found = json.loads((folder / "job.json").read_text(encoding="utf-8"))
        owner = LockOwner(**found.pop("owner"))
        return Job(**{**found, "words": tuple(found["words"]), "owner": owner, "folder": folder})
    except (OSError, ValueError, TypeError, KeyError):
        return None
