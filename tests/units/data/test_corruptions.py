"""The 15 corruptions: shape, range, determinism, and that they grow with the severity."""

import pytest
import torch
from torch import Tensor

from patchword.core.errors import UserError
from patchword.data.corruptions import CORRUPTIONS, GROUPS, SEVERITIES, corrupt
from patchword.data.corruptions.random_fields import RandomFields
from patchword.inspection.robustness import Robustness
from patchword.reports.comparison.robustness_figures import severity_figure, size_figure


def pictures(count: int, channels: int, height: int, width: int) -> Tensor:
    """Bright shapes before a dark ground, all different, with an edge, a slope and some texture."""
    row = torch.linspace(0, 1, height).view(1, 1, -1, 1)
    column = torch.linspace(0, 1, width).view(1, 1, 1, -1)
    middle = torch.linspace(0.3, 0.7, count).view(-1, 1, 1, 1)
    inside = (row - middle).abs() + (column - 0.5).abs() < 0.34
    texture = 0.15 * (40 * row * torch.arange(1, channels + 1).view(1, -1, 1, 1)).sin() * (35 * column).cos()
    return ((0.12 + 0.6 * inside + 0.2 * column + texture).clamp(0, 1) * 255).to(torch.uint8)


def test_there_are_fifteen_in_four_groups():
    assert len(CORRUPTIONS) == 15
    assert [kind for kinds in GROUPS.values() for kind in kinds] == list(CORRUPTIONS)


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_shape_range_and_growth(kind):
    for channels, height, width in ((1, 28, 28), (3, 32, 40), (3, 96, 96)):
        clean, index = pictures(4, channels, height, width), torch.arange(4)
        changed = [corrupt(clean, kind, severity, 0, index) for severity in SEVERITIES]
        assert all(pixels.shape == clean.shape and pixels.dtype == torch.uint8 for pixels in changed)
        far = [float((pixels.float() - clean.float()).abs().mean()) for pixels in changed]
        assert far[0] > 0.3  # of 255
        assert far == sorted(far)
        assert len(set(far)) == 5
        assert far[-1] < 128  # something of the picture is left


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_a_picture_depends_on_the_seed_and_its_own_number_only(kind):
    clean = pictures(4, 3, 32, 32)
    together = corrupt(clean, kind, 3, 0, torch.arange(4))
    assert torch.equal(together, corrupt(clean, kind, 3, 0, torch.arange(4)))
    alone = corrupt(clean[2:3], kind, 3, 0, torch.tensor([2]))
    assert (alone.int() - together[2:3].int()).abs().max() <= 1  # sums in another order
    other = corrupt(clean[:1], kind, 3, 1, torch.tensor([0]))
    renumbered = corrupt(clean[:1], kind, 3, 0, torch.tensor([7]))
    is_random = kind not in ("defocus", "zoom", "brightness", "contrast", "pixelate", "jpeg")
    assert torch.equal(other, together[:1]) != is_random
    assert torch.equal(renumbered, together[:1]) != is_random


@pytest.mark.parametrize("kind", CORRUPTIONS)
def test_odd_pictures(kind):
    """One colour, tiny, and not square."""
    for clean in (torch.zeros(2, 3, 28, 28), torch.full((1, 1, 8, 8), 255), torch.zeros(1, 1, 17, 64)):
        changed = corrupt(clean.to(torch.uint8), kind, 5, 0, torch.arange(len(clean)))
        assert changed.shape == clean.shape


def test_shot_noise_has_the_mean_and_spread_of_counted_photons():
    for level in (60, 240):
        clean = torch.full((8, 1, 64, 64), level, dtype=torch.uint8)
        noisy = corrupt(clean, "shot", 3, 0, torch.arange(8)).double() / 255
        strength = CORRUPTIONS["shot"].strength(3, 64)
        mean, spread = level / 255, strength * (level / 255) ** 0.5
        if mean + 3 * spread < 1:  # nothing is cut off
            assert float(noisy.mean()) == pytest.approx(mean, rel=0.02)
            assert float(noisy.std()) == pytest.approx(spread, rel=0.05)
    assert spread > 0.1


def test_random_fields_are_uniform_and_normal():
    chance = RandomFields(0, 3, torch.arange(20))
    normal, uniform = chance.normal(0, 3, 40, 40), chance.uniform(5, 3, 40, 40)
    assert float(normal.mean()) == pytest.approx(0, abs=0.02)
    assert float(normal.std()) == pytest.approx(1, abs=0.02)
    assert float(uniform.mean()) == pytest.approx(0.5, abs=0.01)
    assert abs(float((uniform[0] * uniform[1]).mean()) - 0.25) < 0.02
    clouds = chance.plasma(7, 30, 20)
    assert clouds.shape == (20, 1, 30, 20)
    assert (float(clouds.min()), float(clouds.max())) == (0, 1)


def test_strengths_change_between_the_two_sizes_they_are_given_for():
    kind = CORRUPTIONS["defocus"]
    assert [kind.strength(5, side) for side in (8, 32, 224, 500)] == pytest.approx([1.6, 1.6, 10, 10])
    assert 1.6 < kind.strength(5, 64) < kind.strength(5, 128) < 10
    for one in CORRUPTIONS.values():
        assert list(one.small) == sorted(one.small)
        assert list(one.large) == sorted(one.large)


def test_contrast_and_pixelate_by_hand():
    clean = torch.tensor([0, 200, 0, 200], dtype=torch.uint8).view(1, 1, 1, 4).expand(1, 1, 4, 4).contiguous()
    flat = corrupt(clean, "contrast", 1, 0, torch.zeros(1))  # of 8 x 8 pixels or less, 30% is lost
    assert flat[0, 0, 0].tolist() == [30, 170, 30, 170]
    blocks = corrupt(clean, "pixelate", 4, 0, torch.zeros(1))
    assert blocks[0, 0].unique().tolist() == [100]


def test_no_legend_lies_over_the_lines():
    found = Robustness(0.4, 10, 0, {kind: dict.fromkeys(SEVERITIES, 0.1) for kind in CORRUPTIONS}, {20: 0.1})
    figure = severity_figure(found)
    figure.draw_without_rendering()
    for axes in figure.axes:
        assert axes.get_legend().get_window_extent().x0 >= axes.get_window_extent().x1
    assert all(axes.get_legend() is None for axes in size_figure(found, 28).axes)


def test_unknown_kinds_and_severities_are_told():
    clean = pictures(1, 1, 28, 28)
    with pytest.raises(UserError, match=r"unknown corruption 'fogg'\n.*'fog'"):
        corrupt(clean, "fogg", 1, 0, torch.zeros(1))
    with pytest.raises(UserError, match="1 to 5, got 6"):
        corrupt(clean, "fog", 6, 0, torch.zeros(1))
