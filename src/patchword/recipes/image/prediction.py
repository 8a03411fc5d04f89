"""Predictions of a model for new images."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from patchword.core.device import pick_device, pick_precision
from patchword.core.errors import UserError
from patchword.data.augmentation.augmentation import normalize
from patchword.data.image.images import OnDisk
from patchword.data.image.sources import IMAGE_SUFFIXES
from patchword.fusion.rules import fuse_on_gpu
from patchword.layers.model import Model
from patchword.models import REGISTRY
from patchword.training.step import autocast

_BATCH = 64


@dataclass(frozen=True)
class Answer:
    path: Path
    classes: tuple[tuple[str, float], ...]  # the most probable first


def images_of(paths: Iterable[Path]) -> list[Path]:
    """Return the given image files and those in the given folders."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += sorted(file for file in path.rglob("*") if file.suffix.lower() in IMAGE_SUFFIXES)
        elif path.is_file():
            found.append(path)
        else:
            raise UserError(f"there is nothing at {path}", expected="an image or a folder of images")
    if not found:
        raise UserError("there are no images to classify", expected=" ".join(sorted(IMAGE_SUFFIXES)))
    return found


@torch.inference_mode()
def classify(
    model: Model,
    paths: list[Path],
    top: int,
    device: str = "auto",
    precision: Literal["auto", "float32", "bfloat16"] = "float32",
) -> list[Answer]:
    REGISTRY.require_images(model.card.model)
    target = pick_device(device)
    model, chosen = fuse_on_gpu(model.to(target)), pick_precision(precision, target)
    config = model.card.config
    labels = model.card.labels or tuple(str(number) for number in range(config["classes"]))
    source = OnDisk(tuple(paths), config["image"], config["channels"])
    answers = []
    for index in torch.arange(len(paths)).split(_BATCH):
        inputs = normalize(source.take(index).to(target), model.card.normalization)
        with autocast(chosen, target):
            scores = model(inputs)
        best = scores.float().softmax(-1).topk(min(top, len(labels)))
        for position, probabilities, classes in zip(
            index.tolist(), best.values.tolist(), best.indices.tolist(), strict=True
        ):
            named = tuple(
                (labels[label], probability) for label, probability in zip(classes, probabilities, strict=True)
            )
            answers.append(Answer(paths[position], named))
    return answers
