"""Single operations on 8-bit pictures, against Pillow's."""

import math

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps

from patchword.data.augmentation import color as colours
from patchword.data.augmentation import geometry as places
from patchword.data.augmentation import lookup_tables as tables
from patchword.data.augmentation.randaugment import ALL, LISTS, RandAugment, amount, operate
from patchword.data.augmentation.random_draws import Draws

FILL = (0.2, 0.4, 0.6)
PAINT = tuple(round(255 * part) for part in FILL)


@pytest.fixture(params=[1, 3], ids=["grey", "colour"])
def pixels(request):
    """Noise; a narrow range; one colour with a spot; a gradient: what tables and histograms can get wrong."""
    torch.manual_seed(0)
    channels = request.param
    noise = torch.randint(0, 256, (4, channels, 20, 14), dtype=torch.uint8)
    noise[1] = noise[1] // 4 + 90
    noise[2] = 77
    noise[2, :, 5:7, 3:9] = 200
    noise[3] = (torch.arange(14) * 18).to(torch.uint8)
    return noise


def image(picture: torch.Tensor) -> Image.Image:
    array = picture.permute(1, 2, 0).numpy()
    return Image.fromarray(array[:, :, 0] if array.shape[2] == 1 else array)


def tensor(picture: Image.Image) -> torch.Tensor:
    array = np.asarray(picture).copy()
    return torch.from_numpy(array.reshape(array.shape[0], array.shape[1], -1)).permute(2, 0, 1)


def by_pillow(pixels: torch.Tensor, change) -> torch.Tensor:
    return torch.stack([tensor(change(image(picture))) for picture in pixels])


def by_us(pixels: torch.Tensor, name: str, value: float) -> torch.Tensor:
    numbers = torch.full((len(pixels),), ALL.index(name))
    colour = FILL if pixels.shape[1] == 3 else FILL[:1]
    return operate(pixels, numbers, torch.full((len(pixels),), float(value)), colour)


EXACT = [
    ("autocontrast", 0, ImageOps.autocontrast),
    ("equalize", 0, ImageOps.equalize),
    ("invert", 0, ImageOps.invert),
    *[("posterize", bits, lambda one, bits=bits: ImageOps.posterize(one, bits)) for bits in (1, 3, 4, 8)],
    *[("solarize", level, lambda one, level=level: ImageOps.solarize(one, level)) for level in (0, 26, 128, 256)],
    *[
        (name, factor, lambda one, kind=kind, factor=factor: kind(one).enhance(factor))
        for name, kind in (
            ("brightness", ImageEnhance.Brightness),
            ("contrast", ImageEnhance.Contrast),
            ("colour", ImageEnhance.Color),
            ("sharpness", ImageEnhance.Sharpness),
        )
        for factor in (0.1, 0.55, 1.0, 1.45, 1.9)
    ],
]


@pytest.mark.parametrize(("name", "value", "change"), EXACT, ids=[f"{name} {value}" for name, value, _ in EXACT])
def test_colour_operations_equal_pillows(pixels, name, value, change):
    """Blends may be one level off in a few pixels: whether a compiler fused Pillow's product and sum is its own."""
    apart = (by_us(pixels, name, value).int() - by_pillow(pixels, change).int()).abs()
    fused = name in ("brightness", "contrast", "colour", "sharpness")
    assert apart.max() <= fused
    assert apart.float().mean() < 0.01


def affine(*matrix):
    def change(one: Image.Image) -> Image.Image:
        paint = PAINT if one.mode == "RGB" else PAINT[0]
        return one.transform(one.size, Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR, fillcolor=paint)

    return change


def rotated(degrees):
    return lambda one: one.rotate(
        degrees, Image.Resampling.BILINEAR, fillcolor=PAINT if one.mode == "RGB" else PAINT[0]
    )


@pytest.mark.parametrize(
    ("name", "value", "change"),
    [
        ("rotate", 27, rotated(27)),
        ("rotate", -11.5, rotated(-11.5)),
        ("shear-x", 0.27, affine(1, 0.27, 0, 0, 1, 0)),
        ("shear-y", -0.27, affine(1, 0, 0, -0.27, 1, 0)),
        ("translate-x", 0.31, affine(1, 0, 0.31 * 14, 0, 1, 0)),
        ("translate-y", -0.4, affine(1, 0, 0, 0, 1, -0.4 * 20)),
    ],
)
def test_moves_are_pillows_within_one_level(pixels, name, value, change):
    """Pillow cuts what it interpolated off, we round it."""
    ours, pillows = by_us(pixels, name, value), by_pillow(pixels, change)
    assert (ours.int() - pillows.int()).abs().max() <= 1
    assert (ours != pixels).any()


def test_moves_by_whole_pixels_are_exact(pixels):
    ours = by_us(pixels, "translate-x", 3 / 14)
    assert torch.equal(ours[..., :-3], pixels[..., 3:])
    paint = torch.tensor(PAINT[: pixels.shape[1]], dtype=torch.uint8).view(1, -1, 1, 1)
    assert torch.equal(ours[..., -3:], paint.expand(4, -1, 20, 3))


@pytest.mark.parametrize("box", [(2, 3, 9, 8), (0, 0, 20, 14), (5, 1, 15, 3), (19, 13, 1, 1)])
def test_a_crop_is_pillows_crop_and_resize(pixels, box):
    top, left, rows, columns = box
    first, second = torch.full((4,), top), torch.full((4,), left)
    sides = torch.full((4,), rows), torch.full((4,), columns)
    ours = places.resampled(pixels, places.bicubic(first, sides[0], 20), places.bicubic(second, sides[1], 14))
    area = (left, top, left + columns, top + rows)
    pillows = by_pillow(pixels, lambda one: one.crop(area).resize((14, 20), Image.Resampling.BICUBIC))
    assert (ours.int() - pillows.int()).abs().max() <= 1


def test_the_matrix_of_a_crop():
    """The whole picture stays; every row shares out one."""
    matrix = places.bicubic(torch.tensor([0]), torch.tensor([8]), 8)
    assert torch.equal(matrix[0], torch.eye(8))
    assert torch.allclose(places.bicubic(torch.tensor([1]), torch.tensor([5]), 8).sum(2), torch.ones(1, 8))


def test_known_values():
    row = torch.tensor([0, 100, 127, 128, 200, 255], dtype=torch.uint8).view(1, 1, 1, 6)

    def at(name: str, value: float) -> list[int]:
        return by_us(row, name, value).flatten().tolist()

    assert at("solarize-add", 90) == [90, 190, 217, 128, 200, 255]
    assert at("solarize-add", 200) == [200, 255, 255, 128, 200, 255]
    assert at("solarize", 128) == [0, 100, 127, 127, 55, 0]
    assert at("posterize", 1) == [0, 0, 0, 128, 128, 128]
    assert at("brightness", 0.5) == [0, 50, 63, 64, 100, 127]
    assert at("invert", 0) == [255, 155, 128, 127, 55, 0]


NEUTRAL = {"posterize": 8, "solarize": 256, "brightness": 1, "contrast": 1, "colour": 1, "sharpness": 1}


@pytest.mark.parametrize("name", sorted(set(ALL) - {"autocontrast", "equalize", "invert"}))
def test_nothing_happens_at_the_neutral_amount(pixels, name):
    assert torch.equal(by_us(pixels, name, NEUTRAL.get(name, 0)), pixels)


@pytest.mark.parametrize("name", ALL)
def test_an_operation_answers_pictures_and_leaves_the_given(pixels, name):
    before = pixels.clone()
    value = {"rotate": 30, "posterize": 2, "solarize": 60, "solarize-add": 60}.get(name, 0.3)
    after = by_us(pixels, name, value)
    assert (after.shape, after.dtype) == (pixels.shape, torch.uint8)
    assert torch.equal(pixels, before)
    assert torch.equal(after, by_us(pixels, name, value))


def test_each_picture_has_an_operation_of_its_own(pixels):
    """All operations in one batch, each picture as if it were alone."""
    many = pixels.repeat(len(ALL), 1, 1, 1)
    names = torch.arange(len(ALL)).repeat_interleave(4)
    amounts = torch.linspace(0.2, 1.8, len(names))
    together = operate(many, names, amounts)
    for row in range(len(names)):
        alone = operate(many[row : row + 1], names[row : row + 1], amounts[row : row + 1])
        assert torch.equal(together[row : row + 1], alone), ALL[int(names[row])]


def test_deits_amounts_grow_with_the_strength():
    """rand-m9-inc1: what the strengths 0, 9 and 10 mean"""
    strength, plus = torch.tensor([0.0, 9.0, 10.0]), torch.ones(3)

    def of(name, sign=plus):
        return pytest.approx(amount(name, strength, sign, "deit").tolist(), abs=1e-5)

    assert of("rotate") == [0, 27, 30]
    assert of("shear-x", -plus) == [0, -0.27, -0.3]
    assert of("translate-y") == [0, 0.405, 0.45]
    assert of("contrast") == [1, 1.81, 1.9]
    assert of("sharpness", -plus) == [1, 0.19, 0.1]
    assert of("posterize") == [4, 1, 0]
    assert of("solarize") == [256, 26, 0]
    assert of("solarize-add") == [0, 99, 110]


def test_the_papers_amounts():
    strength, minus = torch.tensor([0.0, 9.0, 10.0]), -torch.ones(3)
    assert amount("brightness", strength, minus, "paper").tolist() == pytest.approx([0.1, 1.72, 1.9])
    assert amount("posterize", strength, minus, "paper").tolist() == [0, 3, 4]
    assert amount("solarize", strength, minus, "paper").tolist() == [0, 230, 256]


def test_the_lists_are_the_papers_fourteen_and_deits_fifteen():
    assert len(LISTS["paper"]) == 14
    assert set(LISTS["deit"]) - set(LISTS["paper"]) == {"invert", "solarize-add"}
    assert set(LISTS["paper"]) - set(LISTS["deit"]) == {"identity"}


def test_operations_strengths_and_signs_are_drawn_as_said():
    draws = Draws(0, 0, torch.arange(30000))
    names, amounts = RandAugment(5.0, 0.5, "deit").plan(draws)
    counts = torch.bincount(names.flatten(), minlength=len(ALL)) / names.numel()
    assert abs(float(counts[0]) - 0.5) < 0.01  # half of the time nothing
    assert (counts[1:] - 0.5 / 15).abs().max() < 0.005
    turned = amounts[names == ALL.index("rotate")]
    assert abs(float((turned > 0).float().mean()) - 0.5) < 0.05
    assert abs(float(turned.abs().mean()) - 15) < 0.2  # degrees
    assert abs(float(turned.abs().std()) - 1.5) < 0.1
    together = (names[:, 0] == names[:, 1]).float().mean()
    assert abs(float(together) - (0.25 + 0.25 / 15)) < 0.02  # the two layers are drawn apart
    assert (RandAugment(9.0, 0.0, "paper").plan(draws)[0] == 0).float().mean() < 0.1


def test_smoothing_keeps_the_border(pixels):
    after = colours.smooth(pixels)
    assert torch.equal(after[..., 0, :], pixels[..., 0, :])
    spot = torch.zeros(1, 1, 5, 5, dtype=torch.uint8)
    spot[..., 2, 2] = 130
    assert colours.smooth(spot)[0, 0, 1:4, 1:4].tolist() == [[10, 10, 10], [10, 50, 10], [10, 10, 10]]


def test_blur_is_a_bell_of_its_width():
    spot = torch.zeros(1, 1, 41, 41, dtype=torch.uint8)
    spot[..., 20, :] = 255  # a line, so that eight bits do not lose the tails
    after = colours.blur(spot, torch.tensor([2.0]))[0, 0, :, 20].double()
    place = torch.arange(41).double() - 20
    assert abs(float(after.sum()) - 255) <= 4
    assert float((after * place.square()).sum() / after.sum()) == pytest.approx(4.0, abs=0.25)
    assert torch.equal(colours.blur(spot, torch.tensor([0.01])), spot)


def test_grey_is_pillows(pixels):
    assert torch.equal(tables.grey(pixels), by_pillow(pixels, lambda one: one.convert("L")))
    assert math.isclose(float(tables.grey(torch.full((1, 3, 1, 1), 200, dtype=torch.uint8))), 200)
