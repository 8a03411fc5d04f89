"""The conv_stem_norm kernel matches its reference, on a GPU or in Triton's interpreter."""

import random
from copy import deepcopy

import pytest
import torch
from torch import nn

from patchword.fusion import stem as fused
from patchword.fusion.rules import fuse
from patchword.kernels.stem import conv_stem_norm as kernel
from patchword.kernels.stem.conv_stem_norm import has_conv_stem_norm_kernel
from patchword.kernels.stem.reference import ConvStemWeights, conv_stem_norm_reference
from patchword.layers.convolution.stem import overlapping
from support.helpers import difference
from support.kernel_tests import DEVICE, assert_as_exact, assert_rounded, needs_triton
from support.kernel_tests import error as distance


def given(shape, width, side=7, dtype=torch.float32, seed=0):
    """Returns an image, and the weights of a convolution and a norm."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape, by=1.0):
        return (torch.randn(*shape, generator=generator) * by).to(DEVICE, dtype)

    weight = normal(width, shape[1], side, side, by=0.2)
    return normal(*shape), ConvStemWeights(weight, normal(width), 1 + normal(width, by=0.2), normal(width))


def by_kernel(image, parts, stride=4, padding=3, eps=1e-5, dtype=None):
    return torch.ops.patchword.conv_stem_norm(image, *parts, stride, padding, eps, dtype or parts.weight.dtype)


def exactly(image, parts, *rest):
    return conv_stem_norm_reference(image.double(), ConvStemWeights(*(part.double() for part in parts)), *rest)


def check(found, image, parts, stride=4, padding=3):
    """The kernel is about as exact as the reference in the same dtype."""
    rest = stride, padding, 1e-5
    expected = conv_stem_norm_reference(image, parts, *rest)
    assert found.shape == expected.shape
    if found.dtype == torch.float32:
        assert_as_exact([found], [expected], [exactly(image, parts, *rest)])
    else:
        assert_rounded([found], [exactly(image, parts, *rest)])


@needs_triton
@pytest.mark.parametrize("width", [16, 24, 64, 96, 128])
@pytest.mark.parametrize(("side", "stride"), [(7, 4), (3, 2), (4, 4), (9, 4)])
def test_kernel_matches_reference(width, side, stride):
    numbers = random.Random(f"{width} {side}")
    shape = numbers.randint(1, 3), numbers.randint(1, 4), numbers.randint(side, 30), numbers.randint(side, 30)
    dtype = torch.float16 if DEVICE.type == "cuda" else torch.float32
    image, parts = given(shape, width, side, dtype, seed=width)
    if DEVICE.type == "cuda" and not has_conv_stem_norm_kernel(image, parts, stride, 3):
        pytest.skip("too large for the shared memory of a GPU: the kernel is never used for it")
    for padding in (0, 1, 2, 3):
        check(by_kernel(image, parts, stride, padding), image, parts, stride, padding)


@needs_triton
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_16_bit_weights(dtype):
    """The image and the output may have another dtype than the weights."""
    if dtype == torch.bfloat16 and DEVICE.type == "cpu":
        pytest.skip("Triton's interpreter cannot multiply bfloat16")
    image, parts = given((2, 3, 20, 28), 64, dtype=dtype)
    found = by_kernel(image.float(), parts)
    assert found.dtype == dtype
    check(found, image, parts)
    longer = by_kernel(image, parts, dtype=torch.float32)
    assert longer.dtype == torch.float32
    assert_rounded([longer.to(dtype)], [exactly(image, parts, 4, 3, 1e-5)])


@needs_triton
def test_images_may_have_any_strides():
    image, parts = given((2, 3, 24, 20), 32)
    rolled = image.contiguous(memory_format=torch.channels_last)
    for view in (rolled, image[:, :, 1:, 3:], image.transpose(2, 3), image[1:], image.flip(1).flip(1)[:, :, ::2]):
        check(by_kernel(view, parts), view, parts)
    apart = parts._replace(scale=torch.stack([parts.scale, parts.shift], 1)[:, 0])
    assert difference(by_kernel(image, apart), by_kernel(image, parts)) == 0
    assert by_kernel(image[:0], parts).shape == (0, 30, 32)


@needs_triton
def test_a_nan_reaches_only_the_patches_that_contain_it():
    image, parts = given((2, 3, 20, 24), 16)
    image[1, 0, 8, 13] = torch.nan
    expected = conv_stem_norm_reference(image, parts, 4, 3, 1e-5).isnan()
    assert 0 < expected.sum() < expected.numel() / 4
    assert torch.equal(by_kernel(image, parts).isnan(), expected)


@needs_triton
@pytest.mark.parametrize("wrong", ["image", "rows", "columns", *ConvStemWeights._fields, "padding", "eps"])
def test_a_changed_input_changes_the_output(wrong):
    image, parts = given((1, 3, 16, 16), 32)
    other, others, choices = image, parts, {}
    if wrong in ConvStemWeights._fields:
        others = parts._replace(**{wrong: getattr(parts, wrong).flip(0)})
    elif wrong in ("padding", "eps"):
        choices = {"padding": 2} if wrong == "padding" else {"eps": 3.0}
    else:
        other = image.flip(["image", "rows", "columns"].index(wrong) + 1)
    assert distance(by_kernel(other, others, **choices), exactly(image, parts, 4, 3, 1e-5)) > 1e-3


@needs_triton
def test_opcheck_accepts_the_registration():
    image, parts = given((1, 3, 16, 18), 32)
    torch.library.opcheck(torch.ops.patchword.conv_stem_norm.default, (image, *parts, 4, 3, 1e-5, torch.float16))


@needs_triton
@pytest.mark.parametrize("wrong", ["margin", "norm"])
def test_self_test_rejects_a_wrong_kernel(monkeypatch, wrong):
    """The other reference has a margin that is one pixel narrower on one side, or omits the norm's shift."""

    def other_reference(image, parts, stride, padding, eps):
        if wrong == "margin":
            image = nn.functional.pad(image, (-1, 1))
        else:
            parts = parts._replace(shift=0 * parts.shift)
        return conv_stem_norm_reference(image, parts, stride, padding, eps)

    assert kernel.matches_reference(DEVICE, torch.float16)
    monkeypatch.setattr(kernel, "conv_stem_norm_reference", other_reference)
    assert not kernel.matches_reference(DEVICE, torch.float16)


@pytest.mark.parametrize(
    ("shape", "width", "side", "padding", "taken"),
    [
        ((2, 3, 32, 32), 64, 7, 3, True),
        ((2, 4, 32, 32), 128, 7, 2, True),
        ((2, 64, 32, 32), 128, 3, 1, False),
        ((2, 3, 32, 32), 192, 7, 3, False),
        ((2, 3, 32, 32), 64, 9, 4, True),
        ((2, 3, 32, 32), 64, 15, 7, False),
        ((2, 3, 4, 32), 64, 7, 0, False),
        ((2, 3, 32, 32), 8, 7, 3, False),
    ],
    ids=[
        "an image",
        "four channels",
        "a map",
        "wide",
        "a large kernel",
        "too large a kernel",
        "too small an image",
        "narrow",
    ],
)
def test_when_it_is_chosen(hopper, shape, width, side, padding, taken):
    image = torch.zeros(shape, dtype=torch.bfloat16, device=hopper)
    sizes = (width, shape[1], side, side), (width,), (width,), (width,)
    parts = ConvStemWeights(*(torch.zeros(size, dtype=torch.bfloat16, device=hopper) for size in sizes))
    assert has_conv_stem_norm_kernel(image, parts, 4, padding) == taken
    assert not has_conv_stem_norm_kernel(image.float(), parts, 4, padding)


@pytest.mark.parametrize("casts", [False, True], ids=["bfloat16", "autocast"])
def test_the_output_has_the_dtype_of_a_norm(hopper, casts, monkeypatch):
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda kind: casts)
    monkeypatch.setattr(torch, "get_autocast_dtype", lambda kind: torch.bfloat16)
    dtype = torch.float32 if casts else torch.bfloat16
    image = torch.zeros(2, 3, 32, 32, dtype=dtype, device=hopper)
    sizes = (64, 3, 7, 7), (64,), (64,), (64,)
    parts = ConvStemWeights(*(torch.zeros(size, dtype=dtype, device=hopper) for size in sizes))
    assert has_conv_stem_norm_kernel(image, parts, 4, 3)
    found = kernel.conv_stem_norm(image, parts, 4, 3, 1e-5)
    assert (found.shape, found.dtype) == ((2, 64, 64), dtype)


@pytest.fixture
def calls(monkeypatch):
    """Replaces the kernel by its reference on any machine, and records the calls."""
    seen = []

    def run(*given):
        seen.append(given)
        return conv_stem_norm_reference(*given)

    monkeypatch.setattr(fused, "has_conv_stem_norm_kernel", lambda *given: not torch.is_grad_enabled())
    monkeypatch.setattr(fused, "conv_stem_norm", run)
    return seen


@pytest.mark.parametrize("sides", [(32, 40), (3, 9)], ids=["an image", "smaller than the kernel"])
@torch.no_grad()
def test_the_fused_stem_uses_the_kernel(calls, sides):
    part, image = overlapping(3, 24, 4), torch.randn(2, 3, *sides)
    found, grid = fuse(part)(image)
    assert len(calls) == 1
    with torch.enable_grad():
        expected, expected_grid = fuse(part)(image)
    assert len(calls) == 1
    assert grid == expected_grid
    exact, _ = deepcopy(part).double()(image.double())
    assert_as_exact([found], [expected], [exact])


@torch.no_grad()
@pytest.mark.parametrize("hooked", ["patches", "patches.convolution", "norm"])
def test_parts_with_hooks_are_not_fused(calls, hooked):
    part, seen = overlapping(3, 24, 4), []
    part.get_submodule(hooked).register_forward_hook(lambda *given: seen.append(1))
    fuse(part)(torch.randn(1, 3, 16, 16))
    assert (len(calls), len(seen)) == (0, 1)
