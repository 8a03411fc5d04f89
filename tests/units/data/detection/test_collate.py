"""Batches: images of one size, objects in padded places."""

import pytest
import torch

from patchword.core.errors import UserError
from patchword.data.detection.collate import collate
from support.detection.samples import random_sample


def test_images_and_objects_are_padded():
    samples = [random_sample(0, objects=3, height=40, width=70), random_sample(1, objects=0, height=65, width=30)]
    images, targets = collate(samples)
    assert images.shape == (2, 3, 96, 96)
    assert torch.equal(images[0, :, :40, :70], samples[0].pixels)
    assert not images[0, :, 40:].any()
    assert not images[1, :, :, 30:].any()
    assert targets.sizes.tolist() == [[40, 70], [65, 30]]
    assert targets.sizes.dtype == torch.int64
    assert targets.boxes.shape == (2, 3, 4)
    assert targets.boxes.dtype == torch.float32
    assert targets.labels.shape == (2, 3)
    assert targets.labels.dtype == torch.int64
    assert targets.valid.tolist() == [[True, True, True], [False, False, False]]
    assert torch.equal(targets.boxes[0], samples[0].boxes)
    assert not targets.boxes[1].any()
    assert targets.masks is not None
    assert targets.masks.shape == (2, 3, 96, 96)
    assert targets.masks.dtype == torch.bool
    assert torch.equal(targets.masks[0, :, :40, :70], samples[0].masks)
    assert not targets.masks[0, :, 40:].any()


def test_crowds_are_left_out():
    sample = random_sample(0, objects=5)
    _, targets = collate([sample])
    assert targets.labels[0].tolist() == sample.labels[[0, 1, 2, 4]].tolist()


def test_given_sizes_and_places():
    images, targets = collate([random_sample(0, objects=2)], size=(100, 120), objects=7)
    assert images.shape == (1, 3, 100, 120)
    assert targets.boxes.shape == (1, 7, 4)
    assert targets.valid.sum() == 2
    with pytest.raises(UserError, match="more objects than the batch has places: expected at most 1, got 2"):
        collate([random_sample(0, objects=2)], objects=1)
    with pytest.raises(UserError, match="larger than the padded size"):
        collate([random_sample(0)], size=(32, 200))
    with pytest.raises(UserError, match="at least one sample"):
        collate([])


def test_a_batch_has_masks_only_if_all_samples_have_some():
    assert collate([random_sample(0), random_sample(1, masks=False)]).targets.masks is None


def test_a_batch_without_objects_has_one_place():
    targets = collate([random_sample(0, objects=0)]).targets
    assert targets.boxes.shape == (1, 1, 4)
    assert not targets.valid.any()
    assert targets.masks is not None
    assert targets.masks.shape == (1, 1, 96, 96)
