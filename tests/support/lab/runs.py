"""Run folders of a few lines for the tests of the lab: no training is needed to write them."""

import json
from pathlib import Path
from typing import Any

from patchword.core.files import write_json
from patchword.data.image.png import png_bytes
from patchword.recipes import find_recipe
from patchword.recipes.results.mistakes import Mistake

CLASSES = ["cat", "dog", "owl"]


def write_run(folder: Path, epochs: int = 3, done: int | None = None, finished: bool = True, **fields: Any) -> Path:
    """Write a run of digits-vit. done: epochs that are logged. finished: with a result, else stopped."""
    import torch

    folder.mkdir(parents=True)
    recipe = find_recipe("digits-vit").with_values({"epochs": epochs, **fields})
    (folder / "recipe.yaml").write_text(recipe.to_yaml())
    write_json(folder / "machine.json", {"device": "cpu"})
    for epoch in range(1, (epochs if done is None else done) + 1):
        add_epoch(folder, epoch)
    (folder / "model.safetensors").write_bytes(b"weights")
    if finished:
        write_json(folder / "evaluation.json", {"loss": 0.5, "accuracy": 0.75, "classes": CLASSES, **matrix(9)})
        pixels = torch.full((1, 8, 8), 200, dtype=torch.uint8)
        image = Mistake(7, "cat", "owl", 0.9, png_bytes(pixels))
        write_json(folder / "mistakes.json", [image.to_json(), Mistake(8, "dog", "cat", 0.8, b"", "a text").to_json()])
        write_json(folder / "finished.json", {"finished": "2026-01-02 03:04:05", "epochs": epochs})
    return folder


def matrix(epoch: int) -> dict[str, list[list[int]]]:
    return {"confusion": [[epoch, 1, 0], [2, epoch, 1], [0, 3, epoch]]}


def add_steps(folder: Path, first: int, last: int) -> None:
    """Append lines to steps.jsonl, ten steps per epoch."""
    with (folder / "steps.jsonl").open("a") as file:
        for step in range(first, last + 1):
            values = {"loss": round(2 / step, 4), "learning_rate": 0.001, "seconds": step / 2}
            file.write(json.dumps({"step": step, "epoch": step / 10, **values}) + "\n")


def add_epoch(folder: Path, epoch: int) -> None:
    """Append the lines of an epoch to steps.jsonl, confusion.jsonl and metrics.jsonl."""
    add_steps(folder, 10 * epoch - 9, 10 * epoch)
    with (folder / "confusion.jsonl").open("a") as file:
        file.write(json.dumps({"epoch": epoch, "step": 10 * epoch, "counts": matrix(epoch)["confusion"]}) + "\n")
    scores = {"accuracy": 0.5, "validation_loss": 1 / epoch, "validation_accuracy": 1 - 0.5 / epoch}
    record = {"epoch": epoch, "step": 10 * epoch, "loss": 2 / epoch, **scores, "learning_rate": 0.001}
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({**record, "seconds": 5.0 * epoch}) + "\n")
