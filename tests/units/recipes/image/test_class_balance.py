"""Training on unbalanced images: the hint, the weights, and what the report says of them."""

import io
from pathlib import Path

import pytest
import torch
from rich.console import Console

from patchword.core.errors import UserError
from patchword.core.files import read_json
from patchword.data.image.named_datasets import open_source
from patchword.data.shards.folders import Folders
from patchword.data.shards.image_contents import image_contents
from patchword.data.shards.writing import write_shards
from patchword.recipes import find_recipe
from patchword.recipes.evaluation import evaluate
from patchword.recipes.run import Run
from patchword.recipes.schema.older_fields import with_current_names
from patchword.recipes.train import build_task, train
from patchword.reports import write_report
from support.material import TINY_MODEL, differing, silent, write_classes, write_picture
from support.tiny_texts import stop_after, without_seconds

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


def test_balanced_sampling_is_in_the_output_and_the_report_and_leaves_other_data_alone() -> None:
    hint = "sampling=balanced shows every class equally often"
    assert hint in output_of("plain")
    assert hint not in output_of("sampled", "sampling=balanced", "batch_size=12")
    run = Run(Path("runs/sampled"))
    assert read_json(Path("runs/sampled/data.json"))["class_counts"] == {"cat": 44, "dog": 4}
    quality = evaluate(run, "cpu")
    page = write_report(run, quality).read_text(encoding="utf-8")
    assert "dog</b>, 4. Every epoch draws every class equally often: examples of rare classes repeatedly" in page
    assert "with every class equally often; validation values" in page


def test_an_epoch_of_a_task_has_as_many_images_of_every_class() -> None:
    tasks = [
        build_task(find_recipe("image-folder-vit").with_settings([*SETTINGS, f"sampling={kind}"]), silent())
        for kind in ("natural", "balanced")
    ]
    counts = [torch.cat([batch.samples for batch in task.data(0, 0)]) for task in tasks]
    assert [tasks[0].train.images.labels[samples].bincount().tolist() for samples in counts] == [[44, 4], [24, 24]]
    assert tasks[0].steps_per_epoch() == tasks[1].steps_per_epoch() == 3
    assert tasks[0].samples() == tasks[1].samples()
    assert tasks[0].validate().loss == tasks[1].validate().loss


def test_a_restarted_run_with_balanced_sampling_is_the_same_bit_by_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = ("sampling=balanced", "augmentation=deit", "epochs=2", "gradient_accumulation=2", "keep_checkpoints=true")
    recipe = find_recipe("image-folder-vit").with_settings([*SETTINGS, *fields])
    assert train(recipe, Path("whole"), silent())
    stop_after(monkeypatch, 4)
    assert not train(recipe, Path("parts"), silent(), resume=True)
    stop_after(monkeypatch, 0)
    assert train(recipe, Path("parts"), silent(), resume=True)
    assert differing(Path("parts/model.safetensors"), Path("whole/model.safetensors")) == []
    assert without_seconds(Path("parts")) == without_seconds(Path("whole"))


@pytest.mark.parametrize("recipe", ["image-folder-vit", "classify-text"])
def test_weights_and_sampling_together_are_refused(recipe: str) -> None:
    with pytest.raises(UserError, match="correct the class frequencies twice"):
        find_recipe(recipe).with_settings(["class_weights=balanced", "sampling=balanced"])


def test_shards_are_refused_since_they_are_read_in_their_order() -> None:
    write_shards(image_contents(open_source("photos"), "photos"), Folders((Path("shards"),)), 2000)
    recipe = find_recipe("image-folder-vit").with_settings([*SETTINGS, "data=shards", "sampling=balanced"])
    with pytest.raises(UserError, match="slow in shards"):
        build_task(recipe, silent())


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
