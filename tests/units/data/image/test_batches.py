import pytest
import torch

from patchword.core.card import Normalization
from patchword.data.augmentation.augmentation import Augmentation, normalize
from patchword.data.image.batches import Batches
from patchword.data.image.images import Images, InMemory

COUNT = 103
PREPARATION = Normalization((0.3,), (0.2,))
AUGMENTATION = Augmentation(flip=0.5, shift=1, random_erasing=0.5)


@pytest.fixture
def images():
    pixels = torch.randint(0, 256, (COUNT, 1, 6, 6), dtype=torch.uint8)
    return Images("noise", "here", InMemory(pixels), torch.arange(COUNT) % 7, tuple("abcdefg"), torch.arange(COUNT))


@pytest.fixture
def batches(images):
    return Batches(images, 10, PREPARATION, torch.device("cpu"))


def test_whole_is_every_sample_once_in_the_sets_order(images, batches):
    found = list(batches.whole())
    assert len(found) == len(batches) == 11
    assert [len(batch.labels) for batch in found] == [10] * 10 + [3]
    assert torch.cat([batch.samples for batch in found]).tolist() == list(range(COUNT))
    assert torch.equal(torch.cat([batch.labels for batch in found]), images.labels)
    assert torch.equal(torch.cat([batch.inputs for batch in found]), normalize(images.pixels.pixels, PREPARATION))


def test_an_epoch_is_every_sample_once_but_the_odd_rest(batches):
    found = list(batches.epoch(0, 0, Augmentation()))
    assert len(found) == batches.steps_per_epoch() == 10
    samples = torch.cat([batch.samples for batch in found])
    assert len(samples) == len(samples.unique()) == 100
    assert samples.tolist() != sorted(samples.tolist())


def test_over_the_epochs_no_sample_is_always_left_out(batches):
    taken = torch.cat([batch.samples for epoch in range(4) for batch in batches.epoch(epoch, 0, Augmentation())])
    assert len(taken.unique()) == COUNT


def test_inputs_and_labels_are_those_of_the_samples(images, batches):
    for inputs, labels, samples in batches.epoch(3, 5, AUGMENTATION):
        assert torch.equal(labels, images.labels[samples])
        expected = AUGMENTATION(images.pixels.take(samples), 5, 3, samples)
        assert torch.equal(inputs, normalize(expected, PREPARATION))


@pytest.mark.parametrize("first", [1, 4, 9, 10])
def test_an_epoch_can_begin_anywhere(batches, first):
    whole = list(batches.epoch(2, 0, AUGMENTATION))
    rest = list(batches.epoch(2, 0, AUGMENTATION, first))
    assert len(rest) == 10 - first
    for one, other in zip(whole[first:], rest, strict=True):
        assert all(torch.equal(mine, theirs) for mine, theirs in zip(one, other, strict=True))


def test_epochs_and_seeds_differ(batches):
    places = ((0, 0), (1, 0), (0, 1))
    orders = [torch.cat([batch.samples for batch in batches.epoch(*place, AUGMENTATION)]).tolist() for place in places]
    assert orders[0] != orders[1] != orders[2] != orders[0]


def test_a_set_smaller_than_a_batch_is_one_batch(images):
    batches = Batches(images.subset(torch.arange(4)), 10, PREPARATION, torch.device("cpu"))
    assert batches.steps_per_epoch() == len(batches) == 1
    (batch,) = batches.epoch(0, 0, Augmentation())
    assert sorted(batch.samples.tolist()) == [0, 1, 2, 3]


def test_an_error_while_fetching_ahead_is_not_lost(images):
    class Failing(InMemory):
        def take(self, index):
            if 50 in index:
                raise RuntimeError("the disk is gone")
            return super().take(index)

    failing = Images("noise", "here", Failing(images.pixels.pixels), images.labels, images.classes, images.keys)
    with pytest.raises(RuntimeError, match="the disk is gone"):
        list(Batches(failing, 10, PREPARATION, torch.device("cpu")).epoch(0, 0, Augmentation()))
