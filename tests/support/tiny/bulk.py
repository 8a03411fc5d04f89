"""Tiny models of texts and images in folders, and calls of bulk work that are killed."""

import multiprocessing
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch

import patchword
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.pipelines.bulk.driver import run
from patchword.pipelines.bulk.work import Work
from patchword.recipes.text.recipe import TextRecipe
from support.helpers import tiny, tiny_text

TEXTS = (
    "The cat sat on the mat.",
    "A dog ran to the bank of the river, and the cat ran to the bank in town!",
    "Ada Lovelace lived in London. Naïve café: 北京大学, don't.",
    "=1+1 is a sum",
)
WORDS = " ".join(TEXTS).split()
SEED = 7


def text_model(folder: Path, labels: tuple[str, ...] = (), recipe: TextRecipe | None = None, **config: object) -> Path:
    """Write a tiny text model with its tokenizer; with a recipe, it is a run."""
    tokenizer = Tokenizer.train_on(list(TEXTS) * 3, vocabulary=200)
    model = tiny_text(**{"vocabulary": tokenizer.vocabulary, "max_length": 40, **config})
    model.card = replace(model.card, labels=labels)
    patchword.save(model, folder)
    tokenizer.save(folder)
    if recipe is not None:
        (folder / "recipe.yaml").write_text(recipe.to_yaml(), encoding="utf-8")
    return folder


def classifier_of_texts(folder: Path, task: str = "classes", labels: tuple[str, ...] = ("bad", "fair", "good")) -> Path:
    """Write a run of a task with random weights. task: classes, labels, number, tags or span"""
    recipe = TextRecipe.model_validate({"task": task, "length": 24})
    classes = {"number": 1, "span": 0}.get(task, len(labels))
    return text_model(
        folder, labels, recipe, head={"tags": "tags", "span": "span"}.get(task, "classes"), classes=classes
    )


def image_model(folder: Path) -> Path:
    patchword.save(tiny(), folder)
    return folder


def some_texts(count: int) -> list[str]:
    """Texts of very different lengths."""
    rng = random.Random(SEED)
    return [" ".join(rng.choices(WORDS, k=rng.choice((1, 3, 8, 25)))) for _ in range(count)]


def finished_shards(out: Path) -> int:
    """The number of finished shards in the folder beside an output."""
    path = out.with_name(f"{out.name}.parts") / "shards.jsonl"
    return path.read_bytes().count(b"\n") if path.is_file() else 0


def run_killed(work: Work, rows: Path, out: Path, size: int, kills: int) -> int:
    """Run a work to its end in processes of which so many are killed at random moments. Return how many were killed."""
    rng, killed = random.Random(SEED), 0
    while True:
        process = started(work, rows, out, size)
        target = finished_shards(out) + rng.choice((0, 1, 2))
        if killed < kills:
            wait_for(process, lambda: finished_shards(out) >= target)  # noqa: B023  # called at once
            time.sleep(rng.uniform(0, 0.03))
            if process.is_alive():
                os.kill(process.pid or 0, signal.SIGKILL)
        process.join()
        if process.exitcode == 0:
            return killed
        assert process.exitcode == -signal.SIGKILL
        killed += 1


def started(work: Work, rows: Path, out: Path, size: int) -> BaseProcess:
    """Start a run in a process of its own, from a server that has torch already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["support.tiny.bulk"])
    process = context.Process(target=in_process, args=(work, rows, out, size))
    process.start()
    return process


def in_process(work: Work, rows: Path, out: Path, size: int) -> None:
    """Run a work with one thread, as every process of a test does."""
    torch.set_num_threads(1)
    run(work, rows, out, size=size)


def wait_for(process: BaseProcess, condition: Callable[[], bool]) -> None:
    while process.is_alive() and not condition():
        time.sleep(0.002)


def peak_memory(work: Work, rows: Path, out: Path, size: int) -> int:
    """Return the most bytes of memory that a run had, in a process of its own."""
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_measured, args=(work, rows, out, size, send))
    process.start()
    found = int(receive.recv())
    process.join()
    assert process.exitcode == 0
    return found


def _measured(work: Work, rows: Path, out: Path, size: int, send: Connection) -> None:
    in_process(work, rows, out, size)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    send.send(peak if sys.platform == "darwin" else 1024 * peak)
