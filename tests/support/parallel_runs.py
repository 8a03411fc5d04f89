"""Training runs of the tests on several processes; the same processes do a list of runs.

`python parallel_runs.py PLAN.json` is one of the processes; environment variables give its rank.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

import patchword
from patchword.recipes import find_recipe
from patchword.recipes import train as recipe_run
from patchword.training.parallel.rendezvous import join_group
from patchword.training.step import PlainStep
from support.material import silent


@dataclass(frozen=True)
class Asked:
    """A run.

    stop: (rank, steps): this process is asked to stop after so many steps; empty: none is
    after: a file; the run begins when it is there
    """

    folder: str
    recipe: str
    settings: Sequence[str]
    resume: bool = False
    stop: Sequence[int] = ()
    after: str = ""


def do(run: Asked) -> bool:
    """Train, and record the samples of this process in each step."""
    recorded, gradient = [], PlainStep.gradient

    def watched(self: PlainStep, batch: object) -> object:
        recorded.append(batch.samples.tolist())
        return gradient(self, batch)

    @contextmanager
    def asked() -> Iterator[object]:
        taken = iter(range(1, 10_000))
        number = int(os.environ.get("RANK", "0"))
        yield lambda: next(taken) == run.stop[1] and number == run.stop[0] if run.stop else False

    before = recipe_run.interruptible
    PlainStep.gradient, recipe_run.interruptible = watched, asked
    try:
        done = recipe_run.train(
            find_recipe(run.recipe).with_settings(run.settings), Path(run.folder), silent(), run.resume
        )
    finally:
        PlainStep.gradient, recipe_run.interruptible = gradient, before
    name = f"samples-{os.environ.get('RANK', 'alone')}.jsonl"
    with (Path(run.folder) / name).open("a") as file:
        file.writelines(json.dumps(samples) + "\n" for samples in recorded)
    return done


def norms(folder: Path) -> None:
    """Write the largest difference between batch norms over unequal splits and over the whole batch."""
    with join_group(device="cpu") as group:
        torch.manual_seed(0)
        model, inputs = torch.nn.Sequential(*_layers(), *_layers()).double(), torch.randn(9, 2, 5, 5).double()
        weights, whole = torch.randn_like(inputs), deepcopy(model)
        group.prepare(model)
        own = group.sharing.share(torch.arange(9))
        answers, expected = model(inputs[own]), whole(inputs)
        for found, factors in ((answers, weights[own]), (expected, weights)):
            (found * factors).sum().backward()
        for parameter in model.parameters():
            torch.distributed.all_reduce(parameter.grad)
        pairs = [(answers, expected[own])]
        pairs += [(ours.grad, theirs.grad) for ours, theirs in zip(model.parameters(), whole.parameters(), strict=True)]
        pairs += list(zip(model.buffers(), whole.buffers(), strict=True))
        apart = max(float((ours.detach() - theirs.detach()).abs().max()) for ours, theirs in pairs)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{group.rank}.json").write_text(json.dumps([len(own), apart]))


def _layers() -> list[torch.nn.Module]:
    return [torch.nn.Conv2d(2, 2, 3, padding=1), torch.nn.BatchNorm2d(2), torch.nn.Tanh()]


class Workers:
    """Processes that do a list of runs, one after the other."""

    def __init__(self, plan: Sequence[Asked], folder: Path, size: int = 2) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        ports = [free_port() for _ in plan]
        (folder / "plan.json").write_text(
            json.dumps([[asdict(run), port] for run, port in zip(plan, ports, strict=True)])
        )
        self.processes = []
        for number in range(size):
            ranks = {"RANK": number, "WORLD_SIZE": size, "LOCAL_RANK": number, "MASTER_ADDR": "127.0.0.1"}
            environment = os.environ | {name: str(value) for name, value in ranks.items()} | {"OMP_NUM_THREADS": "1"}
            here = [Path(patchword.__file__).parents[1], Path(__file__).parents[1]]
            environment["PYTHONPATH"] = os.pathsep.join(map(str, here))
            words = [sys.executable, __file__, str(folder / "plan.json")]
            self.processes.append(
                subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            )

    def wait_for(self, *files: Path) -> None:
        """Wait until these files are there, or a process has ended."""
        while not all(file.exists() for file in files) and all(process.poll() is None for process in self.processes):
            time.sleep(0.05)

    def wait(self, seconds: float = 240) -> None:
        try:
            outputs = [process.communicate(timeout=seconds)[0] for process in self.processes]
        finally:
            for process in self.processes:
                process.kill()
        assert all(process.returncode == 0 for process in self.processes), "\n".join(outputs)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


if __name__ == "__main__":
    torch.set_num_threads(1)
    for fields, port in json.loads(Path(sys.argv[1]).read_text()):
        os.environ["MASTER_PORT"] = str(port)
        while fields["after"] and not Path(fields["after"]).exists():
            time.sleep(0.05)
        norms(Path(fields["folder"])) if fields["recipe"] == "norms" else do(Asked(**fields))
