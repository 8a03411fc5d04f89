"""Runs a detector on images of any size; detections are in pixels of the original image."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from patchword.core.geometry.objects import Detections
from patchword.core.masks.run_lengths import RunLengths
from patchword.data.detection.collate import collate, normalize_padded
from patchword.data.detection.samples import Sample
from patchword.data.detection.transforms.draws import SampleDraws
from patchword.data.detection.transforms.geometry import ResizeShorter
from patchword.layers.dense.detector import Detector
from patchword.layers.dense.mask_paste import paste_binary_masks
from patchword.objectives.metrics.detection.records import ImageDetections
from patchword.training.step import autocast

Size = tuple[int, int]


@torch.inference_mode()
def detect_images(
    detector: Detector, images: Sequence[Tensor], batch_size: int = 8, precision: str = "float32"
) -> list[ImageDetections]:
    """Detect the objects of images (channels, height, width), uint8, on the device of the detector.

    The images are resized as the detector's card says. Boxes and masks are in pixels of the given images.
    """
    device, found = next(detector.parameters()).device, list[ImageDetections]()
    resize = resizing(detector)
    for start in range(0, len(images), batch_size):
        samples = [
            resize(_without_objects(image), SampleDraws(0, 0, 0)) for image in images[start : start + batch_size]
        ]
        pixels, targets = collate(samples)
        inside = targets.sizes.to(device)
        inputs = normalize_padded(pixels.to(device), inside, detector.card.normalization)
        with autocast(precision, device):
            detections = detector(inputs, inside)
        sizes = [(int(image.shape[1]), int(image.shape[2])) for image in images[start : start + batch_size]]
        found += at_original_size(detections, sizes)
    return found


def resizing(detector: Detector) -> ResizeShorter:
    """Return the transform that resizes a sample as the detector expects it."""
    config = detector.card.config
    return ResizeShorter((config["min_size"],), config["max_size"])


def at_original_size(detections: Detections, sizes: Sequence[Size]) -> list[ImageDetections]:
    """Return the detections per image, on the host. sizes: height and width of the original images."""
    original = torch.tensor(sizes, dtype=torch.float32, device=detections.boxes.device)
    scale = (original / detections.sizes).flip(1).repeat(1, 2)[:, None]
    limits = original.flip(1).repeat(1, 2)[:, None]
    boxes = torch.minimum((detections.boxes.float() * scale).clamp(min=0), limits)
    return [_one_image(detections, boxes[index], index, size) for index, size in enumerate(sizes)]


def _one_image(detections: Detections, boxes: Tensor, index: int, size: Size) -> ImageDetections:
    valid = detections.valid[index]
    boxes = boxes[valid]
    masks = None
    if detections.masks is not None:
        masks = list(_pasted(detections.masks[index][valid].float(), boxes, size))
    return ImageDetections(
        boxes.double().cpu().numpy(),
        detections.labels[index][valid].cpu().numpy(),
        detections.scores[index][valid].double().cpu().numpy(),
        masks,
    )


def _pasted(masks: Tensor, boxes: Tensor, size: Size) -> Iterator[RunLengths]:
    """Yield the mask of each box at the size of the image, some at a time to save memory."""
    for some, at in zip(masks.split(32), boxes.split(32), strict=True):
        yield from RunLengths.from_masks(paste_binary_masks(some, at, size, 0.5, rounded=False).cpu().numpy())


def _without_objects(image: Tensor) -> Sample:
    none = torch.zeros(0, 4), torch.zeros(0, dtype=torch.long), torch.zeros(0, dtype=torch.bool)
    return Sample(image, *none, None, (int(image.shape[1]), int(image.shape[2])))
