"""Boxes, masks and pixels move together through every transform."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from patchword.core.card import Normalization
from patchword.core.errors import UserError
from patchword.data.detection.transforms.chain import Chain, Either, Jitter, Normalize, multi_scale
from patchword.data.detection.transforms.draws import SampleDraws, TransformPurpose
from patchword.data.detection.transforms.geometry import (
    Pad,
    RandomCrop,
    RandomFlip,
    ResizeShorter,
    crop,
    flip,
    mask_boxes,
    pad,
    resize,
)
from patchword.data.detection.transforms.mosaic import FILL, Mosaic
from support.detection.samples import random_sample

DRAWS = SampleDraws(seed=3, epoch=1, index=7)
MOVES = {
    "flip": RandomFlip(1.0),
    "larger": ResizeShorter((133, 150, 171)),
    "smaller": ResizeShorter((31, 40)),
    "longest": ResizeShorter((800,), longest=100),
    "crop": RandomCrop(30, 60),
    "pad": Pad(32),
    "jitter": Jitter(0.4),
    "normalize": Normalize(Normalization((0.4, 0.5, 0.6), (0.2, 0.3, 0.4))),
    "multi-scale": multi_scale((48, 64, 80), 133),
    "chain": Chain((RandomFlip(), RandomCrop(40, 50), ResizeShorter((64,)), Pad(16))),
}


def agree(sample) -> None:
    """The box of each mask is its box, within one pixel; pixels, masks and sizes agree."""
    assert sample.masks is not None
    assert sample.masks.shape == (len(sample), *sample.pixels.shape[1:])
    assert all(side <= shape for side, shape in zip(sample.size, sample.pixels.shape[1:], strict=True))
    assert len(sample.boxes) == len(sample.labels) == len(sample.crowd)
    seen = sample.masks.flatten(1).any(1)
    assert (mask_boxes(sample.masks[seen]) - sample.boxes[seen]).abs().amax() <= 1


@pytest.mark.parametrize("name", MOVES)
def test_the_box_of_the_moved_mask_is_the_moved_box(name):
    objects = 0
    for seed in range(25):
        moved = MOVES[name](random_sample(seed), replace(DRAWS, index=seed))
        if len(moved):
            agree(moved)
        objects += len(moved)
    assert objects > 50


@pytest.mark.parametrize("name", MOVES)
def test_samples_without_masks_or_objects(name):
    with_masks, without = (MOVES[name](random_sample(2, masks=masks), DRAWS) for masks in (True, False))
    assert without.masks is None
    assert torch.equal(with_masks.pixels, without.pixels)
    if "crop" not in name and name not in ("multi-scale", "chain"):  # a cut box depends on the mask
        assert torch.equal(with_masks.boxes, without.boxes)
    empty = MOVES[name](random_sample(2, objects=0), DRAWS)
    assert empty.boxes.shape == (0, 4)
    assert empty.masks is not None
    assert empty.masks.shape == (0, *empty.pixels.shape[1:])


def test_a_flip_moves_pixels_boxes_and_masks():
    sample = random_sample(0)
    moved = flip(sample)
    assert torch.equal(moved.pixels, sample.pixels.flip(2))
    assert torch.equal(mask_boxes(moved.masks), moved.boxes)
    assert not torch.equal(moved.boxes, sample.boxes)
    again = flip(moved)
    for field in ("pixels", "boxes", "labels", "masks"):
        assert torch.equal(getattr(again, field), getattr(sample, field))


def test_a_flip_leaves_padding_behind():
    sample = random_sample(0)
    assert torch.equal(flip(pad(sample, 96, 96)).pixels, flip(sample).pixels)


def test_resize_by_a_whole_factor_is_exact():
    sample = random_sample(1)
    moved = resize(sample, 140, 270)
    assert torch.equal(moved.boxes, sample.boxes * torch.tensor([3, 2, 3, 2]))
    assert torch.equal(moved.masks, sample.masks.repeat_interleave(2, 1).repeat_interleave(3, 2))
    assert moved.pixels.dtype == torch.uint8
    assert moved.size == (140, 270)


@pytest.mark.parametrize(
    ("size", "side", "expected"),
    [((480, 640), 800, (800, 1067)), ((480, 1000), 800, (640, 1333)), ((9, 5), 10, (18, 10))],
)
def test_the_shorter_side_has_the_given_length_and_the_longer_a_limit(size, side, expected):
    sample = random_sample(0, objects=0, height=size[0], width=size[1])
    assert ResizeShorter((side,))(sample, DRAWS).size == expected


def test_multi_scale_takes_every_side():
    resize_any = ResizeShorter((40, 50, 60))
    sample = random_sample(0, objects=0, height=20, width=30)
    assert {min(resize_any(sample, replace(DRAWS, index=index)).size) for index in range(40)} == {40, 50, 60}


def test_crop_drops_objects_whose_centre_leaves_and_cuts_others():
    sample = random_sample(0, objects=3, masks=False)
    sample = replace(sample, boxes=torch.tensor([[10.0, 10, 30, 20], [0, 0, 18, 18], [55, 40, 75, 60]]))
    moved = crop(sample, top=5, left=15, height=40, width=50)
    assert moved.boxes.tolist() == [[0, 5, 15, 15]]  # the others have their centres at x 9 and y 50
    assert moved.labels.tolist() == sample.labels[:1].tolist()
    assert torch.equal(moved.pixels, sample.pixels[:, 5:45, 15:65])
    assert moved.size == (40, 50)


def test_the_box_of_a_cut_object_is_that_of_its_rest():
    sample = random_sample(0, objects=1)
    masks = torch.zeros(1, 70, 90, dtype=torch.bool)
    masks[0, 10:50, 20:40], masks[0, 40:50, 40:70] = True, True  # an L
    sample = replace(sample, masks=masks, boxes=torch.tensor([[20.0, 10, 70, 50]]))
    assert crop(sample, 0, 40, 70, 50).boxes.tolist() == [[0, 40, 30, 50]]
    assert len(crop(sample, 0, 40, 39, 50)) == 0  # the centre is inside, but no pixel is


def test_pad_keeps_the_size_of_the_image():
    moved = Pad(32)(random_sample(0), DRAWS)
    assert moved.pixels.shape == (3, 96, 96)
    assert moved.size == (70, 90)
    assert not moved.pixels[:, 70:].any()
    assert not moved.masks[:, :, 90:].any()
    assert moved.without_padding().pixels.shape == (3, 70, 90)
    with pytest.raises(UserError, match="larger than the padded size"):
        pad(moved, 64, 96)


def test_normalize():
    sample = random_sample(0)
    moved = Normalize(Normalization((0.1, 0.2, 0.3), (0.5, 0.6, 0.7)))(sample, DRAWS)
    assert moved.pixels.dtype == torch.float32
    assert moved.pixels[2, 4, 5].item() == pytest.approx((sample.pixels[2, 4, 5].item() / 255 - 0.3) / 0.7, abs=1e-6)


def test_draws_depend_on_seed_epoch_sample_and_stage_only():
    numbers = [
        draws.uniform(TransformPurpose.FLIP)
        for draws in (
            *(replace(DRAWS, **{field: 100}) for field in ("seed", "epoch", "index")),
            DRAWS,
            DRAWS.of_stage(0),
            DRAWS.of_stage(1),
            DRAWS.of_stage(0).of_stage(1),
        )
    ]
    assert len(set(numbers)) == len(numbers)
    assert SampleDraws(3, 1, 7).uniform(TransformPurpose.FLIP) == DRAWS.uniform(TransformPurpose.FLIP)
    assert DRAWS.uniform(TransformPurpose.FLIP, 1) != DRAWS.uniform(TransformPurpose.FLIP)
    assert {replace(DRAWS, index=index).integer(TransformPurpose.SIDE, 2, 4) for index in range(40)} == {2, 3, 4}


def test_either_takes_both():
    choice = Either(RandomFlip(0.0), Pad(32), probability=0.3)
    sample = random_sample(0)
    padded = [choice(sample, replace(DRAWS, index=index)).pixels.shape[1] == 96 for index in range(300)]
    assert 0.6 < np.mean(padded) < 0.8


# Mosaic


def test_a_mosaic_of_four_moves_boxes_and_masks_together():
    for seed in range(15):
        samples = [random_sample(4 * seed + place, height=50 + 9 * place, width=95 - 11 * place) for place in range(4)]
        found = Mosaic(64)(samples, replace(DRAWS, index=seed))
        assert found.size == (128, 128)
        assert found.pixels.shape == (3, 128, 128)
        agree(found)
        assert len(found) <= 20
        assert (found.boxes >= 0).all()
        assert (found.boxes <= 128).all()


def test_the_four_images_touch_one_point():
    sample = random_sample(0, objects=1, height=64, width=64)
    plain = [
        replace(sample, pixels=torch.full_like(sample.pixels, value), labels=torch.tensor([value]))
        for value in (10, 20, 30, 40)
    ]
    x, y = (DRAWS.integer(purpose, 32, 96) for purpose in (TransformPurpose.CENTER_X, TransformPurpose.CENTER_Y))
    found = Mosaic(64)(plain, DRAWS).pixels[0]
    assert found[y - 1 : y + 1, x - 1 : x + 1].tolist() == [[10, 20], [30, 40]]
    assert set(found.unique().tolist()) <= {10, 20, 30, 40, FILL}
    inner = Mosaic(64)(plain, DRAWS)
    for box, label in zip(inner.boxes, inner.labels, strict=True):  # each object is in its own image
        center = ((box[:2] + box[2:]) / 2).long()
        assert inner.pixels[0, center[1], center[0]] == label
    with pytest.raises(UserError, match="four samples"):
        Mosaic(64)(plain[:3], DRAWS)


def test_images_are_cut_at_the_border_of_the_canvas():
    sample = random_sample(0, objects=0, height=64, width=64)
    row = torch.arange(64, dtype=torch.uint8)
    pixels = torch.stack((row[:, None].expand(64, 64), row.expand(64, 64), row.expand(64, 64)))
    for index in range(8):
        draws = replace(DRAWS, index=index)
        x, y = (draws.integer(purpose, 32, 96) for purpose in (TransformPurpose.CENTER_X, TransformPurpose.CENTER_Y))
        found = Mosaic(64)([replace(sample, pixels=pixels)] * 4, draws).pixels
        assert found[0, y - 1 : y + 1, x].tolist() == [63, 0]  # the last row above the point, the first row below
        assert found[1, y, x - 1 : x + 1].tolist() == [63, 0]


def test_partners_are_samples_of_the_set():
    found = [Mosaic().partners(replace(DRAWS, index=index), 5) for index in range(60)]
    assert {partner for three in found for partner in three} == set(range(5))
    assert len(set(found)) > 30
