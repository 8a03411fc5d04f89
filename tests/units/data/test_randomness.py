import pytest
import torch

from patchword.data import randomness
from patchword.data.randomness import integers, order, step_seed, uniform, uniform_number

COUNT = 100_000
WORD = (1 << 64) - 1


def by_hand(*words: int) -> int:
    """The definition in whole numbers of any length, where nothing overflows and no sign is shifted in."""

    def finish(state: int) -> int:
        state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & WORD
        state = (state ^ (state >> 27)) * 0x94D049BB133111EB & WORD
        return state ^ (state >> 31)

    state = 0
    for word in words:
        state = finish((state + (word + 1) * 0x9E3779B97F4A7C15) & WORD)
    return state


def spread(values: torch.Tensor, bins: int) -> float:
    """How far a histogram is from flat, in standard deviations of the chi-square distribution."""
    counts = torch.bincount(values, minlength=bins).double()
    expected = len(values) / bins
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    return abs(chi_square - (bins - 1)) / (2 * (bins - 1)) ** 0.5


def correlation(first: torch.Tensor, second: torch.Tensor) -> float:
    return abs(float(torch.corrcoef(torch.stack([first, second]).double())[0, 1]))


@pytest.mark.parametrize("place", [(0, 0, 0), (0, 1, 2), (7, 149, 4), (-1, 3, 5), (2**63, 0, 12)])
def test_numbers_are_those_of_the_definition(place):
    seed, epoch, purpose = place
    index = torch.tensor([0, 1, 2, 59_999, 2**40])
    expected = [(by_hand(seed, epoch, purpose, i) >> 40) / 2**24 for i in index.tolist()]
    assert uniform(seed, epoch, index, purpose).tolist() == expected
    assert [uniform_number(seed, epoch, sample, purpose) for sample in index.tolist()] == expected


@pytest.mark.parametrize("place", [(0, 0, 2), (0, 1, 2), (1, 0, 2), (123, 45, 6)])
def test_uniform_fills_its_range_evenly(place):
    seed, epoch, purpose = place
    draw = uniform(seed, epoch, torch.arange(COUNT), purpose)
    assert draw.dtype == torch.float32
    assert float(draw.min()) >= 0
    assert float(draw.max()) < 1
    assert spread((draw * 64).long(), 64) < 4
    pairs = (draw[:-1] * 16).long() * 16 + (draw[1:] * 16).long()  # neighbours in the set do not know of each other
    assert spread(pairs, 256) < 4


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((0, 1, 2), (1, 0, 2)),
        ((0, 0, 2), (0, 1, 2)),
        ((0, 0, 2), (1, 0, 2)),
        ((0, 0, 2), (0, 0, 3)),
        ((0, 2, 1), (0, 1, 2)),
    ],
    ids=["seed and epoch exchanged", "next epoch", "next seed", "next purpose", "epoch and purpose exchanged"],
)
def test_places_are_independent(one, other):
    index = torch.arange(COUNT)
    first = uniform(*one[:2], index, one[2])
    second = uniform(*other[:2], index, other[2])
    limit = 4 / COUNT**0.5
    assert correlation(first, second) < limit
    assert correlation(first[1:], second[:-1]) < limit  # nor is one the other, moved on by a sample
    assert correlation(first[:-1], second[1:]) < limit


def test_a_sample_has_its_number_whatever_its_batch():
    whole = uniform(3, 5, torch.arange(1000), 2)
    batch = torch.tensor([999, 0, 17, 17, 500])
    assert torch.equal(uniform(3, 5, batch, 2), whole[batch])
    assert torch.equal(uniform(3, 5, batch.int(), 2), whole[batch])
    assert torch.equal(uniform(3, 5, torch.arange(1000)[::7], 2), whole[::7])


def test_nothing_else_is_asked_for_or_changed():
    torch.manual_seed(1)
    first = uniform(0, 0, torch.arange(10), 2)
    untouched = torch.rand(1)
    torch.manual_seed(1)
    assert torch.equal(torch.rand(1), untouched)
    assert torch.equal(uniform(0, 0, torch.arange(10), 2), first)


def test_integers_reach_both_ends_and_nothing_beyond():
    draw = integers(0, 0, torch.arange(COUNT), 3, -2, 2)
    assert draw.dtype == torch.int64
    assert draw.unique().tolist() == [-2, -1, 0, 1, 2]
    assert spread(draw + 2, 5) < 4
    assert integers(0, 0, torch.arange(10), 3, 4, 4).tolist() == [4] * 10


def test_integers_of_a_wide_range_do_not_round_past_the_end():
    draw = integers(0, 0, torch.arange(COUNT), 3, 0, 2**25 - 1)  # finer than the 2^24 steps of the float underneath
    assert int(draw.max()) <= 2**25 - 1
    assert int(draw.min()) >= 0


@pytest.mark.parametrize("count", [0, 1, 2, 1294])
def test_order_is_a_permutation(count):
    assert order(0, 0, count).sort().values.tolist() == list(range(count))


def test_order_changes_with_the_epoch_and_the_seed():
    orders = [order(seed, epoch, 1000) for seed, epoch in ((0, 0), (0, 1), (1, 0), (1, 1))]
    for number, first in enumerate(orders):
        assert correlation(first, torch.arange(1000)) < 0.13
        for second in orders[number + 1 :]:
            assert correlation(first, second) < 0.13  # 4 / sqrt(1000)
    assert torch.equal(order(0, 1, 1000), orders[1])


def test_every_sample_comes_first_equally_often():
    first = torch.stack([order(0, epoch, 8)[0] for epoch in range(2000)])
    assert spread(first, 8) < 4


def test_step_seeds_are_seeds_and_do_not_repeat():
    seeds = [step_seed(seed, step) for seed in (0, 1) for step in range(1000)]
    assert len(set(seeds)) == 2000
    assert all(0 <= seed < 2**63 for seed in seeds)
    bits = torch.tensor([[seed >> bit & 1 for bit in range(63)] for seed in seeds]).double().mean(0)
    assert bits.sub(0.5).abs().max() < 5 * 0.5 / 2000**0.5  # every bit is set half the time


def test_other_devices_draw_the_same():
    index = torch.cat([torch.arange(1000), torch.tensor([-1, 2**62, -(2**63), 2**63 - 1])])
    for key in (0, 1, 2**63, WORD):
        there, here = randomness._hash_torch(index, key), randomness._hash_numpy(index, key)
        assert there.tolist() == here.view("int64").tolist()
