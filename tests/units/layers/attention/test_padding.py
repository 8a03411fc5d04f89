"""Where windows, stripes or pales do not divide a map, nothing that stands in the padding reaches a real token."""

from collections.abc import Callable, Iterator
from itertools import cycle

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import patchword
from patchword.core.grid import Grid
from patchword.layers import (
    Attention,
    Interlaced,
    LocalEnhancement,
    Pattern,
    Pyramid,
    Windows,
    members,
    record_attention,
    reference_attention,
)
from patchword.layers.attention import windows as rectangles
from support.helpers import difference, pixels, randomise

ROLES = ("query", "key", "value")  # the order in which the core splits them
SIZES = [(29, 31), (22, 38), (9, 40)]  # of images whose maps no rectangle divides
CASES = [
    ("swin-mini", "relative"),  # the paper's own
    ("swin-mini", "none"),  # the mask stays boolean where there is no bias
    ("cswin-mini", "local"),
    ("cswin-mini", "none"),
    ("pale-mini", "conditional"),
    ("pale-mini", "relative"),
]


class Filling:
    """Fills the padding of queries, keys or values; the labels that masks are made of keep theirs."""

    def __init__(self, roles: tuple[str, ...], fill: Callable[[Tensor], Tensor]) -> None:
        self.roles, self.fill = roles, fill
        self.turn: Iterator[str] = cycle(ROLES)
        self.real = rectangles._padded
        self.filled = 0

    def __call__(self, tokens: Tensor, grid: Grid, tile: Grid) -> Tensor:
        feature_map = self.real(tokens, grid, tile)
        if not tokens.is_floating_point() or next(self.turn) not in self.roles:
            return feature_map
        padding = self.real(torch.ones_like(tokens), grid, tile) == 0
        self.filled += int(padding.sum())
        return torch.where(padding, self.fill(feature_map), feature_map)


def noise(feature_map: Tensor) -> Tensor:
    return 1e3 * pixels(*feature_map.shape, seed=7)


def make(name: str, scheme: str) -> Pyramid:
    return randomise(patchword.create(name, position=scheme)).eval()


def padded_roles(scheme: str) -> tuple[str, ...]:
    """LePE reads the values of its group: there the padding has to be the zeros a convolution has at its border."""
    return ROLES[:2] if scheme == "local" else ROLES


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "plain"])
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize(("name", "scheme"), CASES)
@torch.no_grad()
def test_garbage_in_the_padding_changes_no_score(name, scheme, size, fused, monkeypatch):
    model, images = make(name, scheme), pixels(2, 1, *size)
    for module in model.modules():
        if isinstance(module, Attention):
            module.core.fused = fused
    before = model(images)
    filling = Filling(padded_roles(scheme), noise)
    monkeypatch.setattr(rectangles, "_padded", filling)
    after = model(images)
    assert filling.filled > 1000
    assert difference(after, before) < 1e-6


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(("name", "scheme"), CASES)
@torch.no_grad()
def test_without_the_mask_the_garbage_would_show(name, scheme, role, monkeypatch):
    """The mutation: were the partition's mask forgotten, the test above would fail, for keys as for values."""
    model, images = make(name, scheme), pixels(2, 1, *SIZES[0])
    for kind in (Windows, Interlaced):
        monkeypatch.setattr(kind, "mask", lambda *_: None)
    before = model(images)
    monkeypatch.setattr(rectangles, "_padded", Filling((role,), noise))
    changed = difference(model(images), before)
    if role == "query":
        assert changed < 1e-6  # what a padding token reads is cut off, mask or no mask
    else:
        assert changed > 1e-2


@pytest.mark.parametrize(("name", "scheme"), CASES)
def test_no_gradient_flows_into_the_padding(name, scheme, monkeypatch):
    fills: list[Tensor] = []

    def leaf(feature_map: Tensor) -> Tensor:
        fills.append(torch.zeros_like(feature_map).requires_grad_())
        return fills[-1]

    model, images = make(name, scheme), pixels(2, 1, *SIZES[0])
    monkeypatch.setattr(rectangles, "_padded", Filling(padded_roles(scheme), leaf))
    with reference_attention(model):
        model(images).square().sum().backward()
    assert len(fills) >= 4
    assert not any(fill.grad.any() for fill in fills)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize(("name", "scheme"), CASES)
@torch.no_grad()
def test_real_tokens_give_padding_no_weight_at_all(name, scheme, size):
    model, seen = make(name, scheme), 0
    with record_attention(model) as maps:
        model(pixels(2, 1, *size))
    for attention in maps:
        real = attention.groups() >= 0
        weights = attention.weights.unflatten(0, (-1, len(real))).transpose(1, 2)  # (batch, heads, groups, ...)
        given = weights * (real[:, :, None] & ~real[:, None, :])
        assert not given.any(), attention.layer
        kept = (weights * (real[:, :, None] & real[:, None, :])).sum(-1)[:, :, real]
        torch.testing.assert_close(kept, torch.ones_like(kept))
        seen += int((~real).sum())
    assert seen > 10


# LePE


def calls_of_lepe(model: Pyramid, images: Tensor) -> list[tuple[Pattern, LocalEnhancement, Tensor, Grid, Tensor]]:
    """pattern, part, values, the group's grid and what was added, of every call"""
    calls = []
    for module in model.modules():
        if isinstance(module, Pattern) and isinstance(module.position, LocalEnhancement):

            def enhance(attended, value, inner, pattern=module, part=module.position):
                answer = LocalEnhancement.enhance(part, attended, value, inner)
                calls.append((pattern, part, value, inner, answer - attended))
                return answer

            module.position.enhance = enhance
    model(images)
    return calls


@pytest.mark.parametrize("size", SIZES, ids=str)
@torch.no_grad()
def test_to_a_local_convolution_padding_is_the_border_of_the_group(size):
    """Its values are zeros, so a group that is cut short is convolved as if it ended where the map ends."""
    model, images = make("cswin-mini", "local"), pixels(1, 1, *size)
    grids = [Grid(*feature_map.shape[2:]) for feature_map in model.backbone()(images)]
    cut_short = 0
    for pattern, part, value, inner, local in calls_of_lepe(model, images):
        grid = next(grid for grid in grids if pattern.partition.inner(grid) == inner)
        groups = members(pattern.partition, grid.tokens, grid)
        assert len(groups) == len(value)
        for group, values, added in zip(groups, value, local, strict=True):
            real = (group >= 0).view(inner.height, inner.width)
            if real.all():
                continue
            rows, columns = int(real.any(1).sum()), int(real.any(0).sum())
            feature_map = values.transpose(1, 2).flatten(0, 1).unflatten(1, (inner.height, inner.width))
            assert not feature_map[:, ~real].any()
            weight, bias = part.convolution.weight, part.convolution.bias
            alone = F.conv2d(feature_map[None, :, :rows, :columns], weight, bias, padding=1, groups=len(weight))
            answer = added.transpose(1, 2).flatten(0, 1).unflatten(1, (inner.height, inner.width))
            torch.testing.assert_close(answer[:, :rows, :columns], alone[0], atol=1e-4, rtol=1e-4)
            cut_short += 1
    assert cut_short > 0


@torch.no_grad()
def test_garbage_in_the_values_would_reach_a_local_convolution(monkeypatch):
    """Which is why they must be zeros: a mask alone does not keep a convolution from reading them."""
    model, images = make("cswin-mini", "local"), pixels(2, 1, *SIZES[0])
    before = model(images)
    monkeypatch.setattr(rectangles, "_padded", Filling(("value",), noise))
    assert difference(model(images), before) > 1e-2
