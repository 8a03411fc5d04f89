"""Masks as run lengths, held equal to pycocotools."""

import numpy as np
import pytest
from pycocotools import mask as coco

from patchword.core.errors import UserError
from patchword.core.masks.batch import MaskBatch
from patchword.core.masks.overlap import mask_iou
from patchword.core.masks.run_lengths import RunLengths, merge
from support.coco.masks import as_coco, random_masks


def masks(seed: int, number: int = 30, height: int = 23, width: int = 31) -> list[np.ndarray]:
    return random_masks(np.random.default_rng(seed), number, height, width)


@pytest.mark.parametrize("shape", [(23, 31), (1, 40), (40, 1), (1, 1)])
def test_encoding_equals_cocos(shape):
    for mask in masks(0, 40, *shape):
        ours, theirs = RunLengths.from_mask(mask), coco.encode(np.asfortranarray(mask.astype(np.uint8)))
        assert ours.to_text() == theirs["counts"].decode()
        assert np.array_equal(ours.to_mask(), mask)
        assert np.array_equal(RunLengths.from_text(*shape, theirs["counts"]).counts, ours.counts)
        assert ours.area == coco.area(theirs)
        x, y, w, h = coco.toBbox(theirs)
        assert ours.box == (x, y, x + w, y + h)


@pytest.mark.parametrize("shape", [(23, 31), (1, 1), (0, 5)])
@pytest.mark.parametrize("number", [0, 1, 7])
def test_masks_are_encoded_together_as_one_by_one(shape, number):
    given = [*masks(3, number, *shape)] if all(shape) else [np.zeros(shape, dtype=bool)] * number
    together = RunLengths.from_masks(np.array(given, dtype=bool).reshape(number, *shape))
    assert [one.counts.tolist() for one in together] == [RunLengths.from_mask(one).counts.tolist() for one in given]
    for one, mask in zip(together, given, strict=True):
        assert np.array_equal(one.to_mask(), mask)


def test_long_runs_keep_their_length_in_the_text():
    mask = np.zeros((3000, 4000), dtype=bool)
    mask[5:9, 3900] = mask[100:, 17] = True
    theirs = coco.encode(np.asfortranarray(mask.astype(np.uint8)))
    ours = RunLengths.from_mask(mask)
    assert ours.to_text() == theirs["counts"].decode()
    assert np.array_equal(RunLengths.from_text(3000, 4000, ours.to_text()).counts, ours.counts)


@pytest.mark.parametrize("intersect", [False, True])
@pytest.mark.parametrize("number", [1, 2, 3, 6])
def test_merging_equals_cocos(intersect, number):
    for seed in range(20):
        parts = [RunLengths.from_mask(mask) for mask in masks(seed, number)]
        theirs = coco.merge([as_coco(part) for part in parts], intersect=intersect)
        assert merge(parts, intersect).to_text() == theirs["counts"].decode()


def test_a_batch_has_the_areas_and_columns_of_its_masks():
    given = [RunLengths.from_mask(mask) for shape in ((23, 31), (1, 40), (7, 1)) for mask in masks(4, 30, *shape)]
    given.insert(3, RunLengths(4, 5, np.array([2, 0, 7, 2, 9])))
    batch = MaskBatch.join(given)
    assert batch.areas.tolist() == [mask.area for mask in given]
    filled = [index for index, mask in enumerate(given) if mask.area]
    low, high = batch.columns[filled].T
    boxes = np.array([given[index].box for index in filled])
    assert (low <= boxes[:, 0]).all()
    assert (high >= boxes[:, 2]).all()
    assert np.mean(low == boxes[:, 0]) > 0.9
    assert MaskBatch.join(given[:0]).columns.shape == (0, 2)


def test_iou_equals_cocos():
    first, second = ([RunLengths.from_mask(mask) for mask in masks(seed, 25)] for seed in (1, 2))
    crowd = np.random.default_rng(3).random(25) < 0.4
    theirs = coco.iou([as_coco(one) for one in first], [as_coco(one) for one in second], crowd.astype(int).tolist())
    ours = mask_iou(first, second, crowd)
    assert np.array_equal(ours, theirs)
    assert 0 < np.count_nonzero(ours) < ours.size


def test_iou_does_not_depend_on_the_size_of_a_step(monkeypatch):
    first, second = ([RunLengths.from_mask(mask) for mask in masks(seed, 12)] for seed in (1, 2))
    whole = mask_iou(first, second)
    monkeypatch.setattr("patchword.core.masks.batch._MOST_RUNS", 50)
    assert np.array_equal(mask_iou(first, second), whole)


def test_iou_of_empty_masks_is_zero():
    empty = RunLengths.from_mask(np.zeros((4, 5), dtype=bool))
    assert mask_iou([empty], [empty]).tolist() == [[0.0]]
    assert mask_iou([], [empty]).shape == (0, 1)


@pytest.mark.parametrize("text", ["", "~", "00Q", "0" * 3 + "P" * 20 + "0"])
def test_a_wrong_text_is_refused(text):
    with pytest.raises(UserError, match="not a compressed string"):
        RunLengths.from_text(4, 5, text)


@pytest.mark.parametrize("counts", [[], [19], [21], [25, -5], [[20]]])
def test_lengths_that_do_not_fit_are_refused(counts):
    with pytest.raises(UserError, match="do not fit a mask of 4 x 5"):
        RunLengths(4, 5, np.array(counts, dtype=np.int64))


def test_masks_of_two_sizes_are_refused():
    small, large = (RunLengths.from_mask(np.ones(shape, dtype=bool)) for shape in ((3, 4), (4, 3)))
    with pytest.raises(UserError, match="one size"):
        merge([small, large])
    with pytest.raises(UserError, match="one size"):
        mask_iou([small], [large])


def test_a_mask_with_channels_is_refused():
    with pytest.raises(UserError, match="two dimensions"):
        RunLengths.from_mask(np.ones((1, 4, 5), dtype=bool))


def test_empty_runs_do_not_change_the_box():
    assert RunLengths(4, 5, np.array([2, 0, 7, 2, 9])).box == (2, 1, 3, 3)
