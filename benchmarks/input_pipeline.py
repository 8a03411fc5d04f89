"""Measure how long a training run waits for its data.

It times three things: steps of the recipe, steps on one batch that is already on the device, and reading data alone.

python benchmarks/input_pipeline.py fashion-mnist-vit compile=true augmentation=deit --save benchmarks/results/FILE.json
python benchmarks/input_pipeline.py bert-pretrain text=corpus.txt tokenizer=FOLDER compile=true
python benchmarks/input_pipeline.py digits-vit --steps 20

Recipe settings are written as for `patchword train`. If data never waits, the first two times are equal. The third is
the lower bound that the data sets for a step.
"""

import argparse
import time
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from rich.console import Console

from patchword.benchmarking.benchmark import wait
from patchword.core.device import machine
from patchword.core.files import write_json
from patchword.recipes import find_recipe
from patchword.recipes.train import assemble, build_task
from patchword.training.loop import Loop

ROUNDS = 3


def unending(loop: Loop) -> Iterator[Any]:
    """The batches of all epochs, without end."""
    for epoch in count():
        yield from loop.data(epoch, 0)


def step_seconds(loop: Loop, batches: Iterator[Any], steps: int, device: torch.device) -> float:
    """Seconds per training step."""
    wait(device)
    began = time.perf_counter()
    for batch in islice(batches, steps):
        torch.manual_seed(0)
        loop.step(batch, 1e-4)
    wait(device)
    return (time.perf_counter() - began) / steps


def read_seconds(batches: Iterator[Any], steps: int, device: torch.device) -> float:
    """Seconds to read one batch, without a training step."""
    began = time.perf_counter()
    for _ in islice(batches, steps):
        pass
    wait(device)
    return (time.perf_counter() - began) / steps


def measure(loop: Loop, steps: int, warm: int, device: torch.device) -> dict[str, float]:
    """Milliseconds per step or per batch: the minimum over a few interleaved rounds."""
    loop.model.train()
    batches = unending(loop)
    step_seconds(loop, batches, warm, device)
    ready = next(batches)
    found: dict[str, list[float]] = {"a step of the run": [], "a step over one batch": [], "data alone": []}
    for _ in range(ROUNDS):
        found["a step of the run"].append(step_seconds(loop, batches, steps, device))
        found["a step over one batch"].append(step_seconds(loop, iter([ready] * steps), steps, device))
        found["data alone"].append(read_seconds(batches, steps, device))
    return {name: 1e3 * min(each) for name, each in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", nargs="?", default="fashion-mnist-vit")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--steps", type=int, default=60, help="steps per round")
    parser.add_argument("--warm", type=int, default=12, help="warm-up steps")
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    console, recipe = Console(), find_recipe(options.recipe).with_settings(options.settings).located()
    with TemporaryDirectory() as folder:
        task = build_task(recipe, console)
        found = measure(assemble(recipe, task, Path(folder), console), options.steps, options.warm, task.device)
    for name, spent in found.items():
        print(f"{name}: {spent:.2f} ms")
    waited = max(0.0, 1 - found["a step over one batch"] / found["a step of the run"])
    print(f"the run waits for its data {waited:.1%} of the time")
    peak = torch.cuda.max_memory_reserved() / 2**30 if task.device.type == "cuda" else None
    if peak is not None:
        print(f"peak memory: {peak:.2f} GiB")
    if options.save:
        settings = {"recipe": options.recipe, "settings": options.settings}
        measured = {"milliseconds": found, "waits": waited, "GiB": peak}
        write_json(options.save, {**settings, **measured, "machine": machine(task.device)})


if __name__ == "__main__":
    main()
