"""Random samples whose boxes are those of their masks."""

import numpy as np
import torch

from patchword.data.detection.samples import Sample
from patchword.data.detection.transforms.geometry import mask_boxes


def random_sample(seed: int, objects: int = 5, height: int = 70, width: int = 90, masks: bool = True) -> Sample:
    """Noise with rounded rectangles as objects; one of them is a crowd.

    The tip of an ellipse is thinner than a pixel after a resize, so its box and its mask would differ by more."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width] + 0.5
    found = []
    for _ in range(objects):
        center, radius = rng.uniform(8, (width - 8, height - 8)), rng.uniform(3, 25, 2)
        found.append(((x - center[0]) / radius[0]) ** 4 + ((y - center[1]) / radius[1]) ** 4 < 1)
    shapes = torch.from_numpy(np.array(found, dtype=bool).reshape(-1, height, width))
    return Sample(
        torch.from_numpy(rng.integers(0, 256, (3, height, width), dtype=np.uint8)),
        mask_boxes(shapes),
        torch.from_numpy(rng.integers(0, 9, objects)),
        torch.arange(objects) == 3,
        shapes if masks else None,
        (height, width),
    )
