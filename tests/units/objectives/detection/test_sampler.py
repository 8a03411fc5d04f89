"""Sampling of boxes."""

import torch

from patchword.objectives.detection.sampler import RandomSampler
from support.dense.keys import seeded_keys


def drawn(sampler, assigned, seed=0):
    found = sampler(assigned, seeded_keys(seed))
    return [assigned[image, indices[taken]] for image, (indices, taken) in enumerate(zip(*found, strict=True))]


def test_positives_come_first_and_negatives_fill_the_count():
    assigned = torch.zeros(2, 50, dtype=torch.long)
    assigned[0, :20], assigned[1, :2] = 3, 1
    many, few = drawn(RandomSampler(16, 0.25), assigned)
    assert (many > 0).tolist() == [True] * 4 + [False] * 12
    assert (few > 0).tolist() == [True] * 2 + [False] * 14


def test_ignored_boxes_are_never_taken():
    assigned = torch.full((1, 9), -1)
    assigned[0, 3], assigned[0, 5] = 0, 2
    assert drawn(RandomSampler(8, 0.5), assigned)[0].tolist() == [2, 0]


def test_fewer_boxes_than_samples():
    assigned = torch.tensor([[1, 0, 1]])
    assert sorted(drawn(RandomSampler(100, 0.5), assigned)[0].tolist()) == [0, 1, 1]


def test_the_choice_is_random_and_follows_the_keys():
    assigned, sampler = torch.zeros(1, 1000, dtype=torch.long), RandomSampler(10, 0.5)
    first, again, other = (sampler(assigned, seeded_keys(seed)).indices.tolist() for seed in (0, 0, 1))
    assert first == again != other


def test_every_negative_can_be_taken():
    assigned, sampler = torch.zeros(1, 12, dtype=torch.long), RandomSampler(4, 0.5)
    seen = {int(one) for seed in range(40) for one in sampler(assigned, seeded_keys(seed)).indices[0]}
    assert seen == set(range(12))
