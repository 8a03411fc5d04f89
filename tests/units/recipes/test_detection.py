"""Detection by a recipe: data, a run with a restart, its evaluation, and what is fine-tuned from it."""

import io
import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import torch
from rich.console import Console

import patchword
from patchword.core.errors import UserError
from patchword.data.detection.splits import open_splits
from patchword.data.detection.wrapping import WrappedSource
from patchword.layers.dense.detector import Detector
from patchword.models.detection import DETECTORS
from patchword.recipes import find_recipe
from patchword.recipes.checking import check_data
from patchword.recipes.detection import task as task_module
from patchword.recipes.detection.inference import detect_images
from patchword.recipes.detection.model import plan_detector
from patchword.recipes.detection.objective import DetectionObjective
from patchword.recipes.detection.recipe import DetectionRecipe, detr, mask_rcnn_swin
from patchword.recipes.detection.task import DetectionTask, build_task
from patchword.recipes.evaluation import evaluate
from patchword.recipes.run import Run
from patchword.recipes.sample_names import sample_names
from patchword.recipes.train import assemble, train
from patchword.reports.run.kinds import result_lines, write_report
from patchword.weights.io.loading import load_detector
from support.detection.rectangles import TINY_ATSS, TINY_DETR, TINY_MASK_RCNN, write_rectangles
from support.helpers import unequal_tensors
from support.material import differing, silent

QUICK = ("epochs=2", "batch_size=4", "device=cpu", "data=objects", "precision=float32")
LAST = "checkpoints/epoch-00002-batch-0000000/tensors.safetensors"


@pytest.fixture(autouse=True)
def _objects(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_rectangles(Path("objects"))


def recipe(*settings: str, model: tuple[str, ...] = TINY_ATSS) -> DetectionRecipe:
    return find_recipe("detect-objects").with_settings([*model, *QUICK, *settings])


def built(*settings: str, model: tuple[str, ...] = TINY_ATSS) -> tuple[DetectionTask, str]:
    console = Console(file=io.StringIO(), width=200)
    return build_task(recipe(*settings, model=model), console), console.file.getvalue()


def test_the_parts_of_a_data_set_are_disjoint_and_do_not_move():
    splits = open_splits("objects", 0.1)
    parts = [
        {part.file(index) for index in range(len(part))} for part in (splits.train, splits.validation, splits.test)
    ]
    assert [len(part) for part in parts] == [16, 2, 2]
    assert len(set.union(*parts)) == 20
    write_rectangles(Path("objects"), count=30)
    later = open_splits("objects", 0.1).test
    kept = {later.file(index) for index in range(len(later))}
    assert len(kept & parts[2]) >= 1, "more images hardly change the test images"


def test_the_summary_names_what_is_trained():
    task, printed = built(model=TINY_MASK_RCNN)
    assert "mask-rcnn with resnet-18" in printed
    assert "16 images for training, 2 for validation, 2 for the test" in printed
    assert "boxes and masks of 3 classes" in printed
    assert task.model.card.labels == ("red", "green", "blue")
    assert len(task.model.card.normalization.mean) == 3


def test_frozen_random_weights_are_a_warning():
    warning = "warning: the first stages of the backbone have random weights and are frozen: model.frozen=0"
    assert warning in built("model.frozen=1")[1]
    assert warning not in built("model.frozen=0")[1]
    settings = [text for text in TINY_ATSS if "frozen" not in text]
    task, printed = built(model=tuple(settings))
    assert warning not in printed
    assert task.model.card.config["frozen"] == 0
    assert DETECTORS["atss"].config.frozen is None  # one stage of a ResNet


def test_more_objects_than_queries_are_a_warning():
    small = ("model=detr", "model.backbone=resnet-18", "model.backbone_fields={width: 8}", "model.width=32")
    small += ("model.encoder_depth=1", "model.decoder_depth=1", "model.min_size=64", "model.max_size=96")
    warning = "more objects than model.queries=1, the most that can be found per image; the largest number is"
    assert warning in built("model.queries=1", "model.max_detections=1", model=small)[1]
    assert "more objects than" not in built("model.queries=20", "model.max_detections=20", model=small)[1]


def test_some_of_the_images_are_trained_on_and_padded_to_a_multiple():
    task, printed = built("max_images=5", "pad_multiple=96", model=TINY_MASK_RCNN)
    assert "5 images for training, 2 for validation, 2 for the test" in printed
    batch = next(iter(task.data(0, 0)))
    assert [side % 96 for side in batch.images.shape[2:]] == [0, 0]


def test_a_batch_is_normalized_and_its_padding_is_zero():
    task, _ = built("model.min_size=40", "model.max_size=40")
    batch = next(iter(task.data(0, 0)))
    assert batch.images.shape == (4, 3, 64, 64)
    assert batch.targets.sizes.tolist() == [[40, 40]] * 4
    assert not batch.images[:, :, 40:].any()
    assert not batch.images[..., 40:].any()
    assert batch.images[:, :, :40, :40].std() > 0.5
    assert sample_names(task)(batch)[0].endswith(".png")


def test_the_loss_of_parts_is_that_of_the_batch():
    """Which boxes are sampled depends on the image alone, so that micro-batches draw the same."""
    task, _ = built()
    task.model.eval()
    objective = task.objective(task.model)
    assert isinstance(objective, DetectionObjective)
    batch = next(iter(task.data(0, 0)))
    first, second = batch.split(2)
    key = batch.keys()((4, 9), torch.device("cpu"))
    assert torch.equal(torch.cat([part.keys()((2, 9), torch.device("cpu")) for part in (first, second)]), key)
    draw = batch.keys()
    assert not torch.equal(draw((4, 9), torch.device("cpu")), draw((4, 9), torch.device("cpu")))
    assert objective(batch, batch).loss.isfinite()
    assert objective(first, batch).loss == objective(first, first).loss / 2


def test_a_stopped_run_resumes_bit_equal(stop_after):
    settings = ("ema_decay=0.9", "augmentation.color_jitter=0.3", "max_images=8")
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


def test_a_detr_is_trained_and_fine_tuned():
    assert train(recipe("epochs=1", "max_images=4", model=TINY_DETR), Path("run"), silent())
    detector = Run(Path("run")).detector()
    assert detector.card.model == "detr"
    found = detect_images(detector, [torch.zeros(3, 64, 64, dtype=torch.uint8)])[0]
    assert len(found.scores) == 8
    assert train(recipe("epochs=1", "max_images=4", model=("model=run",)), Path("again"), silent())


def test_a_run_is_evaluated_and_fine_tuned():
    assert train(recipe("epochs=1", "max_images=4", model=TINY_MASK_RCNN), Path("run"), silent())
    metrics = Run(Path("run")).metrics()[-1]
    assert {"validation_box_ap", "validation_box_ap50", "validation_mask_ap", "validation_loss"} <= metrics.keys()
    found = evaluate(Run(Path("run")), "cpu")
    assert len(found.truth) == len(found.found) == 2
    assert any("Test Box AP" in line for line in result_lines(found))
    assert any("Test Mask AP" in line for line in result_lines(found))
    summary = json.loads(Path("run/evaluation.json").read_text())
    assert (summary["box_ap"], summary["mask_ap"]) == (found.boxes.ap(), found.masks.ap())
    assert set(summary["boxes"]["per_class"]) == {"red", "green", "blue"}
    assert write_report(Run(Path("run")), found).stat().st_size > 10_000
    detector = load_detector("run")
    assert isinstance(detector, Detector)
    write_rectangles(Path("more"), seed=1)
    fine = find_recipe("detect-objects").with_settings(["model=run", *QUICK[:3], "data=more"])
    task = build_task(fine, silent())
    assert unequal_tensors(task.model, detector) == []


def test_evaluation_reads_each_image_once():
    @dataclass(frozen=True, eq=False)
    class Counted(WrappedSource):
        reads: list[int] = field(default_factory=list)

        def sample(self, index):
            self.reads.append(index)
            return self.source.sample(index)

    task, _ = built()
    source = Counted(open_splits("objects", 0.1).train)
    held = replace(task.held, batches=replace(task.held.batches, source=source, size=3))
    assert len(held.measure(task.model.eval(), "float32").truth) == 16
    assert sorted(source.reads) == list(range(16))


def test_detections_are_in_pixels_of_the_original_image():
    """The same image at twice the size has the same objects at twice the coordinates."""
    torch.manual_seed(0)
    sizes = {"backbone_fields": {"width": 8}, "width": 16, "hidden": 16, "min_size": 64, "max_size": 64}
    detector = patchword.create("mask-rcnn", backbone="resnet-18", classes=3, **sizes).eval()
    for stage in detector.stages:
        torch.nn.init.constant_(stage.class_output.bias[:1], 5.0)  # every proposal is an object
    small = torch.full((3, 64, 64), 90, dtype=torch.uint8)  # stays the same when it is resized
    large = torch.full((3, 128, 128), 90, dtype=torch.uint8)
    one, two = detect_images(detector, [small, large])
    assert len(one.labels) > 1
    assert two.labels.tolist() == one.labels.tolist()
    assert abs(two.boxes - 2 * one.boxes).max() < 1e-2
    assert {(mask.height, mask.width) for mask in two.masks} == {(128, 128)}


def test_a_tiny_detector_learns():
    """Colours decide the class."""
    settings = ("model.batch_norms=train", "epochs=3", "passes=4", "learning_rate=3e-3", "batch_size=8")
    assert train(recipe(*settings), Path("run"), silent())
    first, *_, last = Run(Path("run")).metrics()
    assert last["loss"] < 0.8 * first["loss"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (("data=nothing",), "no detection data 'nothing'"),
        (("model=swin-tiny",), "model=atss model.backbone=swin-tiny"),
        (("model=mask-rcn",), "did you mean 'mask-rcnn'"),
        (("model=upernet",), "patchword train segment-images model=upernet"),
        (("model.backbon=swin-tiny",), "did you mean 'backbone'"),
        (("backbone_weights=nothing",), "nothing at nothing"),
        (("compile=true",), "'compile': detection supports one value"),
        (("freeze=backbone",), "model.frozen=N"),
        (("pad_multiple=48",), "'pad_multiple'"),
        (("layer_decay=0.7",), "expected 1.0, got 0.7"),
        (("backbone_lr_ratio=0",), "'backbone_lr_ratio'"),
    ],
)
def test_a_mistake_is_a_message_and_nothing_is_written(settings, message):
    with pytest.raises(UserError) as raised:
        train(recipe(*settings), Path("run"), silent())
    assert message in str(raised.value)
    assert not Path("run").exists()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("model.bakbone=resnet-18", "no field 'bakbone'"),
        ("model.min_size=0", "field 'min_size'"),
        ("backbone_weights=nowhere", "'backbone_weights': there is nothing at nowhere"),
    ],
)
def test_settings_are_checked_before_images_are_read(setting, message, monkeypatch):
    def read(*_: object) -> None:
        raise AssertionError("the data is read first")

    monkeypatch.setattr(task_module, "open_splits", read)
    with pytest.raises(UserError, match=message):
        built(setting)


def test_masks_cannot_be_learned_from_boxes():
    write_rectangles(Path("boxes"), masks=False)
    with pytest.raises(UserError, match="learns masks"):
        train(recipe("data=boxes", model=TINY_MASK_RCNN), Path("run"), silent())
    assert not Path("run").exists()


def test_data_is_checked():
    summary, _ = check_data(recipe(), lambda done, of: None)
    assert summary.startswith("20 images (1 without objects)")


def test_the_authors_settings():
    authors = mask_rcnn_swin()
    assert (authors.learning_rate, authors.weight_decay, authors.epochs, authors.batch_size) == (1e-4, 0.05, 36, 16)
    assert authors.augmentation.min_sizes == tuple(range(480, 801, 32))
    assert authors.schedule == "step"
    authors = detr()
    assert (authors.learning_rate, authors.weight_decay, authors.epochs, authors.batch_size) == (1e-4, 1e-4, 300, 64)
    assert (authors.backbone_lr_ratio, authors.clip_norm, authors.warmup) == (0.1, 0.1, 0.0)
    assert authors.augmentation == mask_rcnn_swin().augmentation


def test_batch_norms_of_a_random_backbone_of_detr_are_trained():
    fields = plan_detector(detr()).fields
    assert (fields["batch_norms"], fields["frozen"]) == ("train", 0)
    assert plan_detector(detr().with_settings(["model.batch_norms=evaluate"])).fields["batch_norms"] == "evaluate"
    assert "batch_norms" not in plan_detector(detr().with_settings(["backbone_weights=."])).fields
    assert "batch_norms" not in plan_detector(recipe()).fields


def test_the_backbone_has_its_own_learning_rate():
    settings = recipe("backbone_lr_ratio=0.25")
    loop = assemble(settings, build_task(settings, silent()), Path("run"), silent())
    found: dict[float, set[int]] = {0.25: set(), 1.0: set()}
    for group in loop.optimizer.param_groups:
        found[group["lr_scale"]] |= {id(one) for one in group["params"]}
    assert found[0.25] == {id(one) for one in loop.model.backbone.parameters() if one.requires_grad}
    assert found[1.0]


def test_the_loss_of_a_run_samples_as_the_detector_says():
    task, _ = built("model.roi_samples=16", model=TINY_MASK_RCNN)
    objective = task.objective(task.model)
    assert [stage.sampler.count for stage in (*objective.rule.stages, *task.held.rule.stages)] == [16, 16]
