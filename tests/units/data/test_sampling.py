"""Balanced sampling: how often classes and samples are drawn, and that copies of an image are augmented differently."""

import pytest
import torch

from patchword.core.card import Normalization
from patchword.data.augmentation.augmentation import Augmentation
from patchword.data.augmentation.epoch_samples import epoch_samples
from patchword.data.augmentation.presets import PRESETS
from patchword.data.image.batches import Batches
from patchword.data.image.images import Images, InMemory
from patchword.data.sampling import BalancedSampler, occurrences
from patchword.data.text.batching.batches import bucketed
from patchword.training.parallel.process_group import DataParallel

SIZES = (40, 0, 3, 14)  # samples of each class; class 1 has none
LABELS = torch.arange(4).repeat_interleave(torch.tensor(SIZES))[torch.randperm(57, generator=torch.manual_seed(0))]
SAMPLER = BalancedSampler(LABELS)


@pytest.mark.parametrize("labels", [LABELS, torch.tensor([1, 1, 1, 0, 1, 2, 1]), torch.zeros(5, dtype=torch.long)])
def test_every_class_is_drawn_equally_often(labels: torch.Tensor) -> None:
    present = labels.unique()
    for epoch in range(4):
        drawn = BalancedSampler(labels)(3, epoch)
        assert len(drawn) == len(labels)
        counts = labels[drawn].bincount()[present]
        assert int(counts.max() - counts.min()) <= int(len(labels) % len(present) > 0)


def test_samples_of_a_class_are_drawn_as_evenly_as_possible() -> None:
    times = SAMPLER(0, 0).bincount(minlength=57)
    large, rare, middle = (times[number == LABELS] for number in (0, 2, 3))
    assert (int(large.max()), int(large.sum())) == (1, 19)  # 57 / 3, without repetition
    assert sorted(rare.tolist()) == [6, 6, 7]
    assert sorted(middle.tolist()) == [1] * 9 + [2] * 5


def test_other_epochs_show_other_samples_of_a_frequent_class() -> None:
    epochs = [set(SAMPLER(0, epoch).tolist()) for epoch in range(12)]
    assert epochs[0] != epochs[1]
    assert set.union(*epochs) == set(range(57))


def test_which_class_has_one_more_changes() -> None:
    labels = torch.arange(5).repeat_interleave(5)[:23]
    assert len({tuple(labels[BalancedSampler(labels)(0, epoch)].bincount().tolist()) for epoch in range(9)}) > 3


def test_the_order_follows_from_seed_and_epoch_alone() -> None:
    orders = {(seed, epoch): SAMPLER(seed, epoch).tolist() for seed in (0, 1) for epoch in (0, 1)}
    assert SAMPLER(1, 0).tolist() == orders[1, 0]
    assert len({tuple(order) for order in orders.values()}) == 4


def test_classes_are_in_random_order() -> None:
    """Of neighbours of three classes with equal frequencies, a third has the same class."""
    labels = torch.arange(3).repeat_interleave(torch.tensor([5000, 900, 100]))
    drawn = labels[BalancedSampler(labels)(0, 0)]
    assert abs(float((drawn[1:] == drawn[:-1]).float().mean()) - 1 / 3) < 0.02


def test_occurrences_are_counted_from_zero() -> None:
    assert occurrences(torch.tensor([4, 2, 4, 4, 0, 2])).tolist() == [0, 0, 1, 2, 0, 1]


@pytest.mark.parametrize("repeats", [1, 3])
def test_every_occurrence_has_its_own_random_numbers(repeats: int) -> None:
    samples, keys = epoch_samples(SAMPLER(0, 0), repeats)
    assert len(keys.unique()) == len(keys) == 57
    assert torch.equal(keys % 57, samples)


def batches(size: int) -> Batches:
    pixels = torch.randint(0, 256, (57, 3, 12, 12), dtype=torch.uint8, generator=torch.manual_seed(1))
    images = Images("noise", "here", InMemory(pixels), LABELS, tuple("abcd"), torch.arange(57))
    return Batches(images, size, Normalization((0.5,), (0.25,)), torch.device("cpu"), SAMPLER)


def test_copies_of_an_image_are_augmented_differently() -> None:
    found = list(batches(19).epoch(0, 0, Augmentation(crop=0.1)))
    samples, inputs = (torch.cat([batch[part] for batch in found]) for part in (2, 0))
    copies = inputs[samples == samples.bincount().argmax()]
    assert len(copies) == 7
    assert len({copy.numpy().tobytes() for copy in copies}) == 7


def test_an_epoch_can_begin_anywhere_and_is_shared_by_processes() -> None:
    augmentation = Augmentation(**PRESETS["deit"])
    whole = list(batches(8).epoch(1, 3, augmentation))
    rest = list(batches(8).epoch(1, 3, augmentation, first=2))
    parts = [list(batches(8).epoch(1, 3, augmentation, group=DataParallel(rank, 2, None))) for rank in (0, 1)]
    for one, other in zip(whole[2:], rest, strict=True):
        assert all(map(torch.equal, one, other))
    for both, first, second in zip(whole, *parts, strict=True):
        for one, mine, theirs in zip(both, first, second, strict=True):
            assert torch.equal(
                one, torch.stack([mine.unflatten(0, (2, 2)), theirs.unflatten(0, (2, 2))], 1).flatten(0, 2)
            )


def test_batches_of_texts_have_the_drawn_texts_and_few_copies() -> None:
    labels = (torch.arange(2000) < 20).long()
    lengths = torch.randint(4, 64, (2000,), generator=torch.manual_seed(0))
    drawn = BalancedSampler(labels)(5, 2)
    found = bucketed(lengths, 16, 5, 2, drawn)
    assert torch.equal(torch.cat(found).sort().values, drawn.sort().values)
    copies = torch.tensor([int(batch.bincount().max()) for batch in found])
    assert int(copies.max()) < 10  # each rare text is drawn 50 times
    tokens = sum(int(lengths[batch].max()) * len(batch) for batch in found)
    assert tokens < 1.35 * int(lengths[drawn].sum())
