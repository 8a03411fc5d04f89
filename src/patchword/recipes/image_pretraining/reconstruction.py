"""Measures how well a model reconstructs held-out images, whose masks are fixed."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from patchword.core.card import Normalization
from patchword.core.device import to_device
from patchword.core.grid import Size, sides
from patchword.core.work_sharing import SINGLE, WorkSharing
from patchword.data.augmentation.augmentation import normalize
from patchword.data.image.batches import Batch, Batches
from patchword.data.image.images import Images
from patchword.data.image.patch_masks import fixed_masks
from patchword.layers.convolution.stem import cut_patches, join_patches
from patchword.objectives.masked_image import MaskedImageModel, MaskedImages, masked_errors
from patchword.recipes.image.task import EVALUATION_BATCH, measured
from patchword.training.step import autocast

METRIC = "error_reduction"  # 1 - loss / loss of the mean pixel


class Examples(NamedTuple):
    """Some images, (count, channels, height, width) uint8. reconstructed: masked patches are those of the model."""

    original: Tensor
    masked: Tensor
    reconstructed: Tensor


@dataclass(frozen=True)
class HeldOutImages:
    """Images that are not trained on. mean_pixel: of these images, per channel; predicting it is the baseline."""

    batches: Batches
    mean_pixel: tuple[float, ...]
    mask_ratio: float

    @staticmethod
    def of(images: Images, normalization: Normalization, mask_ratio: float, device: torch.device) -> "HeldOutImages":
        batches = Batches(images, EVALUATION_BATCH, normalization, device).on_device()
        return HeldOutImages(batches, measured(images).mean, mask_ratio)

    @torch.inference_mode()
    def measure(
        self, model: MaskedImageModel, precision: str = "float32", group: WorkSharing = SINGLE
    ) -> dict[str, float]:
        """Return the loss of masked pixels, that of predicting the mean pixel, and the error reduction."""

        def ask(batch: Batch) -> tuple[Tensor]:
            inputs = self._masked(batch, model)
            with autocast(precision, self.batches.device):
                predicted = model(inputs)
            pair = predicted, self._baseline(batch, model.patch)
            sums = [float(masked_errors(guess, inputs, model.patch).sum()) for guess in pair]
            return (torch.tensor([*sums, batch.weight], dtype=torch.float64),)

        answers = group.map(ask, self.batches.whole())
        loss, baseline, count = torch.stack([answer for (answer,) in answers]).sum(0).tolist()
        return {"loss": loss / count, "mean_pixel_loss": baseline / count, METRIC: 1 - loss / max(baseline, 1e-12)}

    @torch.inference_mode()
    def examples(self, model: MaskedImageModel, count: int) -> Examples:
        """Return evenly spaced images, masked and reconstructed. Masked patches show the mean pixel."""
        images = self.batches.images
        chosen = images.subset(torch.arange(0, len(images), max(1, len(images) // count))[:count])
        batch = replace(self.batches, images=chosen).whole()[0]
        inputs = self._masked(batch, model)
        own, grid = cut_patches(batch.inputs, model.patch), model.stage.stem.grid(*batch.inputs.shape[2:])
        masked, reconstructed = (
            join_patches(torch.where(inputs.mask[..., None], guess, own), model.patch, grid)
            for guess in (self._baseline(batch, model.patch), model(inputs))
        )
        return Examples(*(self._pixels(images) for images in (batch.inputs, masked, reconstructed)))

    def _masked(self, batch: Batch, model: MaskedImageModel) -> MaskedImages:
        samples = to_device(batch.samples, self.batches.device)
        patches = model.stage.stem.grid(*batch.inputs.shape[2:]).tokens
        return MaskedImages(batch.inputs, fixed_masks(samples, patches, self.mask_ratio))

    def _baseline(self, batch: Batch, patch: Size) -> Tensor:
        """Return the mean pixel as a predicted patch, (1, 1, channels * patch * patch)."""
        pixel = 255 * torch.tensor(self.mean_pixel, device=batch.device).view(1, -1, 1, 1)
        return cut_patches(normalize(pixel, self.batches.normalization).expand(-1, -1, *sides(patch)), patch)

    def _pixels(self, inputs: Tensor) -> Tensor:
        """The inverse of `normalize`: normalized images -> uint8"""
        card = self.batches.normalization
        mean, std = (torch.tensor(part, device=inputs.device).view(1, -1, 1, 1) for part in (card.mean, card.std))
        return ((inputs * std + mean) * 255).round().clamp(0, 255).to(torch.uint8)
