"""Accuracy of a run on corrupted images and at other resolutions."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from patchword.core.device import pick_device
from patchword.core.errors import UserError
from patchword.core.files import read_json, write_json
from patchword.data.augmentation.augmentation import normalize
from patchword.data.corruptions import CORRUPTIONS, SEVERITIES, corrupt
from patchword.data.image.batches import Batches
from patchword.data.image.images import Images
from patchword.inspection.sharpness import weights_digest
from patchword.layers.model import Model
from patchword.recipes.run import Run
from patchword.recipes.text.inference.outputs import Advance, ignore_progress

BATCH = 250
FILE = "robustness.json"
_OLD_KEYS = {"pictures": "images"}  # keys of robustness.json in files of earlier versions


@dataclass(frozen=True)
class Plan:
    """What to measure. count: number of evenly spaced test images; None is all. sizes: sides of square images."""

    kinds: tuple[str, ...] = tuple(CORRUPTIONS)
    severities: tuple[int, ...] = SEVERITIES
    sizes: tuple[int, ...] = ()
    count: int | None = None
    seed: int = 0


@dataclass(frozen=True)
class Robustness:
    """Accuracies from 0 to 1: on clean images, per corruption and severity, and per image size."""

    clean: float
    images: int
    seed: int
    corrupted: Mapping[str, Mapping[int, float]] = field(default_factory=dict)  # kind -> severity -> accuracy
    sizes: Mapping[int, float] = field(default_factory=dict)

    def of_kind(self, kind: str) -> float:
        """Return the mean accuracy over the severities of a corruption."""
        return sum(self.corrupted[kind].values()) / len(self.corrupted[kind])

    @property
    def mean(self) -> float:
        """Mean corruption accuracy: the mean over the corruptions; nan if none was measured."""
        return sum(map(self.of_kind, self.corrupted)) / len(self.corrupted) if self.corrupted else float("nan")

    def to_json(self) -> dict[str, Any]:
        corrupted = {
            kind: {str(severity): value for severity, value in row.items()} for kind, row in self.corrupted.items()
        }
        mean = {"mean_corruption_accuracy": self.mean} if self.corrupted else {}
        sizes = {str(size): value for size, value in self.sizes.items()}
        first = {"clean_accuracy": self.clean, **mean, "images": self.images, "seed": self.seed}
        return {**first, "corrupted": corrupted, "sizes": sizes}


def robustness(run: Run, plan: Plan, device: str = "auto", advance: Advance = ignore_progress) -> Robustness:
    """Measure the robustness of a run and save it in robustness.json. advance: called with each completed fraction."""
    target, before = pick_device(device), known_robustness(run)
    if before is not None and not of_these_weights(run):
        before = None
    model = run.model().to(target).eval()
    others = {
        size: run.model(image=size).to(target).eval() for size in plan.sizes
    }  # an impossible size raises an error here
    images = _some(run.test_images(model.card), plan.count)
    held = Batches(images, BATCH, model.card.normalization, target).on_device().images
    step = 1 / (1 + len(plan.kinds) * len(plan.severities) + len(others))

    def with_progress(value: float) -> float:
        advance(step)
        return value

    clean = with_progress(accuracy(model, _batches(held, target)))
    rows = {
        kind: {
            severity: with_progress(accuracy(model, _corrupted(held, target, kind, severity, plan.seed)))
            for severity in plan.severities
        }
        for kind in plan.kinds
    }
    sizes = {}
    for size, other in others.items():
        at_size = _some(run.test_images(other.card), plan.count)
        sizes[size] = with_progress(accuracy(other, _batches(at_size, target)))
    found = _completed(Robustness(clean, len(images), plan.seed, rows, sizes), before)
    write_json(run.folder / FILE, {**found.to_json(), "digest": weights_digest(run)})
    return found


def _completed(found: Robustness, before: Robustness | None) -> Robustness:
    """Add the saved corruptions or sizes if they were not measured now and were measured on the same images."""
    if before is None or (before.images, before.seed) != (found.images, found.seed):
        return found
    return replace(found, corrupted=found.corrupted or before.corrupted, sizes=found.sizes or before.sizes)


def known_robustness(run: Run) -> Robustness | None:
    """Return the saved robustness; None if there is none."""
    path = run.folder / FILE
    if not path.is_file():
        return None
    saved = read_json(path)
    try:
        saved = {_OLD_KEYS.get(key, key): value for key, value in saved.items()}
        rows = {
            kind: {int(severity): float(value) for severity, value in row.items()}
            for kind, row in saved["corrupted"].items()
        }
        sizes = {int(size): float(value) for size, value in saved["sizes"].items()}
        if not all(rows.values()):
            raise ValueError("a corruption has no severity")
        return Robustness(float(saved["clean_accuracy"]), int(saved["images"]), int(saved["seed"]), rows, sizes)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise UserError(f"cannot read {path}", hint="remove it, and run `patchword robustness` again") from None


def of_these_weights(run: Run) -> bool:
    """True if the saved robustness belongs to the current weights of the run."""
    return bool(read_json(run.folder / FILE).get("digest") == weights_digest(run))


@torch.inference_mode()
def accuracy(model: Model, batches: Iterator[tuple[Tensor, Tensor]]) -> float:
    """Return the fraction of images that are classified correctly; the count stays on the device until the end."""
    right, count = torch.zeros((), dtype=torch.int64, device=next(model.parameters()).device), 0
    for pixels, labels in batches:
        right += (model(normalize(pixels, model.card.normalization)).argmax(-1) == labels).sum()
        count += len(labels)
    return int(right) / count


def _some(images: Images, count: int | None) -> Images:
    if count is None or count >= len(images):
        return images
    return images.subset(torch.arange(count) * len(images) // count)


def _batches(images: Images, device: torch.device) -> Iterator[tuple[Tensor, Tensor]]:
    for index in torch.arange(len(images)).split(BATCH):
        yield images.pixels.take(index).to(device), images.labels[index.to(images.labels.device)].to(device)


def _corrupted(
    images: Images, device: torch.device, kind: str, severity: int, seed: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield batches of corrupted images. The random numbers of an image do not depend on the number of images."""
    for index, (pixels, labels) in zip(torch.arange(len(images)).split(BATCH), _batches(images, device), strict=True):
        keys = images.keys[index.to(images.keys.device)].to(device)
        yield corrupt(pixels, kind, severity, seed, keys & 0xFFFF_FFFF), labels
