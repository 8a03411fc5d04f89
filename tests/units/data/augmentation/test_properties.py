"""What every augmentation has to keep: shape, range, the same numbers again, nothing at no strength, no waiting."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from patchword.core.card import Normalization
from patchword.core.errors import UserError
from patchword.data.augmentation.augmentation import Augmentation
from patchword.data.augmentation.boxes import Crop, Erasing
from patchword.data.augmentation.color import ColorJitter, ThreeAugment
from patchword.data.augmentation.flip_shift_square import BlackSquare, Flip, Shift
from patchword.data.augmentation.mixing import Mixing, beta
from patchword.data.augmentation.presets import PARTS, PRESETS
from patchword.data.augmentation.randaugment import ALL, LISTS, amount, operate
from patchword.data.augmentation.random_draws import Draws
from patchword.data.augmentation.stage import Stage, StageContext
from patchword.data.image.batches import Batch, Batches
from patchword.data.image.images import Images, InMemory
from patchword.recipes.image.recipe import ImageRecipe

COUNT = 64
DRAWS = Draws(0, 0, torch.arange(COUNT))
GIVEN = StageContext(DRAWS, (0.5,))
PREPARATION = Normalization((0.5,), (0.25,))
BLACK, WHITE = -2.0, 2.0  # what it makes of them
WHOLE = {name: Augmentation(**fields) for name, fields in {**PARTS, **PRESETS}.items()}


def batches(channels: int = 3) -> Batches:
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (COUNT, channels, 16, 16), dtype=torch.uint8, generator=generator)
    labels, keys = torch.arange(COUNT) % 5, torch.arange(COUNT)
    images = Images("noise", "here", InMemory(pixels), labels, tuple("abcde"), keys)
    return Batches(images, COUNT, PREPARATION, torch.device("cpu"))


def first(augmentation: Augmentation, channels: int = 3, epoch: int = 0) -> Batch:
    return next(batches(channels).epoch(epoch, 7, augmentation))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", WHOLE)
def test_every_part_keeps_shape_and_range_and_repeats_itself(name, channels):
    plain, batch = first(Augmentation(), channels), first(WHOLE[name], channels)
    assert (batch.inputs.shape, batch.inputs.dtype) == (plain.inputs.shape, torch.float32)
    if WHOLE[name].erasing_fill != "pixel":  # noise is normal, whatever black and white are
        assert float(batch.inputs.min()) >= BLACK - 1e-5
        assert float(batch.inputs.max()) <= WHITE + 1e-5
    assert bool(batch.inputs.isfinite().all())
    again = first(WHOLE[name], channels)
    assert all(torch.equal(one, other) for one, other in zip(batch, again, strict=True))
    if name not in ("none", "repeats"):
        assert not torch.equal(batch.inputs, plain.inputs)
        assert not torch.equal(batch.inputs, first(WHOLE[name], channels, epoch=1).inputs)


@pytest.mark.parametrize(
    "stage",
    [
        Flip(0.0),
        Shift(0),
        BlackSquare(0.0),
        ColorJitter(0.0),
        ThreeAugment(0.0),
        Erasing(0.0, True),
        Erasing(0.0, False),
    ],
    ids=lambda stage: type(stage).__name__,
)
def test_a_stage_of_no_strength_is_nothing(stage: Stage):
    pixels = torch.randint(0, 256, (COUNT, 3, 12, 10), dtype=torch.uint8)
    assert torch.equal(stage(pixels, stage.plan(DRAWS), GIVEN), pixels)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("name", sorted(set(LISTS["deit"]) - {"autocontrast", "equalize", "invert", "posterize"}))
def test_an_operation_of_no_strength_is_nothing(name, sign):
    """Three have no strength, and the published posterize begins with 4 bits."""
    pixels = torch.randint(0, 256, (4, 3, 12, 10), dtype=torch.uint8)
    amounts = amount(name, torch.zeros(4), torch.full((4,), sign), "deit")
    assert torch.equal(operate(pixels, torch.full((4,), ALL.index(name)), amounts), pixels)


def test_pictures_that_are_not_mixed_stay_what_they_are():
    mixing, (inputs, others) = Mixing(0.8, 1.0, probability=0.0), torch.randn(2, COUNT, 3, 9, 7)
    mixed, kept = mixing(inputs, others, mixing.plan(DRAWS))
    assert torch.equal(mixed, inputs)
    assert torch.equal(kept, torch.ones(COUNT))


def test_a_mixed_picture_lies_between_the_two():
    mixing, (inputs, others) = Mixing(0.8, 1.0), torch.randn(2, COUNT, 3, 9, 7)
    mixed, kept = mixing(inputs, others, mixing.plan(DRAWS))
    assert bool((mixed >= torch.minimum(inputs, others) - 1e-6).all())
    assert bool((mixed <= torch.maximum(inputs, others) + 1e-6).all())
    own = (mixed == inputs).all(1).float().mean((1, 2))  # of CutMix, the share of pixels is that of the label
    cut = mixing.plan(DRAWS)[1]
    assert torch.allclose(own[cut], kept[cut], atol=1e-6)


@pytest.mark.parametrize(("height", "width"), [(4, 64), (64, 4)])
def test_of_a_long_picture_no_more_is_erased_than_of_others(height, width):
    """A box that fits is rare there; where none was found, nothing is taken, least of all everything."""
    erasing, many = Erasing(1.0, False), Draws(0, 0, torch.arange(2000))
    inputs = torch.ones(2000, 1, height, width)
    gone = (erasing(inputs, erasing.plan(many), StageContext(many, (0.5,))) == 0).float().mean((1, 2, 3))
    assert float(gone.max()) < 0.36
    assert bool((gone == 0).any())


def test_of_a_very_long_picture_a_crop_keeps_all():
    pixels = torch.randint(0, 256, (COUNT, 1, 2, 90), dtype=torch.uint8)
    crop = Crop(0.9)
    assert torch.equal(crop(pixels, crop.plan(DRAWS), GIVEN), pixels)


@pytest.mark.parametrize("concentration", [10.0, 100.0, 3000.0])
def test_a_large_concentration_mixes_half_and_half(concentration):
    found = beta(Draws(0, 0, torch.arange(20000)).uniform(45), concentration)
    assert float(found.mean()) == pytest.approx(0.5, abs=0.01)
    assert float(found.var()) == pytest.approx(1 / (4 * (2 * concentration + 1)), rel=0.03)


class Waits(TorchFunctionMode):
    """Notes whatever would make the main program wait for an accelerator."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, getattr(function, "__name__", "")
        moves = name == "to" and any(isinstance(value, torch.device) for value in (*args, *kwargs.values()))
        if (moves and not kwargs.get("non_blocking")) or name in ("item", "tolist", "cpu", "__bool__", "__float__"):
            self.found.append(name)
        return function(*args, **kwargs)


@pytest.mark.parametrize("name", ["deit", "3-augment", "light"])
def test_a_batch_is_changed_without_waiting_for_the_device(name):
    augmentation = WHOLE[name]
    pixels = torch.randint(0, 256, (COUNT, 3, 16, 16), dtype=torch.uint8)
    changes = augmentation.changes(0, 0, torch.arange(COUNT))
    with Waits() as waits:
        inputs = augmentation.finish(augmentation.apply(pixels, changes).float(), changes)
        if augmentation.mixing:
            augmentation.mixing(inputs, inputs.flip(0), changes.mixing)
    assert waits.found == []


def test_waiting_would_be_seen():
    with Waits() as waits:
        moved: Tensor = torch.ones(1).to(torch.device("cpu"))
        assert float(moved) == 1
    assert waits.found == ["to", "__float__"]


@pytest.mark.parametrize("typed", ["[[flip]]", "[{flip: 1}]", "[1]", "[flip", "{flip: 1}", "deti"])
def test_what_is_no_augmentation_is_refused(typed):
    with pytest.raises(UserError, match="recipe field 'augmentation': expected none, light, deit"):
        ImageRecipe().with_settings([f"augmentation={typed}"])
