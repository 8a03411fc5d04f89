"""What is new in the folders of runs, as server-sent events; only what has changed is read.

event: step {run, records}, epoch {run, record}, confusion {run, record}, cut {run, step, epoch}, state {run, ...},
gone {run}, list {}, bye. The id of an event has the last step and epoch of each run, e.g. "120.3,88.2", so that a page
whose connection broke gets the rest.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patchword.core.errors import UserError
from patchword.lab.errors import UnknownIdError
from patchword.lab.run_folders.content import confusions_of, finite, metrics_of, steps_of
from patchword.lab.run_folders.listing import LabRuns
from patchword.training.progress_files import CONFUSION, STEPS, parse_lines

MOST_RUNS = 16  # per stream
_POSITION = re.compile(r"(\d{1,15})\.(\d{1,9})")

Event = tuple[str, dict[str, Any]]


@dataclass
class FollowedRun:
    """A run of a stream: what the page has of it, and the state of its files when they were read."""

    id: str
    step: int = 0
    epoch: int = 0
    seen: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)
    gone: bool = False

    def news(self, runs: LabRuns) -> Iterator[Event]:
        """Yield what is new; nothing is read unless a file has changed. The folder may be deleted at any moment."""
        try:
            folder = runs.find(self.id)
            yield from self._steps(folder)
            yield from self._epochs(folder)
            state = runs.one(self.id)
        except UnknownIdError:
            if not self.gone:
                self.gone = True
                yield "gone", {"run": self.id}
            return
        self.gone = False
        if state != self.state:
            self.state = state
            yield "state", {"run": self.id, **state}

    def _steps(self, folder: Path) -> Iterator[Event]:
        before, now = self.seen.get(STEPS), _status(folder / STEPS)
        if now is None or now == before:
            return
        if before is not None and before[0] == now[0] and before[1] < now[1]:
            records, read = _appended(folder / STEPS, before[1])
            now = (now[0], read, now[2])
        else:  # opened first, or replaced: the run was resumed, or the file was full
            records = steps_of(folder)
            last = records[-1]["step"] if records else 0
            if last < self.step:
                yield "cut", {"run": self.id, "step": last, "epoch": len(metrics_of(folder))}
                self.step, self.epoch = last, min(self.epoch, len(metrics_of(folder)))
        self.seen[STEPS] = now
        new = [record for record in records if record["step"] > self.step]
        if new:
            self.step = new[-1]["step"]
            yield "step", {"run": self.id, "records": new}

    def _epochs(self, folder: Path) -> Iterator[Event]:
        now = _status(folder / "metrics.jsonl")
        if now is None or now == self.seen.get("metrics"):
            return
        self.seen["metrics"] = now
        metrics, before = metrics_of(folder), self.epoch
        self.epoch = int(metrics[-1]["epoch"]) if metrics else 0
        for record in metrics:
            if record["epoch"] > before:
                yield "epoch", {"run": self.id, "record": record}
        if _status(folder / CONFUSION) is not None:
            for record in confusions_of(folder):
                if before < record["epoch"] <= self.epoch:
                    yield "confusion", {"run": self.id, "record": record}


class Feed:
    """The news of several runs; one that does not exist is gone. positions: what the page has, as in an event's id."""

    def __init__(self, runs: LabRuns, ids: Sequence[str], positions: str = "") -> None:
        if len(ids) > MOST_RUNS:
            raise UserError("the stream is of too many runs", expected=f"at most {MOST_RUNS}", got=len(ids))
        known = [_POSITION.fullmatch(text) for text in positions.split(",")[:MOST_RUNS]]
        known = known if len(known) == len(ids) else [None] * len(ids)
        self.runs, self.followed = runs, list[FollowedRun]()
        for id, found in zip(ids, known, strict=True):
            step, epoch = (int(found[1]), int(found[2])) if found else (0, 0)
            self.followed.append(FollowedRun(id, step, epoch))
        self.version = runs.version()

    def poll(self) -> str:
        """Return the events since the last call as they are sent; empty if there are none."""
        events = [event for one in self.followed for event in one.news(self.runs)]
        if (version := self.runs.version()) != self.version:
            self.version = version
            events.append(("list", {}))
        return "".join(f"id: {self.position()}\nevent: {name}\ndata: {_json(data)}\n\n" for name, data in events)

    def position(self) -> str:
        return ",".join(f"{one.step}.{one.epoch}" for one in self.followed)

    def is_live(self) -> bool:
        """Return whether one of the runs is running, so that the next look should be soon."""
        return any(one.state.get("state") == "running" for one in self.followed)


def _json(value: Any) -> str:
    return json.dumps(finite(value), separators=(",", ":"), allow_nan=False)


def _status(path: Path) -> tuple[int, int, int] | None:
    """Return what changes with a file: its inode, its size, its time."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _appended(path: Path, start: int) -> tuple[list[dict[str, Any]], int]:
    """Return the complete lines from a byte on, and the byte after them."""
    try:
        with path.open("rb") as file:
            file.seek(start)
            content = file.read(4_000_000)
    except OSError:
        return [], start
    whole = content[: content.rfind(b"\n") + 1]
    records = parse_lines(whole.decode("utf-8", "replace"))
    return [one for one in records if isinstance(one.get("step"), int)], start + len(whole)
