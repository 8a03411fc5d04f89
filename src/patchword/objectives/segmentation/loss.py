"""The loss of segmenters: cross-entropy of every pixel."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from patchword.core.errors import UserError
from patchword.layers.dense.segmentation.segmenter import Segmenter, SegmenterOutput
from patchword.objectives.detection.shared_loss import own_count
from patchword.objectives.segmentation.cross_entropy import enlarged_cross_entropy

Mean = Literal["all", "labelled"]


@dataclass(frozen=True)
class SegmentationLoss:
    """Cross-entropy of the logits, enlarged bilinearly to the size of the labels.

    ignored: label of pixels that are not learned.
    mean: what the sum over pixels is divided by: the number of all pixels, ignored ones included (mmseg), or of the
        labelled ones (transformers).
    auxiliary_weight: of the loss of the auxiliary head.
    """

    ignored: int = 255
    mean: Mean = "all"
    auxiliary_weight: float = 0.4

    def __call__(
        self, segmenter: Segmenter, images: Tensor, labels: Tensor, total: Callable[[Tensor], Tensor] = own_count
    ) -> dict[str, Tensor]:
        """Return the losses of a batch by name; their sum is what a training step minimizes.

        labels: (batch, height, width), uint8 or int64. total: returns the sum of a count over all processes that share
            the batch, so that the losses of the processes add up to the loss of the whole batch.
        """
        return self.on_outputs(segmenter.outputs(images), labels, total)

    def on_outputs(
        self, output: SegmenterOutput, labels: Tensor, total: Callable[[Tensor], Tensor] = own_count
    ) -> dict[str, Tensor]:
        """Return the losses "class" and, if there are auxiliary logits, "auxiliary"."""
        labels = labels.long()
        self._check(labels, output.logits)
        valid = labels != self.ignored
        count = valid.sum() if self.mean == "labelled" else torch.full_like(labels[0, 0, 0], labels.numel())
        divisor = total(count).clamp(min=1)
        losses = {"class": enlarged_cross_entropy(output.logits, labels, self.ignored) / divisor}
        if output.auxiliary is not None:
            loss = enlarged_cross_entropy(output.auxiliary, labels, self.ignored) / divisor
            losses["auxiliary"] = self.auxiliary_weight * loss
        return losses

    def _check(self, labels: Tensor, logits: Tensor) -> None:
        """Raise an error for labels of another shape, and on the CPU for labels that are no class."""
        if labels.ndim != 3 or labels.shape[0] != logits.shape[0]:
            raise UserError("the labels of a segmenter", expected="(batch, height, width)", got=tuple(labels.shape))
        if labels.is_cuda or torch.compiler.is_compiling() or labels.is_meta:
            return  # a comparison on the host would wait for the GPU
        classes = logits.shape[1]
        wrong = labels[(labels != self.ignored) & ((labels < 0) | (labels >= classes))]
        if wrong.numel():
            raise UserError(
                "labels of pixels that are no class",
                expected=f"0 to {classes - 1}, or {self.ignored} for ignored pixels",
                got=", ".join(map(str, wrong.unique()[:5].tolist())),
            )


def segmentation_loss(segmenter: Segmenter) -> SegmentationLoss:
    """Return the loss of a segmenter, as mmseg has it.

    >>> losses = segmentation_loss(segmenter)(segmenter, images, labels)
    >>> sum(losses.values()).backward()
    """
    return SegmentationLoss()
