"""Transforms move an image and its label map together, and draw the same numbers again."""

from dataclasses import replace

import pytest
import torch

from patchword.core.card import Normalization
from patchword.data.augmentation.augmentation import normalize
from patchword.data.augmentation.color import ColorJitter
from patchword.data.augmentation.stage import StageContext
from patchword.data.detection.scenes import SceneGenerator, SceneSettings
from patchword.data.detection.sources import SceneSource
from patchword.data.detection.transforms.draws import SampleDraws
from patchword.data.segmentation.batches import LabelBatches, join_samples
from patchword.data.segmentation.samples import LabelledSample
from patchword.data.segmentation.sources import SceneLabels, cached, drawn
from patchword.data.segmentation.splits import open_splits
from patchword.data.segmentation.transforms.label_transforms import (
    LabelChain,
    RandomLabelFlip,
    RandomScaledCrop,
    base_size,
    resized_pixels,
    scaled_size,
)
from patchword.data.segmentation.transforms.windows import Window, resized_labels, resized_window
from patchword.recipes.segmentation.recipe import LabelAugment
from support.segmentation.label_maps import write_label_maps


def paired(height=20, width=30):
    """A sample whose pixels are its labels times 10."""
    labels = torch.randint(0, 4, (height // 5, width // 5), generator=torch.Generator().manual_seed(0))
    labels = labels.repeat_interleave(5, 0).repeat_interleave(5, 1).to(torch.uint8)
    return LabelledSample((10 * labels)[None].repeat(3, 1, 1), labels)


def draws(index=0, epoch=0):
    return SampleDraws(0, epoch, index)


def unscaled_crop(side, most=0.75):
    return RandomScaledCrop(side, 1.0, 1.0, most=most)


def test_crop_and_flip_keep_pixels_and_labels_together():
    transform = LabelChain((unscaled_crop(16), RandomLabelFlip()))
    found = [transform(paired(), draws(index)) for index in range(20)]
    assert all(torch.equal(one.pixels[0], 10 * one.labels) for one in found)
    assert {one.size for one in found} == {(16, 16)}
    assert len({one.labels.numpy().tobytes() for one in found}) > 5


@pytest.mark.parametrize("size", [(40, 60), (7, 11), (29, 44), (20, 30)])
def test_a_window_equals_that_part_of_the_resized_image(size):
    sample = LabelledSample(
        torch.randint(0, 256, (3, 20, 30), generator=torch.Generator().manual_seed(1)).byte(), paired().labels
    )
    whole_pixels = resized_pixels(sample.pixels, *size).int()
    whole_labels = resized_labels(sample.labels, Window(size, 0, 0, *size))
    top, left = size[0] // 3, size[1] // 2
    window = Window(size, top, left, size[0] - top, size[1] - left - 1)
    found, labels = resized_window(sample.pixels, window), resized_labels(sample.labels, window)
    assert (found - whole_pixels[:, top:, left:-1]).abs().max() <= 1
    assert torch.equal(labels, whole_labels[top:, left:-1])
    moved = resized_window(sample.pixels, window._replace(left=left - 1))
    assert (moved - whole_pixels[:, top:, left:-1]).abs().max() > 10


def test_a_resize_takes_existing_labels():
    found = resized_labels(paired().labels, Window((40, 60), 0, 0, 40, 60))
    assert torch.equal(found[::2, ::2], paired().labels)
    assert set(resized_labels(paired().labels, Window((7, 11), 0, 0, 7, 11)).unique().tolist()) <= {0, 1, 2, 3}


def test_random_scales_cover_their_range():
    found = [RandomScaledCrop(100, 0.5, 2.0)(paired(), draws(index)) for index in range(60)]
    sizes = [one.size for one in found]
    assert min(sizes)[0] < 13
    assert max(sizes)[0] > 35
    assert max(sizes)[0] <= 40
    assert all(abs(height / width - 2 / 3) < 0.06 for height, width in sizes)
    assert all(one.pixels.shape[1:] == one.labels.shape for one in found)
    assert all((one.pixels[0].float() - 10 * one.labels).abs().mean() < 3 for one in found if one.size[0] >= 20)
    assert base_size((100, 400), 512, 1024) == (256, 1024)
    assert base_size((100, 100), 512, 2048) == (512, 512)
    assert base_size((100, 400), 0, 64) == (100, 400)
    assert scaled_size((3, 100), 0.1) == (1, 10)


def test_a_crop_of_one_class_is_drawn_again():
    labels = torch.zeros(8, 64, dtype=torch.uint8)
    labels[:, 60:] = 1
    labels[:, 62:] = 255
    sample = LabelledSample(labels[None], labels)
    plain, chosen = unscaled_crop(4, most=1), unscaled_crop(4)
    both = [[bool((crop(sample, draws(n)).labels == 1).any()) for n in range(200)] for crop in (plain, chosen)]
    assert sum(both[1]) > 3 * sum(both[0])


def test_numbers_depend_on_seed_epoch_and_sample_only():
    transform = LabelAugment().made(16, 0, 2048)
    first, again, later = (transform(paired(), draws(3, epoch)) for epoch in (0, 0, 1))
    assert torch.equal(first.pixels, again.pixels)
    assert first.pixels.shape != later.pixels.shape or not torch.equal(first.pixels, later.pixels)


def test_padding_has_no_label():
    joined = join_samples([paired(20, 30), paired(10, 40)], side=32)
    assert joined.pixels.shape == (2, 3, 32, 64)
    assert (joined.labels[0, 20:] == 255).all()
    assert (joined.labels[1, :, 40:] == 255).all()
    assert joined.sizes.tolist() == [[20, 30], [10, 40]]


@pytest.fixture
def batches(tmp_path):
    source = open_splits(str(write_label_maps(tmp_path, count=12)), 0.1).train
    normalization = Normalization((0.5,) * 3, (0.25,) * 3)
    return LabelBatches(source, 4, normalization, torch.device("cpu"), LabelAugment().made(64, 0, 2048), 64, passes=2)


def test_batches_have_one_shape_and_continue_where_they_stopped(batches):
    assert batches.steps_per_epoch() == 4
    whole = list(batches.epoch(1, seed=5))
    assert [one.images.shape for one in whole] == [(4, 3, 64, 64)] * 4
    rest = list(batches.epoch(1, seed=5, first=3))
    assert torch.equal(rest[0].images, whole[3].images)
    assert torch.equal(rest[0].labels, whole[3].labels)
    one = whole[0]
    padded = (one.images == 0).all(1)
    assert (one.labels[padded] == 255).all()
    assert padded.any()
    halves = one.split(2)
    assert torch.equal(torch.cat([half.labels for half in halves]), one.labels)


def test_jitter_of_a_batch_is_that_of_its_samples_without_their_padding(batches):
    plain, jittered = (next(replace(batches, color_jitter=strength).epoch(1, seed=5, first=2)) for strength in (0, 0.5))
    assert torch.equal(plain.labels, jittered.labels)
    for row, index in enumerate(plain.samples.tolist()):
        numbers = SampleDraws(5, 3, index)  # batch 2 of epoch 1 is of pass 3
        sample = batches.transform(batches.source.sample(index), numbers)
        stage, draw = ColorJitter(0.5), numbers.of_image
        pixels = stage(sample.pixels[None], stage.plan(draw), StageContext(draw, ()))
        height, width = sample.size
        expected = torch.zeros_like(jittered.images[row])
        expected[:, :height, :width] = normalize(pixels, batches.normalization)[0]
        assert torch.equal(jittered.images[row], expected)
        assert not torch.equal(plain.images[row], expected)


def test_a_source_is_cached_and_a_part_of_it_is_always_the_same(batches):
    source = cached(batches.source)
    assert source.sample(1) is source.sample(1)
    assert source.fingerprint() == batches.source.fingerprint()
    few = drawn(batches.source, 3)
    assert [few.file(n) for n in range(3)] == [drawn(batches.source, 3).file(n) for n in range(3)]
    assert (len(few), few.fingerprint() != source.fingerprint()) == (3, True)
    assert cached(batches.source, most=10) is batches.source


def test_scenes_have_the_class_of_the_front_garment_in_each_pixel():
    garments = torch.full((4, 28, 28), 200, dtype=torch.uint8)
    generator = SceneGenerator(garments, torch.arange(4), 4, settings=SceneSettings(side=64))
    source = SceneLabels(SceneSource("scenes", ("a", "b", "c", "d"), generator, 3, channels=3))
    assert source.classes == ("a", "b", "c", "d", "background")
    sample, scene = source.sample(1), generator.scene(1)
    assert sample.pixels.shape == (3, 64, 64)
    assert torch.equal(sample.labels.long(), torch.from_numpy(scene.semantic))
    for mask, label in zip(scene.masks, scene.labels, strict=True):
        assert set(sample.labels.numpy()[mask].tolist()) == {int(label)}
    assert (sample.labels == 4).any()
