"""Measures a segmenter on images with label maps: the loss, mean IoU and the confusion of classes."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan

import torch
from torch import Tensor

from patchword.core.errors import UserError
from patchword.core.work_sharing import SINGLE, WorkSharing
from patchword.data.detection.reading_ahead import reading_threads
from patchword.data.segmentation.records import IGNORED
from patchword.data.segmentation.sources import SegmentationSource
from patchword.layers.dense.segmentation.segmenter import Segmenter
from patchword.objectives.metrics.segmentation.confusion import SegmentationScores, confusion_matrix
from patchword.recipes.segmentation.inference import InferenceOptions, by_size, compute_views
from patchword.training.state import Validation

METRIC = "mean_iou"
_TINY = 1e-12  # the smallest probability in a loss


@dataclass(frozen=True)
class MeasuredLabels:
    """The result of all images of a split.

    confusion: (classes, classes) pixels, rows are true classes. loss: mean negative log probability of the labelled
    pixels. right, labelled: (images,), the number of correct and of labelled pixels of each image.
    """

    confusion: Tensor
    loss: float
    right: Tensor
    labelled: Tensor

    @property
    def scores(self) -> SegmentationScores:
        return SegmentationScores.of(self.confusion)


@dataclass(frozen=True)
class HeldOutLabels:
    """Images with label maps that are not trained on. size: images that are read together."""

    source: SegmentationSource
    size: int
    options: InferenceOptions

    def validate(self, segmenter: Segmenter, precision: str, group: WorkSharing = SINGLE) -> Validation:
        """Return the loss, the mean IoU, and further measures."""
        measured = self.measure(segmenter, precision, group)
        scores = measured.scores
        if isnan(scores.mean_iou):
            raise UserError(
                "the validation images have no labelled pixel",
                expected="a class in at least one of them",
                hint="ignored= lists the values without a class; another validation= keeps other images",
            )
        measures = {"pixel_accuracy": scores.pixel_accuracy, "mean_accuracy": scores.mean_accuracy}
        return Validation(measured.loss, scores.mean_iou, measures)

    @torch.inference_mode()
    def measure(self, segmenter: Segmenter, precision: str, group: WorkSharing = SINGLE) -> MeasuredLabels:
        """Segment all images; processes divide the work."""
        parts = torch.arange(len(self.source)).split(self.size)
        with reading_threads() as threads:

            def ask(index: Tensor) -> tuple[Tensor, ...]:
                samples = list(threads.map(self.source.sample, index.tolist()))
                return self._ask(segmenter, precision, [one.pixels for one in samples], [one.labels for one in samples])

            answers = group.map(ask, parts)
        confusion = torch.stack([answer[0] for answer in answers]).sum(0)
        losses = torch.cat([answer[1] for answer in answers])
        right, labelled = (torch.cat([answer[place] for answer in answers]) for place in (2, 3))
        return MeasuredLabels(confusion, float(losses.sum() / labelled.sum().clamp(min=1)), right, labelled)

    def _ask(
        self, segmenter: Segmenter, precision: str, images: Sequence[Tensor], labels: Sequence[Tensor]
    ) -> tuple[Tensor, ...]:
        """Return the confusion matrix of some images, and per image the summed loss, and the pixels that are correct
        and labelled."""
        classes, count = len(self.source.classes), len(images)
        confusion = torch.zeros(classes, classes, dtype=torch.long)
        losses = torch.zeros(count, dtype=torch.float64)
        right, labelled = torch.zeros(count, dtype=torch.long), torch.zeros(count, dtype=torch.long)
        sizes = [(int(one.shape[0]), int(one.shape[1])) for one in labels]
        for places in by_size(sizes, self.options.batch_size):
            views = compute_views(segmenter, torch.stack([images[place] for place in places]), self.options, precision)
            whole = torch.stack([labels[place] for place in places])
            for start, stop in views.strips():
                found, predicted = views.answer(start, stop)
                truth = whole[:, start:stop].to(found.device).long()
                valid = truth != IGNORED
                confusion += confusion_matrix(predicted, truth, classes, IGNORED).cpu()
                own = found.gather(1, torch.where(valid, truth, 0)[:, None])[:, 0].clamp(min=_TINY).log()
                losses[places] -= torch.where(valid, own, 0).double().sum((1, 2)).cpu()
                right[places] += ((predicted == truth) & valid).sum((1, 2)).cpu()
                labelled[places] += valid.sum((1, 2)).cpu()
        return confusion, losses, right, labelled
