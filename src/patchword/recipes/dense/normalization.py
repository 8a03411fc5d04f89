"""Mean and standard deviation of the pixels of training images."""

import torch

from patchword.core.card import Normalization
from patchword.data.detection.sources import DetectionSource
from patchword.data.segmentation.sources import SegmentationSource

_IMAGES = 256  # evenly spaced images that are read


def measured(source: DetectionSource | SegmentationSource) -> Normalization:
    """Return mean and standard deviation per channel, over at most 256 evenly spaced training images."""
    means, squares = [], []
    for index in range(0, len(source), -(-len(source) // _IMAGES)):
        pixels = source.sample(index).pixels.double() / 255
        means.append(pixels.mean((1, 2)))
        squares.append(pixels.square().mean((1, 2)))
    mean, square = torch.stack(means).mean(0), torch.stack(squares).mean(0)
    std = (square - mean.square()).clamp(min=0).sqrt().clamp(min=1e-3)
    return Normalization(tuple(round(value, 4) for value in mean.tolist()), tuple(round(v, 4) for v in std.tolist()))
