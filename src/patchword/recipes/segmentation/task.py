"""Builds the task of semantic segmentation from its recipe."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import torch
from rich.console import Console

from patchword.core.device import pick_device, pick_precision
from patchword.core.files import write_json
from patchword.core.work_sharing import SINGLE, WorkSharing
from patchword.data.detection.wrapping import file_names
from patchword.data.image.splits import Split
from patchword.data.progress import Progress
from patchword.data.sample_digests import Contents
from patchword.data.segmentation.batches import LabelBatch, LabelBatches
from patchword.data.segmentation.sources import cached, drawn
from patchword.data.segmentation.splits import SegmentationSplits, open_splits
from patchword.data.skipping import skipped_lines
from patchword.layers.dense.segmentation.segmenter import Segmenter
from patchword.objectives.segmentation.loss import SegmentationLoss, segmentation_loss
from patchword.recipes.dense.backbones import load_backbone_weights
from patchword.recipes.dense.memory_format import store_channels_last
from patchword.recipes.dense.normalization import measured
from patchword.recipes.segmentation.inference import inference_options
from patchword.recipes.segmentation.measuring import METRIC, HeldOutLabels
from patchword.recipes.segmentation.model import check_micro_batches, plan_segmenter
from patchword.recipes.segmentation.objective import SegmentationObjective
from patchword.recipes.segmentation.recipe import SegmentationRecipe
from patchword.recipes.segmentation.summary import print_summary
from patchword.training.loop import Validation
from patchword.training.step import Objective
from patchword.weights import save

COLORS = "colors.json"
"""The colours of the classes in the label maps, beside the weights; only where the label maps have colours."""


@dataclass(frozen=True)
class SegmentationTask:
    """The task of a segmentation recipe, checked before anything is written."""

    recipe: SegmentationRecipe
    model: Segmenter
    train: LabelBatches
    held: HeldOutLabels
    device: torch.device
    unit: str = "images"
    metric: str = METRIC
    shapes_change: bool = False

    def steps_per_epoch(self) -> int:
        return self.train.steps_per_epoch()

    def data(self, epoch: int, first: int, group: WorkSharing = SINGLE) -> Iterator[LabelBatch]:
        return self.train.epoch(epoch, self.recipe.seed, first, group)

    def objective(self, forward: Callable[[Any], Any]) -> Objective:
        return SegmentationObjective(self.model, loss_of(self.recipe, self.model))

    def validate(self, group: WorkSharing = SINGLE) -> Validation:
        return self.held.validate(self.model, pick_precision(self.recipe.precision, self.device), group)

    def save(self, folder: Path) -> None:
        save(self.model, folder)
        if colors := self.train.source.colors:
            write_json(folder / COLORS, [list(color) for color in colors])

    def samples(self) -> dict[str, int]:
        return {"training": len(self.train.source), "validation": len(self.held.source)}

    def with_batch_size(self, size: int) -> Self:
        recipe = self.recipe.model_copy(update={"batch_size": size})
        return replace(self, recipe=recipe, train=replace(self.train, size=size))

    def fingerprint(self) -> dict[str, Any]:
        source = self.train.source
        return {"name": source.name, "samples": len(source), "fingerprint": source.fingerprint()}


def loss_of(recipe: SegmentationRecipe, segmenter: Segmenter) -> SegmentationLoss:
    """Return the loss of a segmenter with the mean that the recipe asks for."""
    return replace(segmentation_loss(segmenter), mean=recipe.loss_mean)


def open_data(recipe: SegmentationRecipe, channels: int, progress: Progress | None = None) -> SegmentationSplits:
    """Read the label maps and the headers of the images."""
    recipe.check_data_given()
    splits = open_splits(recipe.data, recipe.validation, recipe.format, recipe.ignored, channels, progress)
    return replace(splits, train=drawn(splits.train, recipe.max_images))


def contents_of(recipe: SegmentationRecipe, parts: Collection[Split]) -> Mapping[Split, Contents]:
    """Return the image files of these splits; nothing for generated scenes."""
    splits = open_data(recipe, 3)
    found = {part: Contents.of_named_files(file_names(getattr(splits, part))) for part in parts}
    return {part: contents for part, contents in found.items() if contents is not None}


def build_task(recipe: SegmentationRecipe, console: Console) -> SegmentationTask:
    """Read the label maps and build the segmenter."""
    recipe.check_settings()
    device, plan = pick_device(recipe.device), plan_segmenter(recipe)
    with console.status(f"reading {recipe.data}") as status:

        def show(done: int, of: int) -> None:
            status.update(f"reading {recipe.data}: {done:,} of {of:,} label maps")

        splits = open_data(recipe, plan.channels, show)
    for line in skipped_lines(splits.skipped):
        console.print(line, highlight=False, markup=False)
    torch.manual_seed(recipe.seed)
    segmenter = plan.build(splits.train.classes)
    check_micro_batches(recipe, segmenter, len(splits.train))
    if plan.weights is None:
        segmenter.card = replace(segmenter.card, normalization=measured(splits.train))
    loaded = load_backbone_weights(segmenter, recipe.backbone_weights)
    print_summary(recipe, plan, segmenter, splits, loaded, device, console)
    segmenter.to(device)
    if device.type == "cuda":
        store_channels_last(segmenter)
    batches = LabelBatches(
        cached(splits.train),
        recipe.batch_size,
        segmenter.card.normalization,
        device,
        recipe.augmentation.made(recipe.crop, recipe.min_size, recipe.max_size),
        recipe.crop,
        recipe.passes,
        recipe.augmentation.color_jitter,
    )
    held = HeldOutLabels(cached(splits.validation), recipe.batch_size, inference_options(recipe))
    return SegmentationTask(recipe, segmenter, batches, held, device)
