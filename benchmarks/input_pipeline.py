"""Does a run wait for its data? Steps as a recipe takes them, steps over one batch that lies there, and its data alone.

python benchmarks/input_pipeline.py fashion-mnist-vit compile=true augmentation=deit --save benchmarks/results/FILE.json
python benchmarks/input_pipeline.py bert-pretrain text=corpus.txt tokenizer=FOLDER compile=true
python benchmarks/input_pipeline.py digits-vit --steps 20

Settings of the recipe are told as `patchword train` is told them. Where the data is ready in time, the first two take
equally long; the third says how many steps a second the data would last for.
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

from patchword.bench.benchmark import wait
from patchword.core.device import machine
from patchword.core.files import write_json
from patchword.recipes import find_recipe
from patchword.recipes.train import assemble, build_task
from patchword.training.loop import Loop

ROUNDS = 3


def unending(loop: Loop) -> Iterator[Any]:
    """the batches of one epoch after the other"""
    for epoch in count():
        yield from loop.data(epoch, 0)


def taken(loop: Loop, batches: Iterator[Any], steps: int, device: torch.device) -> float:
    """seconds of a step"""
    wait(device)
    began = time.perf_counter()
    for batch in islice(batches, steps):
        torch.manual_seed(0)
        loop.step(batch, 1e-4)
    wait(device)
    return (time.perf_counter() - began) / steps


def read(batches: Iterator[Any], steps: int, device: torch.device) -> float:
    """seconds of a batch that nobody uses"""
    began = time.perf_counter()
    for _ in islice(batches, steps):
        pass
    wait(device)
    return (time.perf_counter() - began) / steps


def measure(loop: Loop, steps: int, warm: int, device: torch.device) -> dict[str, float]:
    """milliseconds of a step or a batch, the least of some rounds that take turns"""
    loop.model.train()
    batches = unending(loop)
    taken(loop, batches, warm, device)
    lying = next(batches)
    found: dict[str, list[float]] = {"a step of the run": [], "a step over one batch": [], "data alone": []}
    for _ in range(ROUNDS):
        found["a step of the run"].append(taken(loop, batches, steps, device))
        found["a step over one batch"].append(taken(loop, iter([lying] * steps), steps, device))
        found["data alone"].append(read(batches, steps, device))
    return {name: 1e3 * min(each) for name, each in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", nargs="?", default="fashion-mnist-vit")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--steps", type=int, default=60, help="of a round")
    parser.add_argument("--warm", type=int, default=12, help="steps before")
    parser.add_argument("--save", type=Path)
    asked = parser.parse_args()
    console, recipe = Console(), find_recipe(asked.recipe).with_settings(asked.settings).located()
    with TemporaryDirectory() as folder:
        task = build_task(recipe, console)
        found = measure(assemble(recipe, task, Path(folder), console), asked.steps, asked.warm, task.device)
    for name, spent in found.items():
        print(f"{name}: {spent:.2f} ms")
    waited = max(0.0, 1 - found["a step over one batch"] / found["a step of the run"])
    print(f"the run waits for its data {waited:.1%} of the time")
    peak = torch.cuda.max_memory_reserved() / 2**30 if task.device.type == "cuda" else None
    if peak is not None:
        print(f"peak memory: {peak:.2f} GiB")
    if asked.save:
        told = {"recipe": asked.recipe, "settings": asked.settings, "milliseconds": found, "waits": waited, "GiB": peak}
        write_json(asked.save, {**told, "machine": machine(task.device)})


if __name__ == "__main__":
    main()
