"""Objects in images: what a detector learns from and what it returns, in batches of fixed shapes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True, eq=False)
class _Batch:
    """Tensors whose first axis is the image."""

    boxes: Tensor
    labels: Tensor
    valid: Tensor
    sizes: Tensor

    def __len__(self) -> int:
        return len(self.boxes)

    def __getitem__(self, images: slice) -> Self:
        """Return some of the images."""
        return self._each(lambda tensor: tensor[images])

    def to(self, device: torch.device | str) -> Self:
        """Return the batch on a device; a copy from pinned memory does not wait."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=tensor.is_pinned()))

    def pin_memory(self) -> Self:
        """Return the batch in pinned memory."""
        return self._each(lambda tensor: tensor.pin_memory())

    def counts(self) -> Tensor:
        """Return the number of objects of each image: (batch,)."""
        return self.valid.sum(dim=1)

    def _each(self, change: Callable[[Tensor], Tensor]) -> Self:
        tensors = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: change(tensor) for name, tensor in tensors.items() if tensor is not None})


@dataclass(frozen=True, eq=False)
class Targets(_Batch):
    """The objects of a batch of images, padded to the same number.

    boxes: (batch, objects, 4), x1, y1, x2, y2 in pixels. labels: (batch, objects), class indices.
    valid: (batch, objects), False for padding. sizes: (batch, 2), height and width of each image without its padding.
    masks: (batch, objects, height, width) of bool at the padded size of the images, or None.
    """

    masks: Tensor | None = None

    @classmethod
    def of(
        cls, boxes: Sequence[Tensor], labels: Sequence[Tensor], sizes: Tensor, masks: Sequence[Tensor] | None = None
    ) -> Self:
        """Return the targets of images, given per image; there is room for at least one object.

        boxes: (objects, 4). labels: (objects,). masks: (objects, height, width), of the same size in all images.
        """
        room = max([1, *map(len, boxes)])
        valid = torch.stack([torch.arange(room, device=one.device) < len(one) for one in boxes])
        return cls(_padded(boxes, room), _padded(labels, room), valid, sizes, _padded(masks, room) if masks else None)

    def with_room(self) -> Self:
        """Return the targets with room for at least one object, which losses index: padding if there is none."""
        if self.valid.shape[1]:
            return self
        boxes, labels, valid = (_padded(list(part), 1) for part in (self.boxes, self.labels, self.valid))
        masks = None if self.masks is None else _padded(list(self.masks), 1)
        return replace(self, boxes=boxes, labels=labels, valid=valid, masks=masks)


@dataclass(frozen=True, eq=False)
class Detections(_Batch):
    """The detected objects of a batch of images, best first, padded to the same number.

    boxes: (batch, detections, 4), x1, y1, x2, y2 in pixels. labels, scores: (batch, detections).
    valid: (batch, detections), False for padding. sizes: (batch, 2), height and width of each image.
    masks: (batch, detections, rows, columns), the probability that a cell of the box belongs to the object, or None.
    """

    scores: Tensor
    masks: Tensor | None = None

    @classmethod
    def of(
        cls,
        boxes: Sequence[Tensor],
        labels: Sequence[Tensor],
        scores: Sequence[Tensor],
        sizes: Tensor,
        masks: Sequence[Tensor] | None = None,
    ) -> Self:
        """Return the detections of images, given per image, sorted by score; there is room for at least one.

        boxes: (detections, 4). labels, scores: (detections,). masks: (detections, rows, columns), cells of the boxes.
        """
        room = max([1, *map(len, boxes)])
        valid = torch.stack([torch.arange(room, device=one.device) < len(one) for one in boxes])
        orders = [one.argsort(descending=True, stable=True) for one in scores]

        def ranked(parts: Sequence[Tensor]) -> Tensor:
            return _padded([part[order] for part, order in zip(parts, orders, strict=True)], room)

        return cls(ranked(boxes), ranked(labels), valid, sizes, ranked(scores), ranked(masks) if masks else None)


def take(values: Tensor, index: Tensor) -> Tensor:
    """Return values by their index in each image: (batch, n, ...), (batch, m) -> (batch, m, ...)."""
    shape = (*index.shape, *values.shape[2:])
    return values.gather(1, index.view(*index.shape, *(1,) * (values.dim() - 2)).expand(shape))


def _padded(parts: Sequence[Tensor], room: int) -> Tensor:
    """Stack tensors of different lengths, with zeros at the end."""
    return torch.stack([F.pad(part, (0, 0) * (part.dim() - 1) + (0, room - len(part))) for part in parts])
