"""The positional schemes that the lectures compare, exchanged in every family that can take them."""

from dataclasses import replace
from typing import get_args

import pytest
import torch
from torch import Tensor, nn

import patchword
from patchword.core.grid import Grid
from patchword.layers import (
    POSITIONS,
    Block,
    ImagePosition,
    ImagePositionName,
    LearnedPositions,
    LocalEnhancement,
    NoPositions,
    Pattern,
    Position,
    RelativeTable,
    Residual,
    SinusoidalPositions,
)
from patchword.models import REGISTRY
from patchword.models.vision import cswin, cvt, pale, pvt, swin, vit
from support.helpers import difference, pixels, randomise
from support.sweeps import covering, sweep

ALL = ["vit-exercise", "swin-mini", "cswin-mini", "pale-mini"]
OF_MAPS = (
    "none",
    "learned",
    "sinusoidal",
    "conditional",
    "fourier",
    "floater",
)  # queries and keys are two maps: no offsets, no groups
CASES = [(name, scheme) for name in ALL for scheme in POSITIONS]
CASES += [(name, scheme) for name in ("pvt-mini", "cvt-mini") for scheme in OF_MAPS]
# By default ViT (all tokens) and Swin (windows) with every scheme, and every family with one; the other pairs are slow.
SWEEP = sweep(CASES, covering(CASES) | {case for case in CASES if case[0] == "swin-mini"})


def make(name: str, scheme: str, **overrides: object) -> nn.Module:
    return randomise(patchword.create(name, position=scheme, **overrides)).eval()


def test_a_config_can_name_every_scheme_and_no_other():
    assert set(get_args(ImagePositionName)) == set(POSITIONS)


@pytest.mark.parametrize(("name", "scheme"), SWEEP)
def test_a_family_learns_with_every_scheme(name, scheme):
    model = make(name, scheme).train()
    tokens, grid = model.encode(pixels(2, 1, 28, 28))
    (model.head(tokens, grid).square().mean() + tokens.square().mean()).backward()
    for parameter, value in model.named_parameters():
        assert value.grad is not None, parameter
        assert value.grad.any(), parameter


@pytest.mark.parametrize(("name", "scheme"), SWEEP)
@torch.no_grad()
def test_a_family_takes_any_size_with_every_scheme(name, scheme):
    scores = make(name, scheme)(pixels(2, 1, 19, 34))
    assert scores.shape == (2, 10)
    assert scores.isfinite().all()


@pytest.mark.parametrize(("name", "scheme"), SWEEP)
def test_a_scheme_adds_its_own_weights_and_changes_no_other(name, scheme):
    bare, model = patchword.create(name, position="none"), patchword.create(name, position=scheme)
    without = {key: value.shape for key, value in bare.state_dict().items()}
    shapes = {key: value.shape for key, value in model.state_dict().items()}
    added = {key for key in shapes if key not in without}
    blocks = [key for key, module in model.named_modules() if isinstance(module, Block)]
    patterns = [key for key, module in model.named_modules() if isinstance(module, Pattern)]
    both = ("weight", "bias")
    fourier = ("frequencies", "up", "up_bias", "down", "down_bias")
    flow = ("start", "up", "up_time", "up_bias", "down", "down_bias")
    tables = range(len(model.stages) if name == "pvt-mini" else 1)  # PVT has one in each stage
    stems = [f"stages.{stage}.positions" for stage in tables]
    expected = {
        "none": set(),
        "sinusoidal": set(),
        "learned": {f"stages.{stage}.positions.table" for stage in tables},
        "relative": {f"{pattern}.position.table" for pattern in patterns},
        "local": {f"{pattern}.position.convolution.{kind}" for pattern in patterns for kind in both},
        "conditional": {f"{block}.position.sublayer.convolution.{kind}" for block in blocks for kind in both},
        "shaw": {f"{pattern}.position.{kind}" for pattern in patterns for kind in ("keys", "values")},
        "fourier": {f"{stage}.features.{kind}" for stage in stems for kind in fourier},
        "floater": {f"{stage}.{way}.{kind}" for stage in stems for way in ("rows", "columns") for kind in flow},
    }
    assert added == expected[scheme]
    assert {key: shapes[key] for key in without} == without


class Shuffled(nn.Module):
    """An stem whose tokens come out in another order."""

    def __init__(self, stem: nn.Module) -> None:
        super().__init__()
        self.stem = stem

    def forward(self, images: Tensor) -> tuple[Tensor, Grid]:
        tokens, grid = self.stem(images)
        return tokens[:, torch.randperm(tokens.shape[1], generator=torch.Generator().manual_seed(4))], grid


# One stage and one window, so that without positions the tokens are a set: their order cannot be told.
SETS = {
    "vit-exercise": {},
    "swin-mini": {"depths": (2,), "heads": (2,), "image": 14},
    "cswin-mini": {"depths": (2,), "heads": (2,), "stripes": (7,), "image": 14},
}


@pytest.mark.parametrize("scheme", POSITIONS)
@pytest.mark.parametrize("name", SETS)
@torch.no_grad()
def test_only_without_positions_the_order_of_the_tokens_cannot_be_told(name, scheme):
    model, images = make(name, scheme, **SETS[name]), pixels(2, 1, 14, 14)
    before = model(images)
    model.stages[0].stem = Shuffled(model.stages[0].stem)
    changed = difference(model(images), before)
    assert changed < 1e-5 if scheme == "none" else changed > 1e-2


@torch.no_grad()
def test_windows_tell_apart_what_is_in_different_ones():
    """The partition itself is a position: exchanging patches of two windows shows even without a scheme."""
    model, images = make("swin-mini", "none", depths=(1,), heads=(2,)), pixels(1, 1, 28, 28)

    def exchanged(first: int, second: int) -> Tensor:
        """six rows of pixels, in the columns of the left window"""
        changed = images.clone()
        changed[..., first : first + 6, :14] = images[..., second : second + 6, :14]
        changed[..., second : second + 6, :14] = images[..., first : first + 6, :14]
        return model(changed)

    assert difference(exchanged(0, 6), model(images)) < 1e-5
    assert difference(exchanged(0, 14), model(images)) > 1e-3


@pytest.mark.parametrize("name", [*ALL, "pvt-mini", "cvt-mini"])
@torch.no_grad()
def test_no_two_schemes_compute_the_same(name):
    """The same weights but those of the scheme itself, which differ from nought."""
    images, answers = pixels(1, 1, 28, 28), {}
    bare = make(name, "none")
    for scheme in POSITIONS if name in ALL else OF_MAPS:
        model = make(name, scheme)
        model.load_state_dict(bare.state_dict(), strict=False)
        answers[scheme] = model(images)
    schemes = list(answers)
    for index, first in enumerate(schemes):
        for second in schemes[:index]:
            assert difference(answers[first], answers[second]) > 1e-3, (first, second)


class Told(Position):
    """Remembers the sizes it was made for."""

    def __init__(self, width: int, heads: int, group: Grid) -> None:
        super().__init__()
        self.sizes = (width, heads, group)


FAMILIES = {
    "vit-exercise": vit,
    "swin-mini": swin,
    "cswin-mini": cswin,
    "pale-mini": pale,
    "pvt-mini": pvt,
    "cvt-mini": cvt,
}


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_a_scheme_of_ones_own_is_used_instead_of_the_named_one(name):
    """Sinusoids and CPE at once, which no name gives."""
    own = replace(POSITIONS["sinusoidal"], in_block=POSITIONS["conditional"].in_block)
    config = REGISTRY.configure(name, {"position": "learned"})
    model = randomise(FAMILIES[name].build(config, own)).eval()
    assert isinstance(model.stages[0].positions, SinusoidalPositions)
    assert not any(isinstance(module, LearnedPositions) for module in model.modules())
    blocks = [block for stage in model.stages for block in stage.encoder.blocks]
    assert all(isinstance(block.position, Residual) for block in blocks)
    assert [child for child, _ in blocks[0].named_children()] == ["position", "attention", "feed_forward"]
    assert model(pixels(1, 1, 28, 28)).isfinite().all()


GROUPS = {
    "vit-exercise": [(64, 4, Grid(7, 7, prefix=1))] * 4,
    "swin-mini": [(32, 2, Grid(7, 7))] * 2 + [(64, 4, Grid(7, 7))] * 2,
    "cswin-mini": [(16, 1, Grid(14, 2)), (16, 1, Grid(2, 14))] * 2 + [(64, 4, Grid(7, 7))] * 2,
    "pale-mini": [(16, 1, Grid(7, 14)), (16, 1, Grid(14, 7))] * 2 + [(32, 2, Grid(7, 7)), (32, 2, Grid(7, 7))] * 2,
}


@pytest.mark.parametrize("name", GROUPS)
def test_a_scheme_is_told_the_channels_the_heads_and_the_group_of_each_pattern(name):
    model = FAMILIES[name].build(REGISTRY.configure(name, {}), ImagePosition(in_attention=Told))
    assert [module.sizes for module in model.modules() if isinstance(module, Told)] == GROUPS[name]
    assert isinstance(model.stages[0].positions, NoPositions)


@pytest.mark.parametrize(
    ("name", "part"),
    [("swin-mini", RelativeTable), ("cswin-mini", LocalEnhancement), ("vit-exercise", LearnedPositions)],
)
def test_each_family_starts_with_the_position_of_its_paper(name, part):
    found = {type(module) for module in patchword.create(name).modules()}
    assert part in found
    assert not found & ({RelativeTable, LocalEnhancement, LearnedPositions, SinusoidalPositions} - {part})


def test_pvt_has_a_table_in_each_stage_that_is_resized_with_a_bilinear_filter():
    """The grids of the stages; [CLS] joins in the last one."""
    tables = [stage.positions for stage in patchword.create("pvt-mini").stages]
    assert [(table.grid, table.interpolation) for table in tables] == [
        (Grid(14, 14), "bilinear"),
        (Grid(7, 7, prefix=1), "bilinear"),
    ]
    assert patchword.create("vit-exercise").stages[0].positions.interpolation == "bicubic"
