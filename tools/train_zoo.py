"""Train the models of packages/zoo/models.yaml, several at a time on one machine, and pack what must be kept.

    python tools/train_zoo.py carry/zoo --out $OUT --minutes 9

The data folder comes from tools/zoo_data.py. When the time is over, all runs are stopped and saved; the same command
continues them. OUT gets one NAME.tar.gz per model that is finished: its run without checkpoints, weights in `dtype`.
"""

import argparse
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import Any

import torch
import yaml
from rich.console import Console

from patchword.api.training import named_recipe
from patchword.cli.training.study_tables import SeedsTable, table_of
from patchword.core.errors import UserError
from patchword.core.files import make_folder, whole_file, write_text
from patchword.core.tensor_files import read_tensors, write_tensors
from patchword.studies import STUDIES
from patchword.studies.seeds import over_seeds, study_over_seeds
from patchword.studies.study import Study, results
from zoo import cast
from zoo_data import unpack

MODELS = Path(__file__).parents[1] / "packages/zoo/models.yaml"
LEFT_OUT = ignore_patterns("checkpoints", "bad", "events.*", "*.lock", "recipes")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
SAVING = 60  # seconds that a stopped run has to save itself
THREADS = {"OMP_NUM_THREADS": "2", "TORCHINDUCTOR_COMPILE_THREADS": "4"}  # of each process
PROGRAM = (sys.executable, "-m", "patchword")


@dataclass(frozen=True)
class Job:
    """One process. product: the file that it writes last. needs: products of other jobs that must exist first."""

    name: str
    words: tuple[str, ...]
    product: Path
    needs: tuple[Path, ...] = ()

    @property
    def is_done(self) -> bool:
        return self.product.is_file()

    @property
    def is_ready(self) -> bool:
        return not self.is_done and all(path.is_file() for path in self.needs)


@dataclass(frozen=True)
class Entry:
    """A model of the zoo: its fields in models.yaml, and the folder of its run or runs."""

    fields: Mapping[str, Any]
    folder: Path
    data: Path
    tiny: bool = False

    @property
    def name(self) -> str:
        return str(self.fields["name"])

    def settings(self, field: str = "settings") -> list[str]:
        return [text.replace("{data}", str(self.data)) for text in self.fields.get(field, [])]

    def study(self) -> Study | None:
        """Return the runs of a model with several seeds; None for a single run."""
        if "seeds" not in self.fields:
            return None
        recipe, seeds = str(self.fields["recipe"]), int(self.fields["seeds"])
        if recipe in STUDIES:
            study = study_over_seeds(STUDIES[recipe]().with_settings(self.settings()), seeds)
        else:
            study = over_seeds(recipe, named_recipe(recipe)[0].with_settings(self.settings()), seeds)
        return study.in_folder(self.folder)

    def jobs(self) -> list[Job]:
        if "vectors" in self.fields:
            product = self.folder / "vectors.txt"
            return [Job(self.name, ("vectors", "train", *self.settings("vectors"), "--out", str(product)), product)]
        tiny = self.settings("tiny") if self.tiny else []
        if study := self.study():
            return [self._run(study, label, tiny) for label in study.runs]
        place = ("--name", self.folder.name, "--runs", str(self.folder.parent), "--resume")
        words = ("train", str(self.fields["recipe"]), *self.settings(), *tiny, *place)
        return [Job(self.name, words, self.folder / "evaluation.json")]

    def _run(self, study: Study, label: str, tiny: Sequence[str]) -> Job:
        recipe, file = study.runs[label].with_settings(tiny), self.folder / "recipes" / f"{label}.yaml"
        make_folder(file.parent)
        write_text(file, recipe.to_yaml())
        used = [other for other in study.runs if str(self.folder / other) in recipe.to_yaml()]
        words = ("train", str(file), "--name", label, "--runs", str(self.folder), "--resume")
        needs = tuple(self.folder / other / "evaluation.json" for other in used)
        return Job(f"{self.name}/{label}", words, self.folder / label / "evaluation.json", needs)

    def finish(self, out: Path, console: Console) -> Path:
        """Write the table of several seeds, and pack the folder without what a model of the zoo does not need."""
        jobs, study = self.jobs(), self.study()
        used = {path.parent for job in jobs for path in job.needs}
        if study:
            table = table_of(study) if self.fields["recipe"] in STUDIES else SeedsTable()
            table.write(study, results(study, self.folder), self.folder, console)
        return pack(self.folder, out / f"{self.name}.tar.gz", DTYPES[self.fields["dtype"]], used)


def pack(folder: Path, file: Path, dtype: torch.dtype, without_weights: Iterable[Path] = ()) -> Path:
    """Write a run, or a folder of runs, as one archive. The runs of teachers are packed without their weights.

    Paths below the working folder become relative in recipes, so that the runs can be evaluated in another checkout.
    """
    make_folder(file.parent)
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary) / folder.name
        copytree(folder, copy, ignore=LEFT_OUT)
        for run in without_weights:
            (copy / run.relative_to(folder) / "model.safetensors").unlink()
        for weights in copy.rglob("model.safetensors"):
            tensors, metadata = read_tensors(weights)
            write_tensors(weights, cast(tensors, dtype), metadata)
        for recipe in copy.rglob("recipe.yaml"):
            write_text(recipe, recipe.read_text(encoding="utf-8").replace(f"{Path.cwd()}/", ""))
        with whole_file(file) as path, tarfile.open(path, "w:gz") as archive:
            archive.add(copy, arcname=folder.name)
    return file


def run(jobs: Sequence[Job], logs: Path, parallel: int, is_over: Callable[[], bool], console: Console) -> list[Job]:
    """Run the jobs in their order, `parallel` at a time, until the time is over. Return those that failed."""
    make_folder(logs)
    waiting, running, failed = [job for job in jobs if not job.is_done], dict[Job, subprocess.Popen[bytes]](), []
    began = time.monotonic()

    def say(text: str) -> None:
        console.print(f"{time.monotonic() - began:6.0f} s  {text}", highlight=False, markup=False)

    try:
        while (running or waiting) and not is_over():
            for job in [job for job in waiting if job.is_ready][: parallel - len(running)]:
                waiting.remove(job)
                running[job] = start(job, logs)
                say(f"{job.name} starts")
            if not running:
                break  # the others need what has failed
            time.sleep(0.2)
            for job in [job for job, process in running.items() if process.poll() is not None]:
                code = running.pop(job).returncode
                say(f"{job.name} is done" if job.is_done else f"{job.name} FAILED with code {code}")
                failed += [] if job.is_done else [job]
    finally:
        stop(running.values())
        for job in running:
            say(f"{job.name} is stopped")
    return failed


def start(job: Job, logs: Path) -> "subprocess.Popen[bytes]":
    with (logs / f"{job.name.replace('/', '-')}.log").open("ab") as log:
        return subprocess.Popen([*PROGRAM, *job.words], stdout=log, stderr=log)


def stop(processes: Iterable["subprocess.Popen[bytes]"]) -> None:
    """Ask the runs to save themselves, and end those that take too long."""
    stopping, deadline = list(processes), time.monotonic() + SAVING
    for process in stopping:
        process.send_signal(signal.SIGTERM)
    for process in stopping:
        try:
            process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def chosen(wanted: Sequence[str], fields: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the models of these names or groups; of none, all."""
    known = {str(one[key]) for one in fields for key in ("name", "group")}
    if unknown := set(wanted) - known:
        raise UserError("--only", expected=", ".join(sorted(known)), got=", ".join(sorted(unknown)))
    return [one for one in fields if not wanted or {one["name"], one["group"]} & set(wanted)]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("data", type=Path, help="the folder that tools/zoo_data.py wrote")
    parser.add_argument("--out", type=Path, required=True, help="folder of the packed models")
    parser.add_argument("--runs", type=Path, default=Path("runs/zoo"), help="folder of the runs; kept to continue them")
    parser.add_argument("--only", nargs="*", default=[], help="names or groups of models")
    parser.add_argument("--minutes", type=float, default=9.0, help="stop and save all runs after this time")
    parser.add_argument("--parallel", type=int, default=6, help="how many processes share the machine")
    parser.add_argument("--tiny", action="store_true", help="a few steps of tiny models, to test the chain")
    parser.add_argument("--models", type=Path, default=MODELS, help="another list of models")
    given = parser.parse_args(arguments)
    deadline, console = time.monotonic() + 60 * given.minutes, Console(soft_wrap=True)
    data = given.runs.absolute() / "data"
    unpack(given.data, data)
    os.environ |= {"PATCHWORD_DATA": str(data / "images"), **THREADS}
    fields = chosen(given.only, yaml.safe_load(given.models.read_text(encoding="utf-8")))
    entries = [Entry(one, given.runs.absolute() / one["name"], data, given.tiny) for one in fields]
    jobs = [job for entry in entries for job in entry.jobs()]
    failed = run(jobs, given.runs / "logs", given.parallel, lambda: time.monotonic() >= deadline, console)
    for entry in entries:
        if all(job.is_done for job in entry.jobs()):
            file = entry.finish(given.out, console)
            console.print(f"{file.stat().st_size / 2**20:6.2f} MiB  {file.name}", highlight=False, markup=False)
    for job in failed:
        log = given.runs / "logs" / f"{job.name.replace('/', '-')}.log"
        console.print(f"{job.name}:\n{log.read_text(encoding='utf-8', errors='replace')[-2000:]}", markup=False)
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except UserError as error:
        sys.exit(f"error: {error}")
