"""Segments images of any size: whole or in sliding windows, at several scales, with mirrored copies."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from patchword.core.card import Card
from patchword.data.augmentation.augmentation import normalize
from patchword.data.segmentation.transforms.label_transforms import base_size, resized_pixels, scaled_size
from patchword.layers.dense.segmentation.pixel_logits import LogitRows, PixelLogits, ResizedLogits, Size, strips
from patchword.layers.dense.segmentation.segmenter import Segmenter
from patchword.recipes.segmentation.recipe import SegmentationRecipe
from patchword.recipes.segmentation.sliding import slide
from patchword.training.step import autocast


@dataclass(frozen=True)
class InferenceOptions:
    """How images are segmented.

    slide: in windows of `window` pixels, which overlap by a third; else at once. scales: factors of the image size.
    flip: also mirrored. min_size, max_size: shorter side, and maximum of the longer one, before scaling; min_size 0
    keeps the size of the image. batch_size: windows that are computed together. square: side in pixels that images are
    stretched to before scaling, instead of min_size; 0: they are not.
    """

    slide: bool = False
    window: int = 512
    scales: tuple[float, ...] = (1.0,)
    flip: bool = False
    min_size: int = 0
    max_size: int = 2048
    batch_size: int = 8
    square: int = 0

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


def card_options(card: Card) -> InferenceOptions:
    """Return how a model without a recipe segments images: in their own size, or as its file asks for."""
    crop = int(card.config["crop"])
    return InferenceOptions(window=crop, batch_size=1, square=crop if card.resize.mode == "stretch" else 0)


@dataclass(frozen=True, eq=False)
class ImageViews:
    """The logits of images at several scales and mirrored, each resized to the images when rows are asked for.

    logits, mirrored: one per view. size: height and width of the images. values: of one row of the largest view.
    """

    logits: tuple[LogitRows, ...]
    mirrored: tuple[bool, ...]
    size: Size
    values: int

    def strips(self) -> Iterator[tuple[int, int]]:
        """Yield start and stop of strips of rows that fit in memory."""
        return strips(self.size[0], self.values)

    def answer(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """Return probabilities (batch, classes, rows, width) and classes (batch, rows, width) of rows start to stop.

        The probabilities are averaged over the views. The class of a single view is that of its largest logit. Strips
        have the logits of the whole bit by bit; the last bit of a probability may differ, as torch rounds by place.
        """
        first = self._rows(0, start, stop)
        found = first.softmax(1)
        if len(self.logits) == 1:
            return found, first.argmax(1)
        for number in range(1, len(self.logits)):
            found += self._rows(number, start, stop).softmax(1)
        return found.div_(len(self.logits)), found.argmax(1)

    def classes(self) -> Tensor:
        """Return the class of each pixel: (batch, height, width), uint8 on the host."""
        parts = [self._classes(*strip).to("cpu", torch.uint8) for strip in self.strips()]
        return torch.cat(parts, dim=1)

    def _classes(self, start: int, stop: int) -> Tensor:
        single = len(self.logits) == 1  # needs no probabilities
        return self._rows(0, start, stop).argmax(1) if single else self.answer(start, stop)[1]

    def _rows(self, number: int, start: int, stop: int) -> Tensor:
        rows = ResizedLogits(self.logits[number], self.size).rows(start, stop)
        return rows.flip(-1) if self.mirrored[number] else rows


@torch.inference_mode()
def compute_views(
    segmenter: Segmenter, images: Tensor, options: InferenceOptions = PLAIN, precision: str = "float32"
) -> ImageViews:
    """Return the logits of images (batch, channels, height, width), uint8, at all scales, in the size of the maps."""
    device = next(segmenter.parameters()).device
    size = (int(images.shape[2]), int(images.shape[3]))
    square = (options.square, options.square)
    base = square if options.square else base_size(size, options.min_size, options.max_size)
    found: list[LogitRows] = []
    flips = (False, True)[: 1 + options.flip]
    for scale in options.scales:
        pixels = resized_pixels(images, *scaled_size(base, scale)).to(device)
        found += [_logits(segmenter, pixels.flip(-1) if flip else pixels, options, precision) for flip in flips]
    largest = max(1.0, *(one.size[0] * one.size[1] / (size[0] * size[1]) for one in found))
    values = int(len(images) * int(segmenter.card.config["classes"]) * size[1] * largest)
    return ImageViews(tuple(found), flips * len(options.scales), size, values)


@torch.inference_mode()
def predict_label_maps(
    segmenter: Segmenter, images: Sequence[Tensor], options: InferenceOptions = PLAIN, precision: str = "float32"
) -> list[Tensor]:
    """Return the class of each pixel, (height, width) uint8 on the host, of images (channels, height, width), uint8."""
    found: dict[int, Tensor] = {}
    for places in by_size([(int(one.shape[1]), int(one.shape[2])) for one in images], options.batch_size):
        views = compute_views(segmenter, torch.stack([images[place] for place in places]), options, precision)
        found.update(zip(places, views.classes(), strict=True))
    return [found[place] for place in range(len(images))]


def by_size(sizes: Sequence[Size], most: int) -> Iterator[list[int]]:
    """Yield the places of images of equal sizes, at most `most` together."""
    groups: dict[Size, list[int]] = {}
    for place, size in enumerate(sizes):
        groups.setdefault(size, []).append(place)
    for places in groups.values():
        yield from (places[start : start + most] for start in range(0, len(places), most))


def _logits(segmenter: Segmenter, pixels: Tensor, options: InferenceOptions, precision: str) -> LogitRows:
    """Normalize images and return their logits: of the whole images, or of sliding windows."""

    def compute(some: Tensor) -> PixelLogits:
        with autocast(precision, some.device):
            return segmenter.pixel_logits(normalize(some, segmenter.card.normalization))

    if not options.slide:
        return compute(pixels)
    return slide(pixels, options.window, options.stride, max(1, options.batch_size // len(pixels)), compute)
