"""Builds the task of object detection from its recipe."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import torch
from rich.console import Console

from patchword.core.device import pick_device, pick_precision
from patchword.core.work_sharing import SINGLE, WorkSharing
from patchword.data.detection.batches import DetectionBatches, ObjectBatch
from patchword.data.detection.splits import DetectionSplits, open_splits
from patchword.data.detection.wrapping import cached, drawn, file_names
from patchword.data.image.splits import Split
from patchword.data.progress import Progress
from patchword.data.sample_digests import Contents
from patchword.data.skipping import skipped_lines
from patchword.layers.dense.detector import Detector
from patchword.objectives.detection.rules import detection_loss
from patchword.recipes.dense.backbones import load_backbone_weights
from patchword.recipes.dense.memory_format import store_channels_last
from patchword.recipes.dense.normalization import measured
from patchword.recipes.detection.inference import resizing
from patchword.recipes.detection.measuring import METRIC, HeldOutObjects
from patchword.recipes.detection.model import check_masks, plan_detector
from patchword.recipes.detection.objective import DetectionObjective
from patchword.recipes.detection.recipe import DetectionRecipe
from patchword.recipes.detection.summary import print_summary
from patchword.training.loop import Validation
from patchword.training.step import Objective
from patchword.weights import save


@dataclass(frozen=True)
class DetectionTask:
    """The task of a detection recipe, checked before anything is written."""

    recipe: DetectionRecipe
    model: Detector
    train: DetectionBatches
    held: HeldOutObjects
    device: torch.device
    unit: str = "images"
    metric: str = METRIC
    shapes_change: bool = True

    def steps_per_epoch(self) -> int:
        return self.train.steps_per_epoch()

    def data(self, epoch: int, first: int, group: WorkSharing = SINGLE) -> Iterator[ObjectBatch]:
        return self.train.epoch(epoch, self.recipe.seed, first, group)

    def objective(self, forward: Callable[[Any], Any]) -> Objective:
        return DetectionObjective(self.model, detection_loss(self.model))

    def validate(self, group: WorkSharing = SINGLE) -> Validation:
        return self.held.validate(self.model, pick_precision(self.recipe.precision, self.device), group)

    def save(self, folder: Path) -> None:
        save(self.model, folder)

    def samples(self) -> dict[str, int]:
        return {"training": len(self.train.source), "validation": len(self.held.batches.source)}

    def with_batch_size(self, size: int) -> Self:
        recipe = self.recipe.model_copy(update={"batch_size": size})
        return replace(self, recipe=recipe, train=replace(self.train, size=size))

    def fingerprint(self) -> dict[str, Any]:
        source = self.train.source
        return {"name": source.name, "samples": len(source), "fingerprint": source.fingerprint()}


def open_data(recipe: DetectionRecipe, channels: int, progress: Progress | None = None) -> DetectionSplits:
    """Read the annotations and the headers of the images; no image is decoded yet."""
    recipe.check_data_given()
    splits = open_splits(recipe.data, recipe.validation, recipe.format, channels, progress)
    return replace(splits, train=drawn(splits.train, recipe.max_images))


def contents_of(recipe: DetectionRecipe, parts: Collection[Split]) -> Mapping[Split, Contents]:
    """Return the image files of these splits; nothing for generated scenes."""
    splits = open_data(recipe, 3)
    found = {part: Contents.of_named_files(file_names(getattr(splits, part))) for part in parts}
    return {part: contents for part, contents in found.items() if contents is not None}


def build_task(recipe: DetectionRecipe, console: Console) -> DetectionTask:
    """Read the annotations and build the detector."""
    recipe.check_settings()
    device, plan = pick_device(recipe.device), plan_detector(recipe)
    with console.status(f"reading {recipe.data}") as status:

        def show(done: int, of: int) -> None:
            status.update(f"reading {recipe.data}: {done:,} of {of:,} images")

        splits = open_data(recipe, plan.channels, show)
    for line in skipped_lines(splits.skipped):
        console.print(line, highlight=False, markup=False)
    check_masks(plan, splits, recipe.data)
    torch.manual_seed(recipe.seed)
    detector = plan.build(splits.train.classes)
    if plan.weights is None:
        detector.card = replace(detector.card, normalization=measured(splits.train))
    loaded = load_backbone_weights(detector, recipe.backbone_weights)
    print_summary(recipe, plan, detector, splits, loaded, device, console)
    detector.to(device)
    if device.type == "cuda":
        store_channels_last(detector)
    config = detector.card.config
    transform = recipe.augmentation.made(config["min_size"], config["max_size"])
    batches = DetectionBatches(
        cached(splits.train),
        recipe.batch_size,
        detector.card.normalization,
        device,
        transform,
        plan.predicts_masks,
        recipe.passes,
        recipe.pad_multiple,
        recipe.augmentation.color_jitter,
    )
    held = HeldOutObjects(
        replace(batches, source=cached(splits.validation), transform=resizing(detector), color_jitter=0.0),
        detection_loss(detector),
    )
    return DetectionTask(recipe, detector, batches, held, device)
