"""Evaluation of an image classifier on its test set."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import torch

from patchword.core.card import Card
from patchword.core.device import pick_device
from patchword.core.formats.safe_yaml import parse_yaml
from patchword.data.image.batches import Batches
from patchword.data.image.image_format import ImageFormat
from patchword.data.image.images import Images
from patchword.data.image.png import png_bytes
from patchword.data.image.splits import Part
from patchword.data.skipping import left_out, read_with, skipped_lines
from patchword.fusion.rules import fuse_on_gpu
from patchword.layers.model import Model
from patchword.objectives.distillation.images import token_accuracies
from patchword.objectives.metrics.classification import Scores, missing_classes, score
from patchword.objectives.metrics.quality import Fitted, Quality
from patchword.recipes.image.recipe import ImageRecipe
from patchword.recipes.image.task import EVALUATION_BATCH
from patchword.recipes.results.calibration import read_fitted
from patchword.recipes.results.mistakes import Mistake, mistakes_of
from patchword.recipes.run_folder import RunFolder


@dataclass(frozen=True)
class ImageEvaluation:
    """The test result of an image classifier.

    tokens: the accuracy of the class and of the distillation token alone. on: the images, if not the run's test set.
    skipped: lines that name the images that cannot be read. fitted: temperature and threshold of the run.
    """

    kind: ClassVar[str] = "images"
    model: Model
    scores: Scores
    images: Images
    tokens: Mapping[str, float] = field(default_factory=dict)
    on: str = ""
    skipped: Sequence[str] = ()
    fitted: Fitted | None = None

    @cached_property
    def quality(self) -> Quality:
        return Quality(self.scores, self.fitted)

    def lines(self) -> Sequence[str]:
        lines = (
            f"Test Accuracy of the {name.replace('_', ' ')}: {100 * accuracy:.2f}%"
            for name, accuracy in self.tokens.items()
        )
        on = [self.on, *missing_classes(self.scores, "images")] if self.on else []
        return [*self.skipped, *on, *self.scores.lines(), *lines]

    def mistakes(self) -> list[Mistake]:
        """Return the most confident mistakes, with their images."""
        found = mistakes_of(self.scores)
        pixels = self.images.pixels.take(torch.tensor([one.index for one in found], dtype=torch.long))
        return [replace(one, image=png_bytes(image)) for one, image in zip(found, pixels, strict=True)]

    def summary(self) -> dict[str, Any]:
        return {**self.scores.summary(), **self.tokens, **self.quality.summary(), **left_out(self.skipped)}


def read_test_images(recipe: ImageRecipe, card: Card) -> Images:
    """Return the test part of the recipe's data in the image size and channels of this card."""
    return _read_skipping(recipe, card, "test")[0]


def read_other_images(recipe: ImageRecipe, card: Card) -> tuple[Images, str, Sequence[str]]:
    """Return the test split of other data than the run's, or all its images without one; a description of them, and
    lines that name skipped images."""
    has_test = read_with(recipe.skip_rule(), recipe.open_data)[0].has_test
    images, skipped = _read_skipping(recipe, card, "test" if has_test else "all")
    which = "the test images" if has_test else "all images, since there is no test split"
    return images, f"{images.name}: {which} ({len(images):,})", skipped


def _read_skipping(recipe: ImageRecipe, card: Card, part: Part) -> tuple[Images, Sequence[str]]:
    """Return the images of a split, and lines that name those that are skipped because they cannot be read."""
    images, skipped = read_with(recipe.skip_rule(), lambda: recipe.open_data().read(part, ImageFormat.of(card)))
    return images.with_classes(card.labels), skipped_lines(skipped)


def evaluate_images(run: RunFolder, recipe: ImageRecipe, device: str) -> ImageEvaluation:
    target = pick_device(device)
    model = run.model().to(target)
    own = parse_yaml((run.folder / "recipe.yaml").read_text(encoding="utf-8"))["data"]
    if recipe.located().data in (own, recipe.model_copy(update={"data": own}).located().data):
        (images, skipped), on = _read_skipping(recipe, model.card, "test"), ""
    else:
        images, on, skipped = read_other_images(recipe, model.card)
    batches = Batches(images, EVALUATION_BATCH, model.card.normalization, target)
    fast = fuse_on_gpu(model)
    scores, tokens = score(fast, batches.whole(), model.card.labels), token_accuracies(fast, batches.whole())
    return ImageEvaluation(model, scores, images, tokens, on, skipped, read_fitted(run.folder))
