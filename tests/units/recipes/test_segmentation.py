"""Segmentation by a recipe: a run with a restart, its evaluation, and what is fine-tuned from it."""

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console

from patchword.core.errors import UserError
from patchword.layers.dense.segmentation.segmenter import Segmenter
from patchword.recipes import find_recipe
from patchword.recipes.checking import check_data
from patchword.recipes.evaluation import evaluate, evaluated
from patchword.recipes.run import Run
from patchword.recipes.sample_names import sample_names
from patchword.recipes.segmentation import task as task_module
from patchword.recipes.segmentation.recipe import SegmentationRecipe, upernet_swin
from patchword.recipes.segmentation.task import SegmentationTask, build_task
from patchword.recipes.train import train
from patchword.reports.run.kinds import result_lines, write_report
from patchword.studies.run_models import check_model, cost_of
from patchword.weights.io.loading import load_segmenter, open_weights
from support.helpers import unequal_tensors
from support.material import differing, silent
from support.segmentation.label_maps import COLORS, TINY_UPERNET, write_label_maps

QUICK = ("epochs=2", "batch_size=4", "device=cpu", "data=maps", "precision=float32")
LAST = "checkpoints/epoch-00002-batch-0000000/tensors.safetensors"


@pytest.fixture(autouse=True)
def _maps(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_label_maps(Path("maps"), mode="P")


def recipe(*settings: str) -> SegmentationRecipe:
    return find_recipe("segment-images").with_settings([*TINY_UPERNET, *QUICK, *settings])


def built(*settings: str) -> tuple[SegmentationTask, str]:
    console = Console(file=io.StringIO(), width=200)
    return build_task(recipe(*settings), console), console.file.getvalue()


def test_the_summary_names_what_is_trained():
    task, printed = built()
    assert "upernet with resnet-18" in printed
    assert "16 images for training, 2 for validation, 2 for the test" in printed
    assert "classes  4: ground, red, green, blue" in printed
    assert task.model.card.labels == tuple(COLORS)
    assert task.model.card.config["crop"] == 32
    assert len(task.model.card.normalization.mean) == 3
    assert "warning: the first stages" in built("model.frozen=1")[1]


def test_a_batch_is_normalized_and_names_its_images():
    task, _ = built("crop=64", "max_images=5")
    batch = next(iter(task.data(0, 0)))
    assert batch.images.shape == (4, 3, 64, 64)
    assert batch.labels.shape == (4, 64, 64)
    assert set(batch.labels.unique().tolist()) <= {0, 1, 2, 3, 255}
    assert sample_names(task)(batch)[0].endswith(".png")


@pytest.mark.parametrize("mean", ["all", "labelled"])
def test_the_losses_of_micro_batches_add_up_to_that_of_the_batch(mean):
    task, _ = built(f"loss_mean={mean}", "crop=64")
    task.model.eval()  # batch norms and dropout would differ
    objective = task.objective(task.model)
    batch = next(iter(task.data(0, 0)))
    whole = objective(batch, batch).loss
    parts = sum(objective(part, batch).loss for part in batch.split(2))
    assert torch.allclose(parts, whole, rtol=1e-5)
    logits = task.model(batch.images)
    enlarged = torch.nn.functional.interpolate(logits, batch.labels.shape[1:], mode="bilinear", align_corners=False)
    summed = torch.nn.functional.cross_entropy(enlarged, batch.labels.long(), ignore_index=255, reduction="sum")
    count = batch.labels.numel() if mean == "all" else (batch.labels != 255).sum()
    assert torch.allclose(whole, summed / count, rtol=1e-5)


def test_a_stopped_run_resumes_bit_equal(stop_after):
    settings = ("ema_decay=0.9", "augmentation.color_jitter=0.3", "max_images=8", "model.head_dropout=0.2")
    assert built(*settings)[0].steps_per_epoch() == 2
    assert train(recipe(*settings), Path("whole"), silent())
    stop_after(3)  # in the middle of the second epoch
    assert not train(recipe(*settings), Path("parts"), silent())
    stop_after(0)
    assert train(recipe(*settings), Path("parts"), silent(), resume=True)
    for file in ("model.safetensors", LAST):
        assert differing(Path("parts", file), Path("whole", file)) == [], file
    assert train(recipe(*settings, "seed=1"), Path("other"), silent())
    assert differing(Path("other/model.safetensors"), Path("whole/model.safetensors"))


def test_a_run_is_evaluated_and_fine_tuned():
    assert train(recipe("epochs=1", "max_images=4"), Path("run"), silent())
    metrics = Run(Path("run")).metrics()[-1]
    assert {"validation_mean_iou", "validation_pixel_accuracy", "validation_loss"} <= metrics.keys()
    assert json.loads(Path("run/colors.json").read_text()) == [list(color) for color in COLORS.values()]
    found = evaluate(Run(Path("run")), "cpu")
    assert any(line.startswith("Test Mean IoU: ") for line in result_lines(found))
    summary = json.loads(Path("run/evaluation.json").read_text())
    assert (summary["metric"], summary["mean_iou"]) == ("mean_iou", found.scores.mean_iou)
    assert set(summary["iou"]) == set(COLORS)
    assert np.sum(summary["confusion"]) == int(found.measured.labelled.sum())
    assert write_report(Run(Path("run")), found).stat().st_size > 10_000
    other = evaluated(
        Run(Path("run")), Run(Path("run")).recipe().with_settings(["test=slide", "test_flip=true"]), "cpu"
    )
    assert other.options.slide
    assert other.options.flip
    segmenter = load_segmenter("run")
    assert isinstance(segmenter, Segmenter)
    write_label_maps(Path("more"), seed=1)
    fine = find_recipe("segment-images").with_settings(["model=run", *QUICK[:3], "data=more", "crop=32"])
    task = build_task(fine, silent())
    assert unequal_tensors(task.model, segmenter) == []
    weights, names = open_weights("run"), tuple(COLORS)
    assert weights.trained_outputs(names) == "output layers are kept"
    assert weights.trained_outputs(names[::-1]) == "output layers of 4 classes with other names are kept"
    assert weights.trained_outputs(names[:3]) == "new output layers for 3 instead of 4 classes"
    Path("maps/classes.txt").write_text("a\nb\nc\nd\n")
    with pytest.raises(UserError, match="other classes than the model"):
        evaluate(Run(Path("run")), "cpu")


def test_the_scores_are_those_of_the_predictions():
    task, _ = built()
    source, model = task.held.source, task.model.eval()
    measured = task.held.measure(model, "float32")
    confusion, right = np.zeros((4, 4), int), []
    for index in range(len(source)):
        sample = source.sample(index)
        mean, std = (torch.tensor(part).view(3, 1, 1) for part in vars(model.card.normalization).values())
        with torch.inference_mode():
            found = model.segment(((sample.pixels / 255 - mean) / std)[None])[0]
        valid = sample.labels != 255
        np.add.at(confusion, (sample.labels[valid].numpy(), found[valid].numpy()), 1)
        right.append(int((found == sample.labels)[valid].sum()))
    assert measured.confusion.tolist() == confusion.tolist()
    assert measured.right.tolist() == right
    union = confusion.sum(0) + confusion.sum(1) - confusion.diagonal()
    with np.errstate(invalid="ignore"):
        assert measured.scores.mean_iou == pytest.approx(np.nanmean(confusion.diagonal() / union))


def test_a_tiny_segmenter_learns():
    """Colours decide the class."""
    settings = ("epochs=2", "passes=6", "learning_rate=2e-2", "batch_size=8", "augmentation.smallest_scale=1")
    assert train(recipe(*settings), Path("run"), silent())
    first, *_, last = Run(Path("run")).metrics()
    assert last["loss"] < 0.8 * first["loss"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (("data=nothing",), "no segmentation data 'nothing'"),
        (("model=swin-tiny",), "model=upernet model.backbone=swin-tiny"),
        (("model=uperne",), "did you mean 'upernet'"),
        (("crop=50",), "greater than 0 and a multiple of 32"),
        (("model=mask-rcnn",), "patchword train detect-objects model=mask-rcnn"),
        (("model.backbon=swin-tiny",), "did you mean 'backbone'"),
        (("model.crop=64",), "expected crop=N"),
        (("backbone_weights=nothing",), "nothing at nothing"),
        (("compile=true",), "'compile': segmentation supports one value"),
        (("backbone_lr_ratio=-1",), "'backbone_lr_ratio'"),
        (("freeze=backbone",), "model.frozen=N"),
        (("crop=48",), "'crop'"),
        (("ignored=nothing",), "no class is called 'nothing'"),
        (("format=voc",), "JPEGImages"),
        (("batch_size=1",), "one image per micro-batch"),
        (("gradient_accumulation=4",), "batch_size=4 gradient_accumulation=4"),
        (("batch_size=3", "gradient_accumulation=2"), "one image per micro-batch"),
        (("model.scales=[2,3]", "batch_size=1", "crop=32"), "in crops of 32 pixels"),
        (("max_images=1",), "one image per micro-batch"),
    ],
)
def test_a_mistake_is_a_message_and_nothing_is_written(settings, message):
    with pytest.raises(UserError) as raised:
        train(recipe(*settings), Path("run"), silent())
    assert message in str(raised.value)
    assert not Path("run").exists()


@pytest.mark.parametrize(
    "settings", [("gradient_accumulation=2",), ("model.scales=[2,3]", "batch_size=1", "crop=64"), ("batch_size=5",)]
)
def test_micro_batches_that_batch_norms_can_read(settings):
    assert train(recipe("epochs=1", "max_images=10", *settings), Path("run"), silent())


def test_settings_are_checked_before_label_maps_are_read(monkeypatch):
    def read(*_: object) -> None:
        raise AssertionError("the data is read first")

    monkeypatch.setattr(task_module, "open_splits", read)
    with pytest.raises(UserError, match="no field 'bakbone'"):
        built("model.bakbone=resnet-18")


def test_ignored_values_and_scales_are_typed():
    typed = recipe("ignored=11", "test_scales=[0.5,1,1.5]")
    assert (typed.ignored, typed.test_scales) == ((11,), (0.5, 1.0, 1.5))
    assert recipe("ignored=[11,red]").ignored == (11, "red")
    assert recipe("ignored=[]").ignored == ()
    task, printed = built("ignored=[255,red]")
    assert task.model.card.labels == ("ground", "green", "blue")
    assert "ignored values: 255, 1" in printed


def test_a_faulty_image_is_skipped_with_a_warning():
    Image.new("L", (4, 4)).save("maps/masks/007.png")
    task, printed = built()
    assert "warning: skipped: a label map of another size than its image (1)" in printed
    assert len(task.train.source) + len(task.held.source) == 17


def test_data_is_checked():
    summary, _ = check_data(recipe(), lambda done, of: None)
    assert summary.startswith("20 images with label maps of 4 classes")


def test_the_authors_settings():
    authors = upernet_swin()
    assert (authors.learning_rate, authors.weight_decay, authors.batch_size, authors.crop) == (6e-5, 0.01, 16, 512)
    assert authors.epochs * (20_210 // 16) == pytest.approx(160_000, rel=0.005)
    assert authors.warmup * 160_000 == pytest.approx(1500)
    assert (authors.schedule, authors.min_size, authors.max_size) == ("linear", 512, 2048)
    assert authors.model.overrides()["backbone_fields"] == {"drop_path": 0.3}


def test_a_study_knows_the_model_of_a_run_and_its_cost():
    check_model(recipe())
    with pytest.raises(UserError, match="no segmenter is called"):
        check_model(recipe("model=uperne"))
    assert train(recipe("epochs=1", "max_images=4"), Path("run"), silent())
    cost = cost_of(Run(Path("run")))
    assert cost.name == "upernet with resnet-18"
    assert cost.parameters == sum(one.numel() for one in load_segmenter("run").parameters())


def test_a_run_can_be_trained_again_from_scratch():
    train(recipe("epochs=1"), Path("runs/first"), silent())
    again = find_recipe("segment-images").with_settings([*QUICK, "crop=32", "model=runs/first"])
    task = build_task(again.with_settings(["model.from_scratch=true"]), silent())
    first = load_segmenter("runs/first").card.config
    assert {**task.model.card.config, "classes": 4} == {**first, "frozen": 0}
    assert all(one.requires_grad for one in task.model.parameters())


def test_validation_images_without_labels_are_an_error(monkeypatch):
    task, _ = built()
    plain = type(task.held.source).sample

    def unlabelled(source, index):
        found = plain(source, index)
        return replace(found, labels=torch.full_like(found.labels, 255))

    monkeypatch.setattr(type(task.held.source), "sample", unlabelled)
    with pytest.raises(UserError, match="the validation images have no labelled pixel"):
        task.validate()
