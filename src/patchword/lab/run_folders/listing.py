"""The runs of the lab: those in the folder of runs, and run folders given on the command line; routes know ids only.

A summary is read again only when a file of the run changes, so that a list of a thousand runs stays cheap.
"""

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from patchword.core.errors import nearest
from patchword.lab.errors import UnknownIdError
from patchword.lab.jobs import Job, Jobs
from patchword.lab.models import ListedModel
from patchword.lab.run_folders.content import finite
from patchword.recipes.run_folders.listing import RunSummary, looks_like_run, run_folders, summary_of
from patchword.training.lock.lock import owner_of
from patchword.zoo.entries import is_entry

SCAN_SECONDS = 2.0  # between looks at all folders, over all pages
READING_SECONDS = 0.5  # of summaries, per list
_READ = ("recipe.yaml", "metrics.jsonl", "evaluation.json", "finished.json", "model.safetensors")
_ESCAPES = (("~", "~0"), ("/", "~1"), ("@", "~2"))

Key = tuple[Any, ...]


@dataclass(frozen=True)
class FoundRun:
    """A run of the list. name: to show. key: changes when the run does."""

    id: str
    name: str
    folder: Path
    key: Key


class LabRuns:
    """Finds runs by their ids. runs: the folder of runs. given: run folders of the command line, by their ids."""

    def __init__(self, runs: Path, models: Mapping[str, ListedModel], jobs: Jobs) -> None:
        self.folder, self.jobs = runs, jobs
        self.given = {f"@{id}": model.folder for id, model in models.items() if _is_given(model.folder, runs)}
        self._scanned: list[FoundRun] = []
        self._next_scan = 0.0
        self._summaries: dict[Path, tuple[Key, RunSummary]] = {}
        self._lock = Lock()

    def find(self, id: str) -> Path:
        """Return the folder of a run; an id is no path, and leads to no folder that is not a run."""
        folder = self.given.get(id) or self._below(id)
        if folder is None or not _is_run(folder):
            known = [run.id for run in self._scanned]
            raise UnknownIdError(f"the lab has no run {id[:80]!r}", hint=nearest(id[:80], known) if known else "")
        return folder

    def scan(self) -> list[FoundRun]:
        """Return all runs. The folders are looked at again after two seconds, or later if that takes long."""
        with self._lock:
            if time.monotonic() >= self._next_scan:
                began = time.thread_time()
                self._scanned = list(self._found())
                self._next_scan = time.monotonic() + max(SCAN_SECONDS, 60 * (time.thread_time() - began))
            return self._scanned

    def version(self) -> int:
        """Return a number that changes when a run appears, disappears or changes, and when a job does."""
        return hash((tuple((run.id, run.key) for run in self.scan()), self.jobs.version()))

    def rows(self) -> list[dict[str, Any]]:
        """Return all runs as the page shows them, those of the latest date first.

        What is not read within half a second has the state "reading"; the page asks again.
        """
        jobs, deadline, rows = self.jobs.list(), time.monotonic() + READING_SECONDS, []
        for run in sorted(self._rescanned(), key=_changed, reverse=True):
            if self._is_read(run) or time.monotonic() < deadline:
                rows.append(run_json(run.id, run.name, self.summary(run), jobs))
            else:
                row = run_json(run.id, run.name, RunSummary(run.name, run.folder, "broken"), jobs)
                rows.append({**row, "state": "reading", "position": "reading"})
        return sorted(rows, key=lambda row: (row["state"] == "running", row["date"]), reverse=True)

    def one(self, id: str) -> dict[str, Any]:
        """Return one run as the list has it."""
        folder = self.find(id)
        run = FoundRun(id, _name(id, folder), folder, _key(folder))
        return run_json(id, run.name, self.summary(run), self.jobs.list())

    def summary(self, run: FoundRun) -> RunSummary:
        """Return the summary of a run, from memory if nothing has changed."""
        if not self._is_read(run):
            self._summaries[run.folder] = (run.key, summary_of(run.folder, run.name))
        return self._summaries[run.folder][1]

    def _is_read(self, run: FoundRun) -> bool:
        known = self._summaries.get(run.folder)
        return known is not None and known[0] == run.key

    def _rescanned(self) -> list[FoundRun]:
        self._next_scan = 0.0
        return self.scan()

    def _found(self) -> Iterator[FoundRun]:
        for id, folder in self.given.items():
            if _is_run(folder):
                yield FoundRun(id, _name(id, folder), folder, _key(folder))
        try:
            for folder in run_folders(self.folder):
                name = str(folder.relative_to(self.folder))
                yield FoundRun(_id(name), name, folder, _key(folder))
        except OSError:  # there is no such folder, or one was removed meanwhile
            return

    def _below(self, id: str) -> Path | None:
        name = id
        for character, escape in reversed(_ESCAPES):
            name = name.replace(escape, character)
        parts = name.split("/")
        if _id(name) != id or len(parts) > 2 or any(part in ("", ".", "..") or "\0" in part for part in parts):
            return None
        hidden = any(part.startswith(".") for part in parts)
        return None if hidden or len(os.fsencode(name)) > 500 else self.folder.joinpath(*parts)


def run_json(id: str, name: str, summary: RunSummary, jobs: Iterable[Job]) -> dict[str, Any]:
    """Return what the list shows of a run. state: failed, if the last job of a stopped run has failed."""
    job = next((one for one in jobs if one.about.get("run") == id), None)
    job_state = job.state if job is not None else ""
    state = "failed" if summary.state == "stopped" and job_state == "failed" else summary.state
    owner = owner_of(summary.folder) if summary.state == "running" else None
    row: dict[str, Any] = {
        "id": id,
        "name": name,
        "state": state,
        "position": summary.position(),
        "problem": summary.problem,
        "kind": summary.kind,
        "model": Path(summary.model).name,
        "epoch": summary.epoch,
        "epochs": summary.epochs,
        "metric": summary.metric,
        "validation": summary.validation,
        "score": summary.score,
        "part": summary.part,
        "seconds": summary.seconds,
        "date": summary.date,
        "holder": owner.describe() if owner else "",
        "job": job.id if job is not None and job.is_running else "",
    }
    return {name: finite(value) for name, value in row.items()}  # a training that diverges has scores of NaN


def _is_given(folder: Path, runs: Path) -> bool:
    is_run = (folder / "recipe.yaml").is_file() and not is_entry(folder)
    return is_run and runs.resolve() not in folder.resolve().parents


def _is_run(folder: Path) -> bool:
    try:
        return folder.is_dir() and looks_like_run(folder)
    except (OSError, ValueError):
        return False


def _id(name: str) -> str:
    for character, escape in _ESCAPES:
        name = name.replace(character, escape)
    return name


def _name(id: str, folder: Path) -> str:
    if id.startswith("@"):
        return folder.resolve().name
    for character, escape in reversed(_ESCAPES):
        id = id.replace(escape, character)
    return id


def _changed(run: FoundRun) -> int:
    """Return when the metrics of a run were last written, or its recipe."""
    return max((status[0] for status in run.key[:2] if status is not None), default=0)


def _key(folder: Path) -> Key:
    found: list[Any] = []
    for name in _READ:
        try:
            status = (folder / name).stat()
            found.append((status.st_mtime_ns, status.st_size))
        except OSError:
            found.append(None)
    return (*found, owner_of(folder) is not None)
