"""Builds the task of masked image modelling from its recipe."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import torch
from rich.console import Console

from patchword.core.device import pick_device, pick_precision, to_device
from patchword.core.errors import UserError
from patchword.core.work_sharing import SINGLE, WorkSharing
from patchword.data.faults import Fault
from patchword.data.image.batches import Batches
from patchword.data.image.images import Images
from patchword.data.image.patch_masks import masked_count, training_masks
from patchword.data.skipping import skipped_record
from patchword.models import REGISTRY
from patchword.objectives.masked_image import MaskedImageModel, MaskedPixels
from patchword.recipes.image.model import ImageModelPlan
from patchword.recipes.image.summary import skipped_line
from patchword.recipes.image.task import measured, read_checked, split
from patchword.recipes.image_pretraining.batches import MaskedImageBatch
from patchword.recipes.image_pretraining.model import PretrainedModel, build_model, check_family
from patchword.recipes.image_pretraining.recipe import ImagePretrainingRecipe
from patchword.recipes.image_pretraining.reconstruction import METRIC, HeldOutImages
from patchword.recipes.notes import print_report
from patchword.training.loop import Validation
from patchword.training.step import Objective


@dataclass(frozen=True)
class ImagePretrainingTask:
    """The task of a recipe of masked image modelling, checked before anything is written."""

    recipe: ImagePretrainingRecipe
    pretrained: PretrainedModel
    train: Batches
    held: HeldOutImages
    device: torch.device
    unit: str = "images"
    metric: str = METRIC
    shapes_change: bool = False
    skipped: Sequence[Fault] = ()

    @property
    def model(self) -> MaskedImageModel:
        return self.pretrained.masked

    @property
    def patches(self) -> int:
        """The number of patches per image."""
        return patches_of(self.model, self.train.images)

    def steps_per_epoch(self) -> int:
        return self.train.steps_per_epoch()

    def data(self, epoch: int, first: int, group: WorkSharing = SINGLE) -> Iterator[MaskedImageBatch]:
        """Yield the batches of an epoch. The mask of an image depends on (seed, epoch, sample) only."""
        recipe = self.recipe
        for batch in self.train.epoch(epoch, recipe.seed, recipe.augmentation.made(), first, group):
            samples = to_device(batch.samples, self.device)
            mask = training_masks(samples, self.patches, recipe.mask_ratio, recipe.seed, epoch)
            yield MaskedImageBatch(batch.inputs, mask, batch.samples)

    def objective(self, forward: Callable[[Any], Any]) -> Objective:
        return MaskedPixels(forward, self.model.patch)

    def validate(self, group: WorkSharing = SINGLE) -> Validation:
        precision = pick_precision(self.recipe.precision, self.device)
        measures = self.held.measure(self.model, precision, group)
        return Validation(measures.pop("loss"), measures.pop(METRIC), measures)

    def save(self, folder: Path) -> None:
        self.pretrained.save(folder)

    def samples(self) -> dict[str, int]:
        return {"training": len(self.train.images), "validation": len(self.held.batches.images)}

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
        }


def build_task(recipe: ImagePretrainingRecipe, console: Console) -> ImagePretrainingTask:
    """Read the training images and build the model; the test images are not read."""
    device = pick_device(recipe.device)
    if recipe.model.name in REGISTRY.names():
        check_family(recipe.model.name)  # before the images are read
    with console.status(f"reading {recipe.data}") as status:

        def show(done: int, of: int) -> None:
            status.update(f"reading {recipe.data}: {done:,} of {of:,} images")

        plan, source, images, report = read_checked(recipe, show)
    print_report(report, console)
    check_family(plan.name)
    train, validation = split(source, images, recipe, plan.format)
    torch.manual_seed(recipe.seed)
    pretrained = build_model(plan)
    if plan.weights is None:
        for model in (pretrained.masked, pretrained.classifier):
            model.card = replace(model.card, normalization=measured(train))
    if patches_of(pretrained.masked, train) < 2:
        raise UserError("masked image modelling needs two or more patches per image", hint="set a smaller model.patch")
    print_summary(recipe, plan, pretrained.masked, (train, validation), device, console, len(report.skipped))
    normalization = pretrained.masked.card.normalization
    pretrained.masked.to(device)
    return ImagePretrainingTask(
        recipe,
        pretrained,
        Batches(train, recipe.batch_size, normalization, device).on_device(),
        HeldOutImages.of(validation, normalization, recipe.mask_ratio, device),
        device,
        skipped=report.skipped,
    )


def patches_of(model: MaskedImageModel, images: Images) -> int:
    """Return the number of patches of an image."""
    return model.stage.stem.grid(*images.pixels.shape[1:]).tokens


def print_summary(
    recipe: ImagePretrainingRecipe,
    plan: ImageModelPlan,
    model: MaskedImageModel,
    splits: tuple[Images, Images],
    device: torch.device,
    console: Console,
    skipped: int = 0,
) -> None:
    """Print the model, its weights, the input, the masks, the data and the device."""
    (train, validation), (height, width) = splits, plan.format.sides
    patches = patches_of(model, train)
    lines = [
        f"model    {plan.name}, {sum(parameter.numel() for parameter in model.parameters()):,} parameters",
        f"weights  {'random: training starts from scratch' if plan.path is None else plan.path}",
        f"input    {height} x {width} pixels, {'grey' if plan.format.channels == 1 else 'colour'}",
        f"masks    {masked_count(patches, recipe.mask_ratio)} of {patches} patches per image",
        f"data     {train.name}: {len(train):,} images for training, {len(validation):,} for validation; "
        "labels are not used",
        *skipped_line(skipped),
        f"device   {device}, {pick_precision(recipe.precision, device)}",
    ]
    if plan.drops_color:
        lines.append("note: the images have colours, but the model reads grey ones, so colours are lost")
    for line in lines:
        console.print(line, highlight=False, markup=False)
