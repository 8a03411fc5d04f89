"""Segments images of any size: whole or in sliding windows, at several scales, with mirrored copies."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.core.card import Normalization
from patchword.data.augmentation.augmentation import normalize
from patchword.data.segmentation.transforms.label_transforms import base_size, resized_pixels, scaled_size
from patchword.layers.dense.segmentation.segmenter import Segmenter
from patchword.recipes.segmentation.recipe import SegmentationRecipe
from patchword.training.step import autocast

Size = tuple[int, int]


@dataclass(frozen=True)
class InferenceOptions:
    """How images are segmented.

    slide: in windows of `window` pixels, which overlap by a third; else at once. scales: factors of the image size.
    flip: also mirrored. min_size, max_size: shorter side, and maximum of the longer one, before scaling; min_size 0
    keeps the size of the image. batch_size: windows that are computed together.
    """

    slide: bool = False
    window: int = 512
    scales: tuple[float, ...] = (1.0,)
    flip: bool = False
    min_size: int = 0
    max_size: int = 2048
    batch_size: int = 8

    @property
    def stride(self) -> int:
        """Distance of two windows: two thirds of their side, rounded down."""
        return max(1, self.window * 2 // 3)


PLAIN = InferenceOptions()


def inference_options(recipe: SegmentationRecipe) -> InferenceOptions:
    """Return how a recipe tests."""
    return InferenceOptions(
        recipe.test == "slide",
        recipe.crop,
        recipe.test_scales,
        recipe.test_flip,
        recipe.min_size,
        recipe.max_size,
        recipe.batch_size,
    )


@torch.inference_mode()
def probabilities(
    segmenter: Segmenter, images: Tensor, options: InferenceOptions = PLAIN, precision: str = "float32"
) -> Tensor:
    """Return the probability of each class in each pixel: (batch, classes, height, width), float32.

    images: (batch, channels, height, width) uint8, all of one size. Each scale gives logits, which are enlarged to the
    size of the images; their probabilities are averaged over the scales and the mirrored copies.
    """
    device = next(segmenter.parameters()).device
    size = (int(images.shape[2]), int(images.shape[3]))
    base = base_size(size, options.min_size, options.max_size)
    summed: Tensor | None = None
    for scale in options.scales:
        pixels = resized_pixels(images, *scaled_size(base, scale)).to(device)
        for mirrored in (False, True)[: 1 + options.flip]:
            given = pixels.flip(-1) if mirrored else pixels
            logits = _enlarged(_logits(segmenter, given, options, precision), size)
            found = (logits.flip(-1) if mirrored else logits).softmax(1)
            summed = found if summed is None else summed + found
    assert summed is not None, "there is at least one scale"
    return summed / (len(options.scales) * (1 + options.flip))


@torch.inference_mode()
def segment_images(
    segmenter: Segmenter, images: Sequence[Tensor], options: InferenceOptions = PLAIN, precision: str = "float32"
) -> list[Tensor]:
    """Return the class of each pixel, (height, width) uint8 on the host, of images (channels, height, width), uint8."""
    found: dict[int, Tensor] = {}
    for places in by_size([(int(one.shape[1]), int(one.shape[2])) for one in images], options.batch_size):
        batch = torch.stack([images[place] for place in places])
        classes = probabilities(segmenter, batch, options, precision).argmax(1).to("cpu", torch.uint8)
        found.update(zip(places, classes, strict=True))
    return [found[place] for place in range(len(images))]


def by_size(sizes: Sequence[Size], most: int) -> Iterator[list[int]]:
    """Yield the places of images of equal sizes, at most `most` together."""
    groups: dict[Size, list[int]] = {}
    for place, size in enumerate(sizes):
        groups.setdefault(size, []).append(place)
    for places in groups.values():
        yield from (places[start : start + most] for start in range(0, len(places), most))


def _logits(segmenter: Segmenter, pixels: Tensor, options: InferenceOptions, precision: str) -> Tensor:
    """Return logits in the size of the pixels. Where windows overlap, their logits are averaged."""
    normalization = segmenter.card.normalization
    if not options.slide:
        return _of_window(segmenter, pixels, normalization, precision)
    height, width = int(pixels.shape[2]), int(pixels.shape[3])
    places = [
        (top, left)
        for top in window_places(height, options.window, options.stride)
        for left in window_places(width, options.window, options.stride)
    ]
    rows, columns = min(options.window, height), min(options.window, width)
    together = max(1, options.batch_size // len(pixels))
    summed: Tensor | None = None
    counts = pixels.new_zeros(height, width, dtype=torch.float32)
    for start in range(0, len(places), together):
        some = places[start : start + together]
        windows = torch.cat([pixels[:, :, top : top + rows, left : left + columns] for top, left in some])
        logits = _of_window(segmenter, windows, normalization, precision)
        if summed is None:
            summed = logits.new_zeros(len(pixels), logits.shape[1], height, width)
        for (top, left), own in zip(some, logits.split(len(pixels)), strict=True):
            summed[:, :, top : top + rows, left : left + columns] += own
            counts[top : top + rows, left : left + columns] += 1
    assert summed is not None, "there is at least one window"
    return summed / counts


def window_places(length: int, window: int, stride: int) -> list[int]:
    """Return where windows start along one axis; the last window ends with the image."""
    number = max(length - window + stride - 1, 0) // stride + 1
    return [max(0, min(place * stride, length - window)) for place in range(number)]


def _of_window(segmenter: Segmenter, pixels: Tensor, normalization: Normalization, precision: str) -> Tensor:
    """Normalize and return float32 logits in the size of the pixels."""
    with autocast(precision, pixels.device):
        logits = segmenter.pixel_logits(normalize(pixels, normalization))
    return logits.enlarged()


def _enlarged(logits: Tensor, size: Size) -> Tensor:
    if (int(logits.shape[2]), int(logits.shape[3])) == size:
        return logits
    return F.interpolate(logits, size, mode="bilinear", align_corners=False)
