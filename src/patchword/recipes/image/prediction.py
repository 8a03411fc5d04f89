"""Predictions of a model for new images."""

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from patchword.core.device import pick_device, pick_precision
from patchword.core.errors import UserError
from patchword.data.augmentation.augmentation import normalize
from patchword.data.image.decoding import decode
from patchword.data.image.image_format import ImageFormat
from patchword.data.image.sources import IMAGE_SUFFIXES
from patchword.fusion.rules import fuse_on_gpu
from patchword.layers.model import Model
from patchword.models import REGISTRY
from patchword.training.step import autocast

_BATCH = 64


@dataclass(frozen=True)
class Answer:
    """The prediction for one image. classes: the most probable first. error: why an unreadable image has none."""

    path: Path
    classes: tuple[tuple[str, float], ...]
    error: str = ""


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
    """Classify image files. One that cannot be read has an error instead of classes, unless none can be read."""
    REGISTRY.require_images(model.card.model)
    target = pick_device(device)
    model, chosen = fuse_on_gpu(model.to(target)), pick_precision(precision, target)
    config = model.card.config
    labels = model.card.labels or tuple(str(number) for number in range(config["classes"]))
    answers: dict[Path, Answer] = {}
    errors: list[UserError] = []
    for start in range(0, len(paths), _BATCH):
        pixels: dict[Path, Tensor] = {}
        for path, found in _read(paths[start : start + _BATCH], ImageFormat.of(model.card)):
            if isinstance(found, UserError):
                errors.append(found)
                answers[path] = Answer(path, (), str(found).splitlines()[0])
            else:
                pixels[path] = found
        if not pixels:
            continue
        inputs = normalize(torch.stack(list(pixels.values())).to(target), model.card.normalization)
        with autocast(chosen, target):
            scores = model(inputs)
        best = scores.float().softmax(-1).topk(min(top, len(labels)))
        for path, probabilities, classes in zip(pixels, best.values.tolist(), best.indices.tolist(), strict=True):
            named = zip((labels[label] for label in classes), probabilities, strict=True)
            answers[path] = Answer(path, tuple(named))
    if len(errors) == len(answers):
        raise errors[0]
    return [answers[path] for path in paths]


def _read(paths: Sequence[Path], format: ImageFormat) -> Iterator[tuple[Path, Tensor | UserError]]:
    """Yield the pixels of each image, or the error of one that cannot be read."""

    def tried(path: Path) -> Tensor | UserError:
        try:
            return decode(path, format)
        except UserError as error:
            return error

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        yield from zip(paths, pool.map(tried, paths), strict=True)
