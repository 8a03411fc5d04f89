"""Batches: images of one size, objects in padded places."""

import pytest
import torch

from patchword.core.card import Normalization
from patchword.core.errors import UserError
from patchword.data.detection.batches import DetectionBatches
from patchword.data.detection.collate import collate, normalize_padded
from patchword.data.detection.transforms.chain import Chain, Jitter
from patchword.data.detection.transforms.draws import SampleDraws
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


def test_jitter_of_a_batch_is_that_of_its_samples_without_their_padding():
    samples = [random_sample(seed, height=40 + 9 * seed, width=70 - 11 * seed) for seed in range(4)]
    source = type("Source", (), {"sample": lambda self, index: samples[index], "__len__": lambda self: 4})()
    normalization = Normalization((0.4,) * 3, (0.2,) * 3)
    batches = DetectionBatches(source, 4, normalization, torch.device("cpu"), Chain(), color_jitter=0.5)
    (found,) = batches.epoch(2, seed=9)
    assert (found.seed, found.pass_) == (9, 2)
    order = found.samples.tolist()
    images, targets = collate([Jitter(0.5)(samples[index], SampleDraws(9, 2, index)) for index in order])
    assert torch.equal(found.images, normalize_padded(images, targets.sizes, normalization))
    plain, _ = collate([samples[index] for index in order])
    assert not torch.equal(found.images, normalize_padded(plain, targets.sizes, normalization))
