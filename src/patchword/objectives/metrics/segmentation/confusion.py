"""Metrics of semantic segmentation: mean IoU and accuracies from a confusion matrix."""

from dataclasses import dataclass

import torch
from torch import Tensor

from patchword.core.errors import UserError


def confusion_matrix(predicted: Tensor, target: Tensor, classes: int, ignored: int = 255) -> Tensor:
    """Count the pixels of each pair of classes: (classes, classes), int64; row: target, column: prediction.

    predicted, target: class indices of one shape. Pixels whose target is `ignored` are not counted. The matrices of
    several images, batches or processes can be added.
    """
    if predicted.shape != target.shape:
        raise UserError("class maps of different shapes", expected=tuple(target.shape), got=tuple(predicted.shape))
    predicted, target = predicted.reshape(-1).long(), target.reshape(-1).long()
    valid = target != ignored
    if not valid.is_cuda:
        predicted, target = predicted[valid], target[valid]
        valid = valid[valid]
    # With one more index for pixels that are not counted, the shapes on a GPU do not depend on the values.
    pair = torch.where(valid, target * classes + predicted, classes * classes)
    wrong = ((target < 0) | (target >= classes) | (predicted < 0) | (predicted >= classes)) & valid
    if bool(wrong.any()):
        some = torch.cat([target[wrong], predicted[wrong]]).unique()
        outside = some[(some < 0) | (some >= classes)]
        raise UserError(
            "class indices of pixels that are no class",
            expected=f"0 to {classes - 1}, or {ignored} for ignored pixels of the target",
            got=", ".join(map(str, outside[:5].tolist())),
        )
    counts = torch.bincount(pair, minlength=classes * classes + 1)
    return counts[: classes * classes].reshape(classes, classes)


@dataclass(frozen=True)
class SegmentationScores:
    """Scores from a confusion matrix, as fractions. Classes that do not occur have NaN and are not averaged.

    mean_iou: mean over classes of intersection / union. A class occurs if a pixel has it as target or as prediction.
    pixel_accuracy: correct pixels / pixels. mean_accuracy: mean over the classes of the targets of the fraction of
    their pixels that is correct. iou, accuracy: of each class. pixels: of each class in the targets.
    """

    mean_iou: float
    pixel_accuracy: float
    mean_accuracy: float
    iou: tuple[float, ...]
    accuracy: tuple[float, ...]
    pixels: tuple[int, ...]

    @classmethod
    def of(cls, matrix: Tensor) -> "SegmentationScores":
        """Compute the scores of a confusion matrix (classes, classes); row: target, column: prediction."""
        matrix = matrix.cpu()
        counts = matrix.double()
        correct, targets, predictions = counts.diagonal(), counts.sum(dim=1), counts.sum(dim=0)
        iou, accuracy = correct / (targets + predictions - correct), correct / targets  # 0 / 0 is NaN
        return cls(
            mean_iou=float(iou.nanmean()),
            pixel_accuracy=float(correct.sum() / counts.sum()),
            mean_accuracy=float(accuracy.nanmean()),
            iou=tuple(iou.tolist()),
            accuracy=tuple(accuracy.tolist()),
            pixels=tuple(matrix.sum(dim=1).tolist()),
        )
