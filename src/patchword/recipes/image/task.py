"""Builds the task of image classification from its recipe."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import torch
from rich.console import Console

from patchword.core.card import Normalization
from patchword.core.device import pick_device, pick_precision
from patchword.core.errors import UserError
from patchword.core.work_sharing import SINGLE, WorkSharing
from patchword.data.faults import Fault, FaultReport, collect_faults
from patchword.data.image.batches import Batch, Batches
from patchword.data.image.image_format import ImageFormat
from patchword.data.image.images import Images
from patchword.data.image.sources import ImageSource
from patchword.data.image.splits import held_out
from patchword.data.progress import Progress
from patchword.data.skipping import read_with, skipped_record
from patchword.fusion.rules import fuse_on_gpu
from patchword.layers.model import Model
from patchword.objectives.class_weights import balanced_weights
from patchword.objectives.classification import Classification
from patchword.objectives.metrics.classification import score
from patchword.recipes.image.checks import sampler_of
from patchword.recipes.image.model import ImageModelPlan, plan_image_model
from patchword.recipes.image.recipe import ImageDataRecipe, ImageRecipe
from patchword.recipes.image.summary import print_summary
from patchword.recipes.notes import print_report
from patchword.recipes.results.calibration import LatestScores
from patchword.training.loop import Validation
from patchword.training.step import Objective, autocast
from patchword.weights import save

EVALUATION_BATCH = 500


@dataclass(frozen=True)
class ImageTask:
    """The task of an image recipe, checked before anything is written."""

    recipe: ImageRecipe
    model: Model
    train: Batches
    held: Batches
    device: torch.device
    unit: str = "images"
    metric: str = "accuracy"
    shapes_change: bool = False
    latest: LatestScores = field(default_factory=LatestScores)
    skipped: Sequence[Fault] = ()

    def steps_per_epoch(self) -> int:
        return self.train.steps_per_epoch()

    def data(self, epoch: int, first: int, group: WorkSharing = SINGLE) -> Iterator[Batch]:
        return self.train.epoch(epoch, self.recipe.seed, self.recipe.augmentation.made(), first, group)

    def objective(self, forward: Callable[[Any], Any]) -> Objective:
        images, weights = self.train.images, None
        if self.recipe.class_weights == "balanced":
            weights = balanced_weights(images.labels.cpu(), len(images.classes)).to(self.device)
        return Classification(forward, self.recipe.label_smoothing, weights)

    def validate(self, group: WorkSharing = SINGLE) -> Validation:
        with autocast(pick_precision(self.recipe.precision, self.device), self.device):
            scores = score(fuse_on_gpu(self.model), self.held.whole(), self.model.card.labels, group)
        self.latest.scores = scores
        return Validation(scores.loss, scores.accuracy, confusion=scores.confusion_rows())

    def save(self, folder: Path) -> None:
        save(self.model, folder)
        self.latest.save(folder)

    def samples(self) -> dict[str, int]:
        return {"training": len(self.train.images), "validation": len(self.held.images)}

    def with_batch_size(self, size: int) -> Self:
        recipe = self.recipe.model_copy(update={"batch_size": size})
        return replace(self, recipe=recipe, train=replace(self.train, size=size))

    def fingerprint(self) -> dict[str, Any]:
        images = self.train.images
        return {
            "name": images.name,
            "samples": len(images),
            "fingerprint": images.fingerprint(),
            **skipped_record(self.skipped),
            "class_counts": images.counts(),
        }


def build_task(recipe: ImageRecipe, console: Console) -> ImageTask:
    """Read the training images and build the model; the test images are not read."""
    device = pick_device(recipe.device)
    with console.status(f"reading {recipe.data}") as status:

        def show(done: int, of: int) -> None:
            status.update(f"reading {recipe.data}: {done:,} of {of:,} images")

        plan, source, images, report = read_checked(recipe, show)
    print_report(report, console)
    classes = int(recipe.model.overrides().get("classes", len(images.classes)))
    labels = images.classes[:classes] + tuple(f"unused {index}" for index in range(len(images.classes), classes))
    images = replace(images, classes=labels)  # fewer classes than labels is an error
    train, validation = split(source, images, recipe, plan.format)
    torch.manual_seed(recipe.seed)
    model = plan.build(labels)
    if plan.weights is None:
        model.card = replace(model.card, normalization=measured(train))
    print_summary(recipe, plan, model, (train, validation), device, console, len(report.skipped))
    normalization = model.card.normalization
    return ImageTask(
        recipe,
        model.to(device),
        Batches(train, recipe.batch_size, normalization, device, sampler_of(recipe, train)).on_device(),
        Batches(validation, EVALUATION_BATCH, normalization, device).on_device(),
        device,
        skipped=report.skipped,
    )


def read_checked(
    recipe: ImageDataRecipe, progress: Progress
) -> tuple[ImageModelPlan, ImageSource, Images, FaultReport]:
    """Return the model, the source, its training images and a report with skipped images and possible mistakes; raise
    one error that lists all faults of the data."""
    with collect_faults(recipe.skip_rule()) as report:
        source = recipe.open_data()
        plan = plan_image_model(recipe.model, source)
        images = report.attempt(source.read, "train", plan.format, progress)
        report.attempt(source.check, plan.format)
    if images is None:
        raise AssertionError("one_report raises an error for missing parts")  # never reached
    return plan, source, images, report


def split(source: ImageSource, images: Images, recipe: ImageDataRecipe, format: ImageFormat) -> tuple[Images, Images]:
    """Split the training images from the validation images: those of the source, or some of each class."""
    if source.has_validation:
        return images, read_with(recipe.skip_rule(), source.read, "validation", format)[0].with_classes(images.classes)
    aside = held_out(images.labels, images.keys, recipe.validation)
    if not aside.any():
        raise UserError(
            f"{images.name} has too few images to keep any for validation", expected="two or more of some class"
        )
    return images.subset((~aside).nonzero()[:, 0]), images.subset(aside.nonzero()[:, 0])


def measured(images: Images) -> Normalization:
    """Return mean and standard deviation per channel, over at most 4,096 evenly spaced training images."""
    sample = torch.arange(0, len(images), -(-len(images) // 4096))
    mean = squares = torch.zeros(1, dtype=torch.float64)
    for part in sample.split(64):
        pixels = images.pixels.take(part).double() / 255
        mean = mean + pixels.mean((2, 3)).sum(0) / len(sample)
        squares = squares + pixels.square().mean((2, 3)).sum(0) / len(sample)
    std = (squares - mean.square()).clamp(min=0).sqrt().clamp(min=1e-3)
    return Normalization(tuple(round(value, 4) for value in mean.tolist()), tuple(round(v, 4) for v in std.tolist()))
