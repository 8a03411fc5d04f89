"""Whole images, sliding windows, scales and mirrored copies, each against a plain computation."""

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from patchword.layers.dense.segmentation import pixel_logits
from patchword.models.segmentation import create_segmenter
from patchword.recipes.segmentation.inference import PLAIN, InferenceOptions, compute_views, predict_label_maps
from patchword.recipes.segmentation.sliding import window_places
from support.segmentation.segmenters import tiny_segmenter

GREY = {"channels": 1}
BACKBONES = {
    "resnet-mini": GREY,
    "regnety-mini": GREY,
    "swin-mini": GREY,
    "cswin-mini": GREY,
    "pale-mini": GREY,
    "pvt-mini": GREY,
    "cvt-mini": GREY,
    "vit-tiny-16": {"depth": 1},
}


@pytest.fixture(scope="module")
def segmenter():
    return tiny_segmenter()


def image(height, width, seed=0):
    return torch.randint(0, 256, (1, 3, height, width), generator=torch.Generator().manual_seed(seed)).to(torch.uint8)


def plain_logits(segmenter, pixels):
    """Logits at the size of the pixels: normalize, pad with zeros if the backbone needs it, enlarge, cut."""
    inputs, (height, width) = normalized(segmenter, pixels), pixels.shape[2:]
    multiple = 16 if "vit" in segmenter.card.config["backbone"] else 1
    inputs = F.pad(inputs, (0, -width % multiple, 0, -height % multiple))
    enlarged = F.interpolate(segmenter(inputs), inputs.shape[2:], mode="bilinear", align_corners=False)
    return enlarged[:, :, :height, :width]


def probabilities(segmenter, pixels, options=PLAIN):
    """All rows at once."""
    views = compute_views(segmenter, pixels, options)
    assert list(views.strips()) == [(0, pixels.shape[2])]
    return views.answer(0, pixels.shape[2])[0]


def normalized(segmenter, pixels):
    mean, std = (torch.tensor(part).view(-1, 1, 1) for part in vars(segmenter.card.normalization).values())
    return (pixels.float() / 255 - mean) / std


@pytest.mark.parametrize("size", [(65, 63), (40, 77), (33, 21)])
@pytest.mark.parametrize("backbone", BACKBONES)
@torch.inference_mode()
def test_the_recipe_and_the_segmenter_give_the_same_label_map(backbone, size):
    segmenter, pixels = segmenter_on(backbone), image(*size)[:, : BACKBONES[backbone].get("channels", 3)]
    expected = plain_logits(segmenter, pixels)
    found = segmenter.pixel_logits(normalized(segmenter, pixels)).enlarged()
    assert (found - expected).abs().max() <= 1e-5 * expected.abs().max()
    labels = predict_label_maps(segmenter, [pixels[0]])[0]
    assert len(labels.unique()) > 1
    top = expected[0].topk(2, dim=0).values
    sure = top[0] - top[1] > 1e-4 * expected.abs().max()
    assert sure.float().mean() > 0.99
    assert torch.equal(labels[sure], segmenter.segment(normalized(segmenter, pixels))[0].to(torch.uint8)[sure])
    assert torch.equal(labels[sure], expected.argmax(1)[0].to(torch.uint8)[sure])


OPTIONS = {
    "whole": PLAIN,
    "another size": InferenceOptions(min_size=41, max_size=100),
    "windows": InferenceOptions(slide=True, window=32, batch_size=4),
    "scales": InferenceOptions(scales=(0.5, 1.75), flip=True),
    "scaled windows": InferenceOptions(slide=True, window=32, scales=(0.5, 1.25), flip=True),
}


@pytest.mark.parametrize("largest", [1, 5_000])
@pytest.mark.parametrize("options", OPTIONS)
@torch.inference_mode()
def test_strips_equal_the_whole(options, largest, segmenter, monkeypatch):
    pixels = torch.cat([image(67, 53), image(67, 53, seed=1)])
    views = compute_views(segmenter, pixels, OPTIONS[options])
    found, labels = views.answer(0, 67)
    monkeypatch.setattr(pixel_logits, "_LARGEST", largest)
    strips = list(views.strips())
    assert (len(strips) == 67) if largest == 1 else (1 < len(strips) < 67)
    parts = [views.answer(*strip) for strip in strips]
    for view in views.logits:  # bit by bit
        rows = [view.rows(start, start + 1) for start in range(view.size[0])]
        assert torch.equal(torch.cat(rows, dim=2), view.rows(0, view.size[0]))
    assert (torch.cat([part for part, _ in parts], dim=2) - found).abs().max() < 1e-6  # the last bit of a softmax
    assert torch.equal(torch.cat([part for _, part in parts], dim=1), labels)
    assert torch.equal(views.classes(), labels.to(torch.uint8))
    assert len(labels.unique()) > 1


@pytest.mark.parametrize("size", [(67, 53), (100, 40)])
@torch.inference_mode()
def test_class_maps_in_strips_equal_the_whole(size, segmenter, monkeypatch):
    images = normalized(segmenter, image(67, 53))
    whole = segmenter.segment(images, size)
    monkeypatch.setattr(pixel_logits, "_LARGEST", 1)
    assert torch.equal(segmenter.segment(images, size), whole)


def test_the_memory_of_a_large_image_is_limited(monkeypatch):
    """No tensor has the logits of all pixels."""
    largest = []

    class Sizes(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            found = func(*args, **(kwargs or {}))
            largest.append(found.numel() if isinstance(found, torch.Tensor) else 0)
            return found

    monkeypatch.setattr(pixel_logits, "_LARGEST", 50_000)
    size, classes = (400, 300), 20
    logits = pixel_logits.PixelLogits(torch.randn(1, classes, 100, 75), size, size)
    with Sizes():
        labels = pixel_logits.class_map(logits, size)
    assert max(largest) <= 4 * 50_000 < classes * size[0] * size[1]
    assert labels.shape == (1, *size)


def segmenter_on(backbone):
    torch.manual_seed(0)
    fields = {"width": 16, "classes": 4, "backbone_fields": BACKBONES[backbone]}
    segmenter = create_segmenter("upernet", backbone=backbone, **fields).eval()
    for layer in segmenter.class_outputs():
        torch.nn.init.normal_(layer.weight, std=3.0)
    return segmenter


@torch.inference_mode()
def test_a_whole_image(segmenter):
    pixels = image(70, 96)
    expected = plain_logits(segmenter, pixels).softmax(1)
    found = probabilities(segmenter, pixels)
    assert found.shape == (1, 4, 70, 96)
    assert (found - expected).abs().max() < 1e-5
    assert len(found.argmax(1).unique()) > 1
    assert torch.equal(predict_label_maps(segmenter, [pixels[0]])[0], expected.argmax(1)[0].to(torch.uint8))


@torch.inference_mode()
def test_sliding_windows_average_their_logits(segmenter):
    pixels, window, stride = image(100, 70), 48, 32
    summed, counts = torch.zeros(1, 4, 100, 70), torch.zeros(100, 70)
    tops, lefts = (0, 32, 52), (0, 22)  # two thirds of the window; the last window ends with the image
    for top in tops:
        for left in lefts:
            part = plain_logits(segmenter, pixels[:, :, top : top + window, left : left + window])
            summed[:, :, top : top + window, left : left + window] += part
            counts[top : top + window, left : left + window] += 1
    options = InferenceOptions(slide=True, window=window, batch_size=4)
    assert options.stride == stride
    assert (window_places(100, 48, 32), window_places(70, 48, 32)) == ([0, 32, 52], [0, 22])
    found = probabilities(segmenter, pixels, options)
    assert (found - (summed / counts).softmax(1)).abs().max() < 1e-5
    assert (found - probabilities(segmenter, pixels)).abs().max() > 1e-3


@torch.inference_mode()
def test_scales_and_mirrored_copies_average_probabilities(segmenter):
    pixels, expected = image(64, 96), torch.zeros(1, 4, 64, 96)
    for factor in (0.5, 1.0, 1.5):
        size = (int(64 * factor), int(96 * factor))
        resized = F.interpolate(pixels, size, mode="bilinear", antialias=True) if factor != 1 else pixels
        for mirrored in (False, True):
            given = resized.flip(-1) if mirrored else resized
            logits = plain_logits(segmenter, given)
            logits = F.interpolate(logits, (64, 96), mode="bilinear", align_corners=False)
            expected += (logits.flip(-1) if mirrored else logits).softmax(1) / 6
    found = probabilities(segmenter, pixels, InferenceOptions(scales=(0.5, 1.0, 1.5), flip=True))
    assert (found - expected).abs().max() < 1e-5
    assert torch.allclose(found.sum(1), torch.ones(1, 64, 96))


@torch.inference_mode()
def test_an_image_is_resized_to_the_size_of_the_recipe(segmenter):
    pixels = image(40, 100)
    resized = F.interpolate(pixels, (64, 160), mode="bilinear", antialias=True)
    logits = F.interpolate(plain_logits(segmenter, resized), (40, 100), mode="bilinear", align_corners=False)
    found = probabilities(segmenter, pixels, InferenceOptions(min_size=64, max_size=160))
    assert (found - logits.softmax(1)).abs().max() < 1e-5
    assert probabilities(segmenter, pixels, InferenceOptions(min_size=64, max_size=100)).shape == (1, 4, 40, 100)


def test_images_of_several_sizes_keep_their_order(segmenter):
    images = [image(*size, seed)[0] for seed, size in enumerate([(32, 32), (40, 64), (32, 32), (64, 40)])]
    together = predict_label_maps(segmenter, images, InferenceOptions(batch_size=8))
    for one, found in zip(images, together, strict=True):
        assert found.shape == one.shape[1:]
        alone = predict_label_maps(segmenter, [one])[0]
        assert (found != alone).float().mean() < 0.01  # sums of another order


@pytest.mark.parametrize(
    ("length", "window", "stride", "places"),
    [(32, 64, 42, [0]), (64, 64, 42, [0]), (65, 64, 42, [0, 1]), (512, 512, 341, [0]), (683, 512, 341, [0, 171])],
)
def test_where_windows_start(length, window, stride, places):
    assert window_places(length, window, stride) == places
