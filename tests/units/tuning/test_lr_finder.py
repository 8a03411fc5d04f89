"""The learning-rate finder: where it finds a rate, where it finds none, of every kind, and nothing kept."""

import math
from pathlib import Path

import pytest
import torch

from patchword.core.errors import UserError
from patchword.recipes.train import build_task
from patchword.tuning.lr_finder import find_lr, ramp_of, smooth
from support.material import everything_below, silent, tiny_recipe
from support.tiny.kinds import TINY, tiny_kind

RATES = [1e-6 * 10 ** (6 * step / 99) for step in range(100)]


def valley(fastest: float, lowest: float) -> list[float]:
    """A loss that falls from 2 to 1 around `fastest`, and rises above `lowest`."""
    return [
        2 - 1 / (1 + math.exp(-3 * (math.log10(rate) - math.log10(fastest)))) + 0.5 * max(0, math.log10(rate / lowest))
        for rate in RATES
    ]


def test_the_rate_with_the_fastest_fall_is_suggested():
    found = ramp_of(RATES, valley(1e-4, 1e-1))
    assert found.suggestion == pytest.approx(1e-4, rel=0.2)
    assert found.reason == "where the smoothed loss falls fastest"
    assert str(found) == f"learning_rate={found.suggestion:.1e} (where the smoothed loss falls fastest)"


def test_noise_changes_it_little():
    noise = torch.randn(100, generator=torch.Generator().manual_seed(0))
    losses = [loss + 0.03 * float(one) for loss, one in zip(valley(1e-4, 1e-2), noise, strict=True)]
    assert 2e-5 < ramp_of(RATES, losses).suggestion < 5e-4


def test_it_keeps_a_distance_from_the_lowest_loss():
    falling = [2 - step / 99 for step in range(100)]
    falling[70:] = [10.0] * 30
    found = ramp_of(RATES, falling)
    assert found.suggestion <= RATES[70] / 3
    assert ramp_of(RATES[:70], falling[:70]).suggestion <= RATES[69] / 3


@pytest.mark.parametrize(
    ("losses", "reason"),
    [([2.0] * 100, "hardly fell"), ([2.0 + 0.01 * step for step in range(100)], "hardly fell"), ([2.0] * 4, "within")],
    ids=["constant", "rising", "short"],
)
def test_without_a_fall_nothing_is_suggested(losses, reason):
    found = ramp_of(RATES[: len(losses)], losses)
    assert found.suggestion is None
    assert reason in str(found)


def test_smoothing_shifts_nothing():
    peak = [0.0] * 50 + [1.0] + [0.0] * 50
    assert max(range(101), key=lambda index: smooth(peak)[index]) == 50
    assert smooth([3.0] * 20) == pytest.approx([3.0] * 20)


@pytest.mark.parametrize("kind", TINY)
def test_every_kind_has_a_ramp_and_keeps_nothing(kind):
    recipe = tiny_kind(kind, "epochs=2")
    before, seen = everything_below(Path.cwd()), []
    found = find_lr(recipe, silent(), steps=10, progress=lambda done, total: seen.append((done, total)))
    assert everything_below(Path.cwd()) == before
    assert len(found.rates) == len(found.losses) == len(found.smoothed) == len(seen)
    assert seen[-1] == (len(seen), 10)
    assert found.rates[0] == pytest.approx(1e-6)
    assert all(math.isfinite(loss) for loss in found.losses)


def test_the_first_losses_are_those_of_the_run():
    """The same weights, batches and random numbers: a rate that changes nothing gives the losses of the recipe."""
    recipe = tiny_recipe("epochs=1")
    losses = [find_lr(recipe, silent(), 10, 1e-12, 2e-12).losses for _ in range(2)]
    assert losses[0] == losses[1]
    assert losses[0][0] == pytest.approx(math.log(10), rel=0.2)


def test_a_ramp_that_diverges_ends_early():
    found = find_lr(tiny_recipe("clip_norm=0"), silent(), 60, 1e-3, 1e6)
    assert len(found.rates) < 60


def test_a_ramp_needs_a_range():
    with pytest.raises(UserError, match=r"expected 0 < lowest < highest, and 10 or more steps, got 1 to 0\.1 in 100"):
        find_lr(tiny_recipe(), silent(), lowest=1.0, highest=0.1)


def test_a_ramp_does_not_change_the_training_that_follows():
    first, second = (build_task(tiny_recipe(), silent()).model.state_dict() for _ in range(2))
    find_lr(tiny_recipe(), silent(), steps=10)
    third = build_task(tiny_recipe(), silent()).model.state_dict()
    assert all(torch.equal(first[name], second[name]) and torch.equal(first[name], third[name]) for name in first)
