"""What an image run is about to do, printed before its first step."""

from collections.abc import Iterator

import torch
from rich.console import Console

from patchword.core.device import pick_precision
from patchword.core.grid import Size, sides
from patchword.data.image.images import Images
from patchword.layers.model import Model
from patchword.objectives.class_weights import imbalance_hint
from patchword.recipes.image.model import ImageModelPlan
from patchword.recipes.image.recipe import ImageRecipe

HIGH_RATE = 5e-4  # above it, trained weights change so much that they hardly help


def print_summary(
    recipe: ImageRecipe,
    plan: ImageModelPlan,
    model: Model,
    splits: tuple[Images, Images],
    device: torch.device,
    console: Console,
    skipped: int = 0,
) -> None:
    """Print the model, its weights, the input, the data, the device, and settings that are probably a mistake."""
    lines = [
        *_summary(plan, model, *splits),
        *skipped_line(skipped),
        f"device   {device}, {pick_precision(recipe.precision, device)}",
        *(f"note: {note}" for note in _notes(recipe, plan, splits[0])),
    ]
    for line in lines:
        console.print(line, highlight=False, markup=False)


def _summary(plan: ImageModelPlan, model: Model, train: Images, validation: Images) -> Iterator[str]:
    parameters = sum(parameter.numel() for parameter in model.parameters())
    yield f"model    {plan.name}, {parameters:,} parameters"
    yield f"weights  {_weights(plan, model.card.labels)}"
    yield f"input    {_pixels(plan.format.size)} pixels, {'grey' if plan.format.channels == 1 else 'colour'}"
    held = f"{len(validation):,} for validation"
    yield f"data     {train.name}: {len(train):,} images for training, {held}, {len(train.classes):,} classes"


def skipped_line(skipped: int) -> list[str]:
    """Return the line of a summary that counts the faulty images of all splits."""
    return [f"skipped  {skipped:,} faulty {'image' if skipped == 1 else 'images'}"] if skipped else []


def _weights(plan: ImageModelPlan, labels: tuple[str, ...]) -> str:
    if plan.weights is None:
        return "random: training starts from scratch"
    was = plan.weights.card.config
    text = f"{plan.path}; " + ("its head is kept" if plan.keeps_head(labels) else f"new head for {len(labels)} classes")
    if sides(was["image"]) != plan.format.sides:
        text += f"; position tables resized from {_pixels(was['image'])} pixels"
    return text


def _notes(recipe: ImageRecipe, plan: ImageModelPlan, train: Images) -> Iterator[str]:
    if not recipe.balances_classes() and (hint := imbalance_hint(train.counts(), "training images")):
        yield hint
    if plan.drops_color:
        yield "the images have colours, but the model reads grey ones, so colours are lost"
    if plan.weights is not None and recipe.learning_rate > HIGH_RATE:
        yield (
            f"learning_rate={recipe.learning_rate:g} is high for trained weights: 1e-5 to 3e-4 is usual "
            "(recipe finetune-images)"
        )


def _pixels(size: Size) -> str:
    height, width = sides(size)
    return f"{height} x {width}"
