"""The multiply-accumulates of a training run, from the count of its model."""

from dataclasses import dataclass

from patchword.analysis.cost import count, text_of
from patchword.analysis.cost.detection import count_detector, largest_input
from patchword.analysis.cost.segmentation import count_segmenter
from patchword.core.card import Card
from patchword.data.text.batching.batches import TextBatch
from patchword.layers.dense.detector import Detector
from patchword.layers.dense.segmentation.segmenter import Segmenter
from patchword.models import REGISTRY
from patchword.recipes.distillation.task import TaughtTask
from patchword.recipes.segmentation.recipe import SegmentationRecipe
from patchword.recipes.task import Task
from patchword.recipes.text.task import TextTask
from patchword.training.step import Batch


@dataclass(frozen=True)
class TrainingMacs:
    """MACs per sample. input: the sample that they are for. training: forward and backward, and the teachers' forward.

    The backward pass costs twice the forward pass. SAM computes both twice.
    """

    input: str
    forward: int
    training: int


def training_macs(task: Task, batch: Batch) -> TrainingMacs:
    """Count the MACs of a model for one sample; of texts, for one of the mean length."""
    forward, sample = _forward(task, task.model.card, batch)
    teachers = task.all_teachers if isinstance(task, TaughtTask) else ()
    taught = sum(_forward(task, teacher.card, batch)[0] for teacher in teachers)
    gradients = 2 if task.recipe.sam else 1
    return TrainingMacs(sample, forward, gradients * (3 * forward + taught))


def _forward(task: Task, card: Card, batch: Batch) -> tuple[int, str]:
    if isinstance(task.model, Detector):
        size = largest_input(card)
        return count_detector(card, size=size).macs, f"image of {size[0]} x {size[1]} pixels"
    if isinstance(task.model, Segmenter):
        assert isinstance(task.recipe, SegmentationRecipe)
        side = task.recipe.crop
        return count_segmenter(card, size=(side, side)).macs, f"crop of {side} x {side} pixels"
    if isinstance(batch, TextBatch) and REGISTRY.reads(card.model) == "texts":
        tokens = _mean_tokens(task, batch)
        return count(card, inputs=text_of(card, tokens)).macs, f"text of {tokens} tokens"
    cost = count(card)
    sides = " x ".join(map(str, cost.input[1:]))
    return cost.macs, f"{'image' if REGISTRY.reads_images(card.model) else 'input'} of {sides}"


def _mean_tokens(task: Task, batch: TextBatch) -> int:
    """Return the mean over all training texts, or over a batch if every epoch has other examples."""
    own = task.task if isinstance(task, TaughtTask) else task
    ids = own.train.examples.ids if isinstance(own, TextTask) else batch.ids
    return max(1, round(len(ids.values) / len(ids)))
