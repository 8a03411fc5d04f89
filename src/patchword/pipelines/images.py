"""Classes and features of images, computed in batches while threads decode the next files."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from patchword.core.device import pick_device, pick_precision
from patchword.core.errors import UserError
from patchword.core.grid import Grid
from patchword.fusion.rules import fuse_on_gpu
from patchword.layers import Pyramid
from patchword.layers.heads.image import ClassHead, DistilledHead, first_token, mean_of_patches
from patchword.layers.model import Model
from patchword.models import REGISTRY
from patchword.pipelines.class_names import class_names
from patchword.pipelines.image_inputs import OneImage, Transform
from patchword.recipes.results.calibration import temperature_of
from patchword.recipes.text.inference.answers import ClassAnswer
from patchword.recipes.text.inference.embedding import layer_number
from patchword.training.step import Precision, autocast

_BATCH = 64
Vectors: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.float32]]  # one row per input
Vector: TypeAlias = np.ndarray[tuple[int], np.dtype[np.float32]]
Pool: TypeAlias = Literal["mean", "first"]
Decoded = Tensor | UserError  # pixels, or why an image cannot be read


@dataclass(frozen=True)
class ImageEngine:
    """An image model on its device. name: what the user opened, for messages. folder: of a saved model.

    temperature: the logits are divided by it; 1 gives the probabilities as trained.
    """

    name: str
    model: Pyramid
    device: torch.device
    precision: Precision
    has_classes: bool = True
    folder: Path | None = None
    temperature: float = 1.0

    @classmethod
    def of(
        cls,
        model: Model,
        device: str = "auto",
        precision: Literal["auto", "float32", "bfloat16"] = "auto",
        name: str = "",
        folder: Path | None = None,
    ) -> "ImageEngine":
        """Move a model to its device, in evaluation mode."""
        REGISTRY.require_images(model.card.model)
        assert isinstance(model, Pyramid), "an image model is a pyramid"
        target = pick_device(device)
        chosen = pick_precision(precision, target)
        return cls(name or model.card.model, model.to(target).eval(), target, chosen, folder=folder)

    @property
    def transform(self) -> Transform:
        return Transform(self.model.card)

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the classes; numbers if they have no names."""
        return class_names(self.model.card)

    @torch.inference_mode()
    def classify(self, images: Sequence[OneImage], top: int) -> list[ClassAnswer | UserError]:
        """Return the classes of each image, or why it cannot be read; if none can be, the first error is raised."""
        answers = self.try_classify(images, top)
        _require_one(answers)
        return answers

    @torch.inference_mode()
    def try_classify(self, images: Sequence[OneImage], top: int) -> list[ClassAnswer | UserError]:
        """Return the classes of each image, or why it cannot be read."""
        answers: list[ClassAnswer | UserError] = []
        for decoded in self._batches(images):
            scores = iter(self.classify_pixels([one for one in decoded if isinstance(one, Tensor)], top))
            answers += [found if isinstance(found, UserError) else next(scores) for found in decoded]
        return answers

    @torch.inference_mode()
    def classify_pixels(self, images: Sequence[Tensor], top: int) -> list[ClassAnswer]:
        """Return the classes of one batch of images that `transform.pixels` has decoded."""
        inputs, labels = self._inputs(images), self.labels
        if inputs is None:
            return []
        model = fuse_on_gpu(self.model)
        with autocast(self.precision, self.device):
            best = (model(inputs).float() / self.temperature).softmax(-1).topk(min(top, len(labels)))
        return [_answer(labels, *one) for one in zip(best.values.tolist(), best.indices.tolist(), strict=True)]

    @torch.inference_mode()
    def features(self, images: Sequence[OneImage], layer: int | None = None, pool: Pool | None = None) -> Vectors:
        """Return one vector per image, (images, width). An image that cannot be read is an error.

        layer: 0 is the input of the first block, -1 the last layer. pool: by default as the head reads its tokens.
        """
        found = self.try_features(images, layer, pool)
        for error in (one for one in found if isinstance(one, UserError)):
            raise error
        return np.stack([one for one in found if not isinstance(one, UserError)])

    @torch.inference_mode()
    def try_features(
        self, images: Sequence[OneImage], layer: int | None = None, pool: Pool | None = None
    ) -> list[Vector | UserError]:
        """Return the vector of each image, or why it cannot be read."""
        number = layer_number(self.model.depth, -1 if layer is None else layer, prefix="")
        model, is_last = fuse_on_gpu(self.model), number == self.model.depth
        answers: list[Vector | UserError] = []
        for decoded in self._batches(images):
            inputs = self._inputs([one for one in decoded if isinstance(one, Tensor)])
            vectors: Iterator[Vector] = iter(())
            if inputs is not None:
                with autocast(self.precision, self.device):
                    tokens, grid = model.encode(inputs) if is_last else self.model.states(inputs)[number]
                    vectors = iter(_pooled(self.model.head, tokens, grid, pool).float().cpu().numpy())
            answers += [found if isinstance(found, UserError) else next(vectors) for found in decoded]
        return answers

    @torch.inference_mode()
    def features_of_layers(self, images: Sequence[OneImage], pool: Pool | None = None) -> list[Vectors]:
        """Return the vectors of `features` for every layer from 0 on, in one pass over the images."""

        found: list[list[Tensor]] = []
        for decoded in self._batches(images):
            for error in (one for one in decoded if isinstance(one, UserError)):
                raise error
            inputs = self._inputs(decoded)
            assert inputs is not None, "every image was read"
            with autocast(self.precision, self.device):
                states = self.model.states(inputs)
                parts = [_pooled(self.model.head, tokens, grid, pool) for tokens, grid in states]
                found.append([one.float().cpu() for one in parts])
        return [torch.cat(parts).numpy() for parts in zip(*found, strict=True)]

    def without_classes(self) -> "ImageEngine":
        """Return the same engine for a model whose head is not trained."""
        return replace(self, has_classes=False)

    def calibrated(self) -> "ImageEngine":
        """Return the same engine with the temperature that was fitted on the validation images of its run."""
        return replace(self, temperature=temperature_of(self.folder, self.name))

    def _inputs(self, decoded: Sequence[Decoded]) -> Tensor | None:
        """Return the normalized batch on the device; None if no image could be read."""
        pixels = [one for one in decoded if isinstance(one, Tensor)]
        if not pixels:
            return None
        if all(one.dtype == torch.uint8 for one in pixels):
            return self.transform.normalized(torch.stack(pixels).to(self.device))
        return torch.stack([self.transform.normalized(one) for one in pixels]).to(self.device)

    def _batches(self, images: Sequence[OneImage]) -> Iterator[list[Decoded]]:
        def tried(image: OneImage) -> Decoded:
            try:
                return self.transform.pixels(image)
            except UserError as error:
                return error

        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            for start in range(0, len(images), _BATCH):
                yield list(pool.map(tried, images[start : start + _BATCH]))


def _pooled(head: nn.Module, tokens: Tensor, grid: Grid, pool: Pool | None) -> Tensor:
    """(images, tokens, width) -> (images, width). A stage without leading tokens has the mean of its patches."""
    if pool == "first" and not grid.prefix:
        raise UserError("the layer has no [CLS] token", expected="pool mean", got="pool first")
    if pool == "first":
        return first_token(tokens, grid)
    if pool == "mean" or (not grid.prefix and isinstance(head, (ClassHead, DistilledHead))):
        return mean_of_patches(tokens, grid)
    if isinstance(head, DistilledHead):
        return tokens[:, :2].mean(1)  # of the tokens of both heads, as timm does
    if not isinstance(head, ClassHead):
        raise UserError("the head does not pool its tokens", expected="a ClassHead", got=type(head).__name__)
    return head.pool(tokens, grid)


def _answer(labels: Sequence[str], probabilities: Sequence[float], classes: Sequence[int]) -> ClassAnswer:
    return ClassAnswer(tuple(zip((labels[label] for label in classes), probabilities, strict=True)))


def _require_one(answers: Sequence[ClassAnswer | UserError]) -> None:
    errors = [answer for answer in answers if isinstance(answer, UserError)]
    if len(errors) == len(answers):
        raise errors[0]
