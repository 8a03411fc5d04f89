"""Evaluation of a pretrained model on its test images."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from patchword.core.device import pick_device
from patchword.data.image.image_format import ImageFormat
from patchword.data.image.images import Images
from patchword.data.skipping import read_with, skipped_lines
from patchword.layers.model import Model
from patchword.recipes.image_pretraining.model import load_model
from patchword.recipes.image_pretraining.recipe import ImagePretrainingRecipe
from patchword.recipes.image_pretraining.reconstruction import METRIC, Examples, HeldOutImages
from patchword.recipes.run_folder import RunFolder

_EXAMPLES = 6


@dataclass(frozen=True)
class ImagePretrainingEvaluation:
    """The test result of a pretrained model, with some reconstructed images. model: the encoder, as it was saved"""

    kind: ClassVar[str] = "image-pretraining"
    model: Model
    measures: dict[str, float]
    images: Images
    examples: Examples
    skipped: Sequence[str] = ()  # lines that name the images that cannot be read

    def lines(self) -> Sequence[str]:
        measures = self.measures
        return [
            *self.skipped,
            f"Test Loss of Masked Pixels: {measures['loss']:.4f}",
            f"Test Loss of the Mean Pixel: {measures['mean_pixel_loss']:.4f}",
            f"Test Error Reduction against the Mean Pixel: {100 * measures[METRIC]:.2f}%",
        ]

    def summary(self) -> dict[str, Any]:
        return {**self.measures, "metric": METRIC, "part": "test"}


def evaluate_pretraining(run: RunFolder, recipe: ImagePretrainingRecipe, device: str) -> ImagePretrainingEvaluation:
    """Reconstruct the test images, which are not trained on, with fixed masks."""
    target = pick_device(device)
    masked = load_model(run).to(target)
    card = masked.card
    images, skipped = read_with(recipe.skip_rule(), lambda: recipe.open_data().read("test", ImageFormat.of(card)))
    held = HeldOutImages.of(images, card.normalization, recipe.mask_ratio, target)
    examples = held.examples(masked, _EXAMPLES)
    return ImagePretrainingEvaluation(run.model(), held.measure(masked), images, examples, skipped_lines(skipped))
