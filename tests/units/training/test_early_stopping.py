"""Early stopping: by default where trained weights are fine-tuned; it is announced, and the best weights are kept."""

import pytest
import torch
from safetensors.torch import load_file

from patchword.api.training import train_recipe
from patchword.recipes import RECIPES, find_recipe
from patchword.recipes.early_stopping import early_stop
from patchword.recipes.image.task import ImageTask
from patchword.recipes.schema.recipe import Recipe
from patchword.training.loop import Validation
from support.material import silent, tiny_recipe

STOPPED = (
    "Training stopped after epoch 4 of 9: 2 epochs without a better validation accuracy than that of epoch 2, "
    "whose weights were kept (patience=2)."
)


def records(*scores: float) -> list[dict[str, float]]:
    return [
        {"epoch": epoch, "validation_loss": 1.0, "validation_f1": score, "validation_accuracy": -score}
        for epoch, score in enumerate(scores, 1)
    ]


def recipe_of(patience: int, epochs: int) -> Recipe:
    return find_recipe("digits-vit").with_settings([f"patience={patience}", f"epochs={epochs}"])


def test_a_run_that_stopped_early_is_announced_with_its_best_weights(tmp_path, monkeypatch, capsys):
    scores, weights = iter([0.5, 0.6, 0.4, 0.6]), []

    def validate(task: ImageTask, group: object) -> Validation:
        weights.append({name: tensor.clone() for name, tensor in task.model.state_dict().items()})
        return Validation(1.0, next(scores))

    monkeypatch.setattr(ImageTask, "validate", validate)
    console = silent()
    train_recipe(tiny_recipe("epochs=9", "patience=2", "batch_size=512"), tmp_path / "run", console)
    assert STOPPED in console.file.getvalue().replace("\n", " ").replace("  ", " ")
    assert STOPPED in (tmp_path / "run" / "report.html").read_text()
    assert len(weights) == 4
    kept = load_file(tmp_path / "run" / "model.safetensors")
    assert all(torch.equal(kept[name], tensor) for name, tensor in weights[1].items())


def test_the_metric_that_selects_the_best_epoch_counts():
    assert "4 of 9: one epoch without a better validation f1 than that of epoch 3," in early_stop(
        recipe_of(1, 9), records(0.1, 0.2, 0.3, 0.2)
    )


@pytest.mark.parametrize(
    ("patience", "epochs", "scores"),
    [(0, 9, (0.5, 0.4, 0.3)), (2, 3, (0.5, 0.4, 0.3)), (2, 9, (0.5, 0.4)), (2, 9, ())],
    ids=["no patience", "the last epoch", "stopped by a callback", "no epoch"],
)
def test_other_runs_did_not_stop_early(patience, epochs, scores):
    assert early_stop(recipe_of(patience, epochs), records(*scores)) == ""


def test_recipes_that_fine_tune_your_data_stop_early_and_measured_ones_do_not():
    patience = {name: function().patience for name, function in RECIPES.items()}
    stops = {"finetune-images": 5, "classify-text": 3, "tag": 3, "squad": 3, "image-folder-vit": 10}
    assert {name: value for name, value in patience.items() if value} == stops
    assert all(not RECIPES[name]().expect.accuracy for name in stops)


def test_early_stopping_cannot_change_a_run_of_as_many_epochs_as_its_patience():
    for name in ("classify-text", "tag", "squad"):
        assert find_recipe(name).patience >= find_recipe(name).epochs
