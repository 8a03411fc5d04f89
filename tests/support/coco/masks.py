"""Random masks and polygons, and ours in the form of pycocotools."""

import numpy as np

from patchword.core.masks.run_lengths import RunLengths


def as_coco(mask: RunLengths) -> dict:
    return {"size": [mask.height, mask.width], "counts": mask.to_text().encode()}


def random_masks(rng: np.random.Generator, number: int, height: int, width: int) -> list[np.ndarray]:
    """Boxes with random holes, noise, empty and full masks."""
    found = []
    for index in range(number):
        mask = np.zeros((height, width), dtype=bool)
        y, x = np.sort(rng.integers(0, height + 1, 2)), np.sort(rng.integers(0, width + 1, 2))
        mask[y[0] : y[1], x[0] : x[1]] = True
        if index % 3 == 1:
            mask &= rng.random(mask.shape) < 0.7
        if index % 7 == 5:
            mask |= rng.random(mask.shape) < 0.1
        if index % 11 == 9:
            mask[:] = index % 2 == 0
        found.append(mask)
    return found
