"""A random case: a tiny recipe, and what happens to its run. One number decides all but the moments."""

import errno
import random
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.crash.processes import LONGEST, Command, start
from support.material import differing
from support.power.events import Create, Event, MakeFolder, Write
from support.power.recording import Recorder, recording

SIGNALS = {"Ctrl-C": signal.SIGINT, "SIGTERM": signal.SIGTERM, "SIGHUP": signal.SIGHUP}
TROUBLES = ("kill", "kill", *SIGNALS, "full disk", "failing disk", "damage", "damage")
CODES = {signal.SIGINT: (130, -2), signal.SIGTERM: (143, -15), signal.SIGHUP: (129, -1)}
NAME = "run"


@dataclass(frozen=True)
class Case:
    """kind, fields: the recipe. troubles: in their order; after each the same command resumes the run."""

    number: int
    kind: str
    processes: int
    fields: tuple[str, ...]
    troubles: tuple[str, ...]
    report: bool

    @classmethod
    def of(cls, number: int) -> "Case":
        draw = random.Random(number)
        kind = draw.choice(["images", "text", "pretraining", "translation"])
        size = {"images": draw.choice([256, 512]), "translation": 128}.get(kind, draw.choice([16, 32]))
        fields = [f"epochs={draw.randint(1, 3)}", f"batch_size={size}", f"seed={draw.randint(0, 3)}", "save_minutes=0"]
        fields += [f"model.dropout={draw.choice([0, 0.1])}"] + ["ema_decay=0.9"] * draw.randint(0, 1)
        troubles = tuple(draw.choice(TROUBLES) for _ in range(draw.randint(1, 4)))
        processes = 2 if draw.random() < 0.15 else 1
        return cls(number, kind, processes, tuple(fields), troubles, draw.random() < 0.25)

    def words(self, recipe: list[str], runs: Path) -> list[str]:
        several = ["--processes", "2"] if self.processes > 1 else []
        return ["train", *recipe, *self.fields, "--name", NAME, "--runs", str(runs), "--resume", *several]

    def __str__(self) -> str:
        return f"{self.kind}, {self.processes} process{'es' * (self.processes > 1)}, {', '.join(self.troubles)}"


@dataclass
class Played:
    """A case that runs in a folder. recipe: the words of its command. whole: the uninterrupted run."""

    case: Case
    folder: Path
    recipe: list[str]
    whole: Path
    seconds: float
    damaged: list[str] = field(default_factory=list)
    log: list[str] = field(default_factory=list)

    def play(self) -> str:
        """Return how it ended: "bit-equal", "refused", or what is wrong."""
        draw = random.Random(self.case.number + 1)
        for trouble in (*self.case.troubles, "none"):
            if trouble == "damage":
                self.damaged += damage(self.folder / "runs" / NAME, draw)
                continue
            limit, number = draw.randint(1, 250), errno.ENOSPC if trouble == "full disk" else errno.EIO
            is_disk = trouble.endswith("disk") and self.case.processes == 1
            command = self._start(_disk(self.folder / "runs", limit, number) if is_disk else None)
            if trouble in SIGNALS or trouble == "kill":
                time.sleep(draw.uniform(0, 1.2 * self.seconds))
                self._disturb(command, trouble, draw)
            ended = self._ended(command, trouble)
            if ended:
                return ended
        wrong = _difference(self.folder / "runs" / NAME, self.whole)
        return wrong or "bit-equal"

    def _start(self, around: Callable[[], object] | None) -> Command:
        words, output = self.case.words(self.recipe, self.folder / "runs"), self.folder / f"output-{len(self.log)}"
        self.log.append(str(output))
        return start(words, self.folder, output, lambda: [around and around(), self.case.report or _no_report()])

    def _disturb(self, command: Command, trouble: str, draw: random.Random) -> None:
        if not command.is_running():
            return
        if trouble != "kill":
            command.send(SIGNALS[trouble])
        elif self.case.processes > 1 and draw.random() < 0.5 and (others := command.children()):
            command.send(signal.SIGKILL, draw.choice(others))  # one worker: the launcher starts all again
        else:
            command.kill()

    def _ended(self, command: Command, trouble: str) -> str:
        """Return how the case ended, empty if it goes on; a run may be refused only after damage."""
        in_time = command.wait(LONGEST)
        code, text = command.code, command.output.read_text(errors="replace")
        command.kill()  # workers of a killed launcher
        if not in_time:
            return f"still running after {LONGEST:.0f} s"
        if "Traceback" in text or "panicked" in text:
            return f"a traceback, in {command.output}:\n{text[-1500:]}"
        if code == 0 or (trouble == "kill" and code == -signal.SIGKILL):
            return ""
        if trouble in SIGNALS and code in CODES[SIGNALS[trouble]]:
            return ""
        if code == 2 and "error: " in text:
            if trouble.endswith("disk"):
                return ""
            if self.damaged:
                return "refused"
        return f"exit code {code} after {trouble}, in {command.output}:\n{text[-1500:]}"


def damage(folder: Path, draw: random.Random) -> list[str]:
    """Flip a bit of a random file, cut it, or remove it; return what was done."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    if not files:
        return []
    path, way = draw.choice(files), draw.choice(["flip", "cut", "remove"])
    content = path.read_bytes()
    if way == "remove" or not content:
        path.unlink()
    elif way == "cut":
        path.write_bytes(content[: draw.randrange(len(content))])
    else:
        place = draw.randrange(len(content))
        path.write_bytes(content[:place] + bytes([content[place] ^ 1 << draw.randrange(8)]) + content[place + 1 :])
    return [f"{way} {path.relative_to(folder)}"]


def _difference(folder: Path, whole: Path) -> str:
    """Return what differs from the uninterrupted run."""
    if names := differing(folder / "model.safetensors", whole / "model.safetensors"):
        return f"SILENT: other weights: {names[:3]}"
    for name in ("evaluation.json", "config.json", "recipe.yaml"):
        ours, theirs = ((place / name).read_text().replace(str(place.parents[1]), "") for place in (folder, whole))
        if ours != theirs:
            return f"SILENT: another {name}"
    return ""


def _disk(runs: Path, at: int, number: int) -> Callable[[], object]:
    """Return what makes the disk of this process full from a call on, or one call fail."""

    def fails(call: int, event: Event) -> int:
        lasts = number == errno.ENOSPC and call > at and isinstance(event, Create | Write | MakeFolder)
        return number if call == at or lasts else 0

    def around() -> Any:
        return recording(Recorder(runs, fails)).__enter__()

    return around


def _no_report() -> None:
    """Leave out the report, which takes longer than a tiny training."""
    import patchword.api.evaluation

    patchword.api.evaluation.write_report = lambda run, found: run.folder / "report.html"  # type: ignore[assignment]


def played(case: Case, folder: Path, recipe: list[str], wholes: dict[tuple[object, ...], tuple[Path, float]]) -> Played:
    """Prepare a case: its folder, and the uninterrupted run, which is trained once per recipe."""
    mark = (case.kind, case.processes, case.fields)
    if mark not in wholes:
        place = folder.with_name(f"whole-{len(wholes)}")
        shutil.copytree(folder, place)
        plain = Played(Case(0, case.kind, case.processes, case.fields, (), False), place, recipe, place, 0)
        began = time.monotonic()
        command = plain._start(None)
        if not command.wait() or command.code != 0:
            raise RuntimeError(f"the uninterrupted run failed: {command.output.read_text()[-2000:]}")
        wholes[mark] = place / "runs" / NAME, time.monotonic() - began
    return Played(case, folder, recipe, *wholes[mark])
