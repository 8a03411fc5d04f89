"""Training on unbalanced images: the hint, the weights, and what the report says of them."""

import io
from pathlib import Path

import pytest
import torch
from rich.console import Console

from patchword.core.files import read_json
from patchword.recipes import find_recipe
from patchword.recipes.evaluation import evaluate
from patchword.recipes.run import Run
from patchword.recipes.schema.older_fields import with_current_names
from patchword.recipes.train import build_task, train
from patchword.reports import write_report
from support.material import TINY_MODEL, silent, write_classes, write_picture

SIZES = ("model.image=8", *TINY_MODEL)
SETTINGS = (*SIZES, "data=photos", "epochs=1", "batch_size=16", "device=cpu")


@pytest.fixture(autouse=True)
def _photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Images of two classes, 44 and 4 of them to train on."""
    monkeypatch.chdir(tmp_path)
    for part, count in (("train", 4), ("validation", 3), ("test", 3)):
        write_classes(Path("photos") / part, ("cat", "dog"), count=count)
    for number in range(40):
        write_picture(Path(f"photos/train/cat/more-{number}.png"), seed=100 + number)


def output_of(name: str, *settings: str) -> str:
    output = io.StringIO()
    recipe = find_recipe("image-folder-vit").with_settings([*SETTINGS, *settings])
    assert train(recipe, Path("runs") / name, Console(file=output, width=300))
    return output.getvalue()


def test_a_hint_and_the_counts_are_in_the_output_and_the_report() -> None:
    hint = "note: cat has 44 training images, dog only 4: class_weights=balanced"
    assert hint in output_of("plain")
    assert hint not in output_of("weighted", "class_weights=balanced")
    assert read_json(Path("runs/plain/data.json"))["class_counts"] == {"cat": 44, "dog": 4}
    run = Run(Path("runs/weighted"))
    page = write_report(run, evaluate(run, "cpu")).read_text(encoding="utf-8")
    assert "has 44 training images, the smallest, <b>dog</b>, 4. In the training loss, a class has the weight" in page


def test_weights_change_the_training_loss_and_nothing_else() -> None:
    tasks = [
        build_task(find_recipe("image-folder-vit").with_settings([*SETTINGS, f"class_weights={kind}"]), silent())
        for kind in ("none", "balanced")
    ]
    plain, weighted = (next(task.data(0, 0)) for task in tasks)
    assert torch.equal(plain.inputs, weighted.inputs)
    losses = [float(task.objective(task.model.eval())(plain, plain).loss.detach()) for task in tasks]
    assert losses[0] != losses[1]
    assert tasks[0].validate().loss == tasks[1].validate().loss


def test_an_older_recipe_with_weights_is_read() -> None:
    assert with_current_names({"weights": True}) == {"class_weights": "balanced"}
    assert with_current_names({"weights": False}) == {"class_weights": "none"}
