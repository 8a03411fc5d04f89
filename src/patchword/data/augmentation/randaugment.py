"""RandAugment (Cubuk et al., 2019): two random operations per image, all with the same magnitude."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from patchword.core.device import to_device
from patchword.data.augmentation import color as colours
from patchword.data.augmentation import geometry as places
from patchword.data.augmentation import lookup_tables as tables
from patchword.data.augmentation.random_draws import Draws, Purpose
from patchword.data.augmentation.stage import Change, StageContext, StagePlan, apply_to, with_amounts

TABLES: dict[str, Change] = {
    "autocontrast": tables.autocontrast,
    "equalize": tables.equalize,
    "invert": tables.invert,
    "posterize": tables.posterize,
    "solarize": tables.solarize,
    "solarize-add": tables.solarize_add,
    "contrast": tables.contrast,
    "brightness": tables.brightness,
}
BLENDS: dict[str, Change] = {"colour": colours.colour, "sharpness": colours.sharpness}
MOVES: dict[str, Callable[[Tensor, int, int], Tensor]] = {
    "rotate": places.rotation,
    "shear-x": places.shear_x,
    "shear-y": places.shear_y,
    "translate-x": places.translation_x,
    "translate-y": places.translation_y,
}
ALL = ("identity", *TABLES, *BLENDS, *MOVES)
Version = Literal["paper", "deit"]
# The paper's 14 operations, always applied; DeiT's 15, each applied with probability 1/2.
LISTS: dict[Version, tuple[str, ...]] = {
    "paper": tuple(name for name in ALL if name not in ("invert", "solarize-add")),
    "deit": tuple(name for name in ALL if name != "identity"),
}
_APPLIED = {"paper": 1.0, "deit": 0.5}
_SIGNED = {"rotate": 30.0, "shear-x": 0.3, "shear-y": 0.3, "translate-x": 0.45, "translate-y": 0.45}
_ENHANCED = ("colour", "contrast", "brightness", "sharpness")


def amount(name: str, strength: Tensor, sign: Tensor, version: Version) -> Tensor:
    """Return the argument of an operation (degrees, factor, threshold, bits, ...) for a magnitude from 0 to 10.

    In DeiT's version the effect grows with the magnitude; in the paper's, the four factors run from 0.1 to 1.9, bits
    and threshold from 0 upwards.
    """
    fraction, increasing = strength / 10, version == "deit"
    if name in _SIGNED:
        return sign * fraction * _SIGNED[name]
    if name in _ENHANCED:
        return (1 + sign * fraction * 0.9).clamp(min=0.1) if increasing else 0.1 + 1.8 * fraction
    if name == "posterize":
        return 4 - (4 * fraction).floor() if increasing else (4 * fraction).floor()
    if name == "solarize":
        return 256 - (256 * fraction).floor() if increasing else (256 * fraction).floor()
    return (110 * fraction).floor() if name == "solarize-add" else torch.zeros_like(fraction)


def operate(pixels: Tensor, names: Tensor, amounts: Tensor, colour: Sequence[float] = (0.5,)) -> Tensor:
    """Apply one operation per image. names: indices into ALL; names and amounts are on the CPU.

    All lookup tables are applied together, and all affine maps in one grid sampling.
    """
    height, width = pixels.shape[-2:]

    def by_table(chosen: Tensor, rows: Tensor) -> Tensor:
        whole = chosen.new_empty(len(chosen), chosen.shape[1], 256)
        for name, table in TABLES.items():
            these = (names[rows] == ALL.index(name)).nonzero()[:, 0]
            if len(these):
                there = to_device(these, chosen.device)
                these_amounts = to_device(amounts[rows[these]], chosen.device)
                found = table(chosen.index_select(0, there), these_amounts)
                whole.index_copy_(0, there, found.expand(-1, chosen.shape[1], -1))
        return tables.look_up(chosen, whole)

    def by_matrix(chosen: Tensor, rows: Tensor) -> Tensor:
        matrices = torch.empty(len(rows), 2, 3, dtype=torch.float64)
        for name, matrix in MOVES.items():
            these = names[rows] == ALL.index(name)
            matrices[these] = matrix(amounts[rows[these]], height, width)
        return places.moved(chosen, matrices, colour)

    pixels = apply_to(pixels, _one_of(names, TABLES), by_table)
    for name, blend in BLENDS.items():
        pixels = apply_to(pixels, names == ALL.index(name), with_amounts(blend, amounts))
    return apply_to(pixels, _one_of(names, MOVES), by_matrix)


def _one_of(names: Tensor, group: dict[str, Change] | dict[str, Callable[[Tensor, int, int], Tensor]]) -> Tensor:
    return torch.isin(names, torch.tensor([ALL.index(name) for name in group]))


@dataclass(frozen=True)
class RandAugment:
    """RandAugment. strength: magnitude from 0 to 10. spread: standard deviation of the noise per operation."""

    strength: float
    spread: float = 0.0
    version: Version = "deit"
    layers: int = 2

    def plan(self, draws: Draws) -> StagePlan:
        """Draw operations and their arguments, each (count, layers)."""
        names, amounts = zip(*(self._layer(draws.host, layer) for layer in range(self.layers)), strict=True)
        return torch.stack(names, 1), torch.stack(amounts, 1)

    def _layer(self, draws: Draws, layer: int) -> StagePlan:
        listed = LISTS[self.version]
        numbers = torch.tensor([ALL.index(name) for name in listed])
        names = numbers[draws.integers(Purpose.OPERATION, 0, len(listed) - 1, layer)]
        applied = draws.uniform(Purpose.APPLIED, layer) < _APPLIED[self.version]
        spread = self.spread * draws.normal(Purpose.SPREAD, Purpose.SPREAD_ANGLE, layer) if self.spread else 0.0
        strength = (self.strength + spread + torch.zeros(len(names))).clamp(0, 10)
        sign = torch.where(draws.uniform(Purpose.SIGN, layer) < 0.5, -1.0, 1.0)
        amounts = torch.zeros(len(names))
        for name in listed:
            amounts = torch.where(names == ALL.index(name), amount(name, strength, sign, self.version), amounts)
        return torch.where(applied, names, ALL.index("identity")), amounts

    def __call__(self, pixels: Tensor, plan: StagePlan, given: StageContext) -> Tensor:
        names, amounts = plan
        for layer in range(self.layers):
            pixels = operate(pixels, names[:, layer], amounts[:, layer], given.colour)
        return pixels
