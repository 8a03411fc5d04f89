"""Figures of augmentation: batches as the model gets them, and one image under every operation."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from patchword.core.card import Normalization
from patchword.data.augmentation import color as colours
from patchword.data.augmentation import lookup_tables as tables
from patchword.data.augmentation.augmentation import normalize
from patchword.data.augmentation.boxes import Crop, Erasing
from patchword.data.augmentation.color import ColorJitter
from patchword.data.augmentation.flip_shift_square import BlackSquare, Shift
from patchword.data.augmentation.mixing import Mixing
from patchword.data.augmentation.randaugment import ALL, LISTS, amount, operate
from patchword.data.augmentation.random_draws import Draws
from patchword.data.augmentation.stage import Stage, StageContext
from patchword.data.image.batches import Batch
from patchword.reports.plots.montage import Cell, montage
from patchword.reports.plots.numbers import percent, shortened

_STRENGTHS = (2.5, 5.0, 7.5, 10.0)
_FRACTIONS = (0.8, 0.6, 0.4, 0.2)
_COLUMNS = 8
_UNITS = {  # caption, and the factor from the operation's argument; plus is counterclockwise, to the right, down
    "rotate": ("{:+.1f}°", 1.0),
    "shear-x": ("{:+.2f} px per row", -1.0),
    "shear-y": ("{:+.2f} px per column", -1.0),
    "translate-x": ("{:+.0f}% of the width", -100.0),
    "translate-y": ("{:+.0f}% of the height", -100.0),
    "posterize": ("bits: {:.0f}", 1.0),
    "solarize": ("from {:.0f} up", 1.0),
    "solarize-add": ("+{:.0f} below 128", 1.0),
}


class Row(NamedTuple):
    """One operation at several strengths."""

    name: str
    images: Tensor  # (strengths, channels, height, width) uint8
    caption: Sequence[str]


def batch_figure(batch: Batch, normalization: Normalization, classes: Sequence[str], title: str) -> bytes:
    """Draw the inputs of a batch as pixels, each with its class or its mixed classes, as a PNG."""
    pixels = shown(batch.inputs, normalization)
    cells = [Cell(one, label_text(label, classes)) for one, label in zip(pixels, batch.labels, strict=True)]
    return montage(title, [cells[start : start + _COLUMNS] for start in range(0, len(cells), _COLUMNS)])


def operations_figure(pixels: Tensor, other: Tensor, normalization: Normalization) -> bytes:
    """Draw one image (channels, height, width) under each operation at four strengths; `other` is mixed in; a PNG."""
    rows = [*operation_rows(pixels, normalization.mean), *other_rows(pixels, other, normalization)]
    lines = [_line(row, pixels) for row in rows]
    half = -(-len(lines) // 2)
    pairs = zip(lines[:half], [*lines[half:], *[[]] * (2 * half - len(lines))], strict=True)
    title = "One image under each operation: unchanged, then stronger from left to right, or four random draws"
    return montage(title, [[*left, None, *right] for left, right in pairs])


def _line(row: Row, pixels: Tensor) -> list[Cell | None]:
    changed = [Cell(one, caption) for one, caption in zip(row.images, row.caption, strict=True)]
    return [Cell(pixels, row.name, bold=True), *changed, *[None] * (4 - len(changed))]


def operation_rows(pixels: Tensor, mean: Sequence[float]) -> list[Row]:
    """RandAugment's operations, with DeiT's strengths."""
    many, sign, rows = pixels[None].repeat(4, 1, 1, 1), torch.tensor([1.0, -1.0, 1.0, -1.0]), []
    for name in LISTS["deit"]:
        amounts = amount(name, torch.tensor(_STRENGTHS), sign, "deit")
        changed = operate(many, torch.full((4,), ALL.index(name)), amounts, mean)
        if name in ("autocontrast", "equalize", "invert"):
            rows.append(Row(name, changed[:1], ["has no strength"]))
        else:
            words, factor = _UNITS.get(name, ("x {:.2f}", 1.0))
            rows.append(Row(name, changed, [words.format(factor * value) for value in amounts.tolist()]))
    return rows


def other_rows(pixels: Tensor, other: Tensor, normalization: Normalization) -> list[Row]:
    """All operations other than RandAugment's; random ones are drawn four times."""
    many = pixels[None].repeat(4, 1, 1, 1)
    sigma = torch.tensor([0.5, 1.0, 1.5, 2.0])
    half = torch.full((4,), 128.0)
    three = [pixels.flip(-1), tables.grey(many)[0].expand_as(pixels)]
    three.append(tables.with_table(tables.solarize)(many, half)[0])
    return [
        Row("flip, 3-Augment", torch.stack(three), ["mirror image", "greyscale", "solarized from 128"]),
        Row("blur", colours.blur(many, sigma), [f"sigma {value:.1f} px" for value in sigma.tolist()]),
        Row("shift", _staged(Shift(max(1, pixels.shape[-1] // 7)), many), ["at most a seventh"] * 4),
        Row("crop", _staged(Crop(0.08), many), ["8% or more of the area"] * 4),
        Row("jitter", _staged(ColorJitter(0.3), many), ["factors of 0.7 to 1.3"] * 4),
        Row("erase, square", _staged(BlackSquare(1.0), many), ["a quarter of each side"] * 4),
        Row("erase, const", _erased(False, many, normalization), ["2% to 33% of the area"] * 4),
        Row("erase, pixel", _erased(True, many, normalization), ["2% to 33% of the area"] * 4),
        _mixed("mixup", pixels, other, normalization),
        _mixed("cutmix", pixels, other, normalization),
    ]


def _staged(stage: Stage, many: Tensor) -> Tensor:
    draws = Draws(0, 0, torch.arange(4))
    return stage(many, stage.plan(draws), StageContext(draws, (0.5,)))


def _erased(noise: bool, many: Tensor, normalization: Normalization) -> Tensor:
    return shown(_staged(Erasing(1.0, noise), normalize(many, normalization)), normalization)


def _mixed(name: str, pixels: Tensor, other: Tensor, normalization: Normalization) -> Row:
    cut = torch.full((4,), name == "cutmix")
    middle = torch.tensor([0.4, 0.55, 0.5, 0.5])
    first, second = (normalize(one[None].repeat(4, 1, 1, 1), normalization) for one in (pixels, other))
    mixed, kept = Mixing(1.0, 1.0)(first, second, (torch.tensor(_FRACTIONS), cut, middle, middle))
    return Row(name, shown(mixed, normalization), [f"{percent(fraction, 0)} kept" for fraction in kept.tolist()])


def shown(inputs: Tensor, normalization: Normalization) -> Tensor:
    """Convert model inputs back to pixels; values outside black and white are clipped."""
    mean, std = (torch.tensor(part).view(1, -1, 1, 1) for part in (normalization.mean, normalization.std))
    return ((inputs.float().cpu() * std + mean) * 255).round().clamp(0, 255).to(torch.uint8)


def label_text(label: Tensor, classes: Sequence[str]) -> str:
    """Return a class name, or the fractions of two mixed classes."""
    if label.dim() == 0:
        return shortened(classes[int(label)], 16)
    values, places = label.topk(min(2, len(label)))
    parts = zip(values.tolist(), places.tolist(), strict=True)
    return "\n".join(f"{shortened(classes[place], 12)} {percent(value, 0)}" for value, place in parts if value > 0.005)
