"""What is random about an augmentation: boxes, mixed pictures, views, and that a batch's size has no say."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from patchword.core.card import Normalization
from patchword.core.work_sharing import SINGLE
from patchword.data.augmentation import color
from patchword.data.augmentation import lookup_tables as tables
from patchword.data.augmentation.augmentation import Augmentation
from patchword.data.augmentation.boxes import Crop, Erasing
from patchword.data.augmentation.color import ColorJitter, ThreeAugment, colour, jitter
from patchword.data.augmentation.epoch_samples import epoch_samples, with_partners
from patchword.data.augmentation.lookup_tables import with_table
from patchword.data.augmentation.mixing import Mixing, beta, mixed_labels
from patchword.data.augmentation.presets import PARTS, PRESETS
from patchword.data.augmentation.random_draws import Draws
from patchword.data.augmentation.stage import StageContext
from patchword.data.image.batches import Batches
from patchword.data.image.images import Images, InMemory
from patchword.data.randomness import order
from patchword.objectives.classification import Classification, right
from patchword.recipes.image.recipe import Augment, ImageRecipe
from patchword.training.parallel.process_group import DataParallel

MANY = Draws(0, 0, torch.arange(20000))
FEW = Draws(0, 0, torch.arange(64))
COUNT = 37


@pytest.fixture
def batches():
    torch.manual_seed(0)
    pixels = torch.randint(0, 256, (COUNT, 3, 12, 12), dtype=torch.uint8)
    images = Images("noise", "here", InMemory(pixels), torch.arange(COUNT) % 5, tuple("abcde"), torch.arange(COUNT))
    return lambda size: Batches(images, size, Normalization((0.5,), (0.25,)), torch.device("cpu"))


def test_crops_have_the_areas_and_shapes_they_should():
    """Area uniform in [0.08, 1], the shape's logarithm uniform; what does not fit was drawn again, which favours
    small and square ones, as the mean of the accepted says."""
    top, left, rows, columns = Crop(0.08).boxes.placed(Crop(0.08).plan(MANY), 224, 224)
    area, shape = rows * columns / 224**2, (columns / rows).log()
    assert 0.079 < float(area.min()) < 0.09
    assert float(area.max()) <= 1
    assert float(shape.abs().max()) < math.log(4 / 3) + 0.03
    assert abs(float(shape.mean())) < 0.01
    torch.manual_seed(1)
    drawn, angle = torch.rand(200000) * 0.92 + 0.08, (torch.rand(200000) * 2 - 1) * math.log(4 / 3)
    fits = drawn * angle.abs().exp() <= 1
    assert float(area.mean()) == pytest.approx(float(drawn[fits].mean()), abs=0.01)
    assert float(area.std()) == pytest.approx(float(drawn[fits].std()), abs=0.01)
    assert int(top.min()) == int(left.min()) == 0
    assert bool((top + rows <= 224).all() and (left + columns <= 224).all())
    assert int((top + rows).max()) == int((left + columns).max()) == 224


def test_a_crop_of_everything_is_the_picture():
    """At no strength the whole picture is kept, unless its shape is changed."""
    pixels = torch.randint(0, 256, (64, 3, 10, 10), dtype=torch.uint8)
    square = torch.ones(64, 10), torch.ones(64, 10), torch.zeros(64), torch.zeros(64)
    assert torch.equal(Crop(1.0)(pixels, square, StageContext(FEW, (0.5,))), pixels)


@pytest.mark.parametrize("noise", [False, True], ids=["const", "pixel"])
def test_erasing_takes_one_box(noise):
    inputs = torch.full((64, 3, 32, 32), 9.0)
    erasing = Erasing(0.5, noise)
    after = erasing(inputs, erasing.plan(FEW), StageContext(FEW, (0.5,)))
    gone = (after != 9).any(1)
    assert 20 < int(gone.flatten(1).any(1).sum()) < 44
    for box in gone[gone.flatten(1).any(1)]:
        rows, columns = int(box.any(1).sum()), int(box.any(0).sum())
        assert rows * columns == int(box.sum())  # a whole box
        assert 0.01 < rows * columns / 32**2 < 0.36
    values = after[(after != 9)]
    assert torch.equal(after, erasing(inputs, erasing.plan(FEW), StageContext(FEW, (0.5,))))
    if noise:
        assert abs(float(values.mean())) < 0.03
        assert float(values.std()) == pytest.approx(1, abs=0.03)
    else:
        assert values.unique().tolist() == [0]
    assert torch.equal(Erasing(0.0, noise)(inputs, Erasing(0.0, noise).plan(FEW), StageContext(FEW, (0.5,))), inputs)


def test_noise_is_a_samples_own():
    first, second = Draws(0, 0, torch.tensor([3, 8])).noise(500), Draws(0, 0, torch.tensor([8])).noise(500)
    assert torch.equal(first[1:], second)
    assert abs(float(torch.corrcoef(first)[0, 1])) < 0.2


def test_jitter_at_no_strength_is_nothing_and_stays_within_its_factors():
    pixels = torch.randint(0, 256, (64, 3, 6, 6), dtype=torch.uint8)
    assert torch.equal(ColorJitter(0.0)(pixels, ColorJitter(0.0).plan(FEW), StageContext(FEW, (0.5,))), pixels)
    factors, orders = ColorJitter(0.3).plan(MANY)
    assert 0.7 <= float(factors.min()) < 0.71
    assert 1.29 < float(factors.max()) <= 1.3
    assert orders.sort(1).values.unique(dim=0).tolist() == [[0, 1, 2]]
    assert len(orders.unique(dim=0)) == 6
    dark = torch.full((64, 1, 2, 2), 100, dtype=torch.uint8)
    after = ColorJitter(0.3)(dark, tuple(part[:64] for part in (factors, orders)), StageContext(FEW, (0.5,)))
    assert torch.equal(after[:, 0, 0, 0], (factors[:64, 0] * 100).to(torch.uint8))  # one grey: only brightness shows


@pytest.mark.parametrize("channels", [1, 3])
def test_jitter_of_a_batch_is_that_of_single_operations(channels, monkeypatch):
    pixels = torch.randint(0, 256, (64, channels, 9, 7), dtype=torch.uint8, generator=torch.manual_seed(0))
    factors, orders = ColorJitter(0.9).plan(FEW)
    operations = (with_table(tables.brightness), with_table(tables.contrast), colour)
    expected = pixels.clone()
    for row, (amounts, kinds) in enumerate(zip(factors, orders.tolist(), strict=True)):
        for kind in kinds:
            expected[row : row + 1] = operations[kind](expected[row : row + 1], amounts[kind : kind + 1])
    assert torch.equal(jitter(pixels, factors, orders), expected)
    padded = torch.nn.functional.pad(pixels, (0, 3, 0, 2))
    counts = torch.full((64,), 9 * 7)
    assert torch.equal(jitter(padded, factors, orders, counts)[..., :9, :7], expected)
    monkeypatch.setattr(color, "_CACHED", 5 * padded[0].numel())  # a few images at a time
    assert torch.equal(jitter(padded, factors, orders, counts)[..., :9, :7], expected)
    assert jitter(pixels[:0], factors[:0], orders[:0]).shape == pixels[:0].shape


def test_three_takes_one_of_three():
    kinds, sigma = ThreeAugment(0.9).plan(MANY)
    counts = torch.bincount(kinds, minlength=4) / len(kinds)
    assert counts.tolist() == pytest.approx([0.3, 0.3, 0.3, 0.1], abs=0.02)
    assert 0.1 <= float(sigma.min()) < float(sigma.max()) <= 2.0


@pytest.mark.parametrize("concentration", [0.1, 0.8, 1.0, 3.0])
def test_shares_follow_the_beta_distribution(concentration):
    found = beta(MANY.uniform(45), concentration)
    assert 0 <= float(found.min()) <= float(found.max()) <= 1
    assert float(found.mean()) == pytest.approx(0.5, abs=0.01)
    assert float(found.var()) == pytest.approx(1 / (4 * (2 * concentration + 1)), rel=0.03)
    torch.manual_seed(0)
    wanted = torch.distributions.Beta(concentration, concentration).sample((20000,)).sort().values
    assert (found.sort().values - wanted).abs().max() < 0.05


def test_mixup_and_cutmix_by_hand():
    first, second = torch.ones(2, 1, 4, 4), torch.zeros(2, 1, 4, 4)
    plan = torch.tensor([0.75, 0.75]), torch.tensor([False, True]), torch.tensor([0.5, 0.0]), torch.tensor([0.5, 0.0])
    mixed, kept = Mixing(1.0, 1.0)(first, second, plan)
    assert torch.equal(mixed[0], torch.full((1, 4, 4), 0.75))
    box = torch.ones(4, 4)
    box[0, 0] = 0  # a box of 2 x 2 around the corner, of which one pixel is inside
    assert torch.equal(mixed[1, 0], box)
    assert kept.tolist() == [0.75, 15 / 16]
    labels = mixed_labels(torch.tensor([2, 0]), torch.tensor([1, 0]), kept, 3)
    assert labels.tolist() == [[0, 0.25, 0.75], [1, 0, 0]]


def test_switching_between_mixup_and_cutmix():
    share, cut, *_ = Mixing(0.8, 1.0, probability=0.5, switch=0.25).plan(MANY)
    assert float(cut.float().mean()) == pytest.approx(0.25, abs=0.01)
    assert float((share == 1).float().mean()) == pytest.approx(0.5, abs=0.01)
    assert Mixing(0.0, 1.0).plan(FEW)[1].all()
    assert not Mixing(0.8, 0.0).plan(FEW)[1].any()


def test_no_mixing_at_a_chance_of_nothing(batches):
    labels = next(batches(8).epoch(0, 0, Augmentation(mixup=1.0, mix_probability=0.0))).labels
    assert labels.dim() == 1


def test_mixed_labels_are_shares_of_the_two_classes(batches):
    batch = next(batches(36).epoch(0, 0, Augmentation(mixup=0.8, cutmix=1.0)))
    assert batch.labels.shape == (36, 5)
    assert torch.allclose(batch.labels.sum(1), torch.ones(36))
    assert int((batch.labels > 0).sum(1).max()) == 2
    assert batch.weight == 36
    assert [len(piece.labels) for piece in batch.split(3)] == [12, 12, 12]


@pytest.mark.parametrize("name", ["deit", "3-augment"])
@pytest.mark.parametrize("size", [5, 8, 37])
def test_another_size_of_the_batch_gives_the_same_pictures(batches, name, size):
    """An odd size, too, where some are mixed with one of the next batch."""
    augmentation = Augmentation(**PRESETS[name])
    whole = list(batches(12).epoch(2, 1, augmentation))
    other = list(batches(size).epoch(2, 1, augmentation))
    for field in ("samples", "labels", "inputs"):
        first, second = (torch.cat([getattr(batch, field) for batch in found]) for found in (whole, other))
        shared = min(len(first), len(second))
        assert shared >= 32
        assert torch.equal(first[:shared], second[:shared]), field


@pytest.mark.parametrize("size", [5, 6])
@pytest.mark.parametrize("number", [None, 0, 2])
@pytest.mark.parametrize("name", ["deit", "3-augment", "none"])
def test_batches_made_together_are_those_made_one_by_one(batches, monkeypatch, name, number, size):
    """also of one process of three, and where the last ones are fewer"""
    augmentation, group = Augmentation(**PRESETS[name]), SINGLE if number is None else DataParallel(number, 3, None)
    alone = list(batches(size).epoch(2, 1, augmentation, 1, group))
    monkeypatch.setattr(Batches, "together", lambda self: 4)
    together = list(batches(size).epoch(2, 1, augmentation, 1, group))
    assert len(alone) > 4
    for one, other in zip(alone, together, strict=True):
        assert all(torch.equal(mine, theirs) for mine, theirs in zip(one, other, strict=True))


def test_how_many_batches_are_made_together(batches, monkeypatch):
    """of an accelerator's memory a small share, however small it is; and no more than 4096 pictures"""
    one = batches(4).images.pixels.pixels[0].numel() * 4
    assert batches(4).together() == 1
    for memory, expected in ((0, 1), (7, 7), (7.9, 7), (5000, 1024)):
        there = SimpleNamespace(total_memory=int(2048 * one * memory))
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device, there=there: there)
        assert replace(batches(4), device=torch.device("cuda")).together() == expected


def test_an_epoch_with_everything_can_begin_anywhere(batches):
    augmentation = Augmentation(**PRESETS["deit"])
    whole = list(batches(7).epoch(0, 3, augmentation))
    rest = list(batches(7).epoch(0, 3, augmentation, first=2))
    for one, other in zip(whole[2:], rest, strict=True):
        assert all(torch.equal(mine, theirs) for mine, theirs in zip(one, other, strict=True))


def test_repeats_are_views_of_fewer_pictures(batches):
    samples, keys = epoch_samples(order(0, 0, 36), 3)
    assert len(samples.unique()) == 12
    assert samples.bincount(minlength=36).unique().tolist() == [0, 3]
    assert len(keys.unique()) == 36
    assert bool((samples[0::2] != samples[1::2]).all())  # nobody is mixed with itself
    batch = next(batches(6).epoch(0, 0, Augmentation(crop=0.1, repeats=3)))
    assert len(batch.samples.unique()) == 2
    assert not torch.equal(batch.inputs[0], batch.inputs[2])
    assert torch.equal(batch.samples[0], batch.samples[2])


def test_without_repeats_an_epoch_is_every_sample_once():
    samples, keys = epoch_samples(order(4, 2, 11), 1)
    assert sorted(samples.tolist()) == list(range(11))
    assert torch.equal(samples, keys)


def test_partners_are_mutual_whatever_the_batch():
    for start, end in ((0, 5), (5, 10), (10, 11), (0, 11)):
        found = with_partners(start, end, 11)
        places = torch.arange(11)[found.places]
        met = places[found.partners]
        assert met.tolist() == [min(place ^ 1, place if place == 10 else 11) for place in range(start, end)]


def test_smoothing_comes_on_top_of_mixed_labels():
    """(1 - s) * shares + s / classes, by hand; the answer's share counts as right."""
    scores = torch.tensor([[2.0, 0.0, 1.0], [0.0, 3.0, 1.0]])
    labels = torch.tensor([[0.7, 0.3, 0.0], [0.0, 0.2, 0.8]])

    class Piece:
        inputs = scores

    Piece.labels = labels
    outcome = Classification(lambda inputs: inputs, 0.1)(Piece, Piece)
    target = 0.9 * labels + 0.1 / 3
    assert float(outcome.loss) == pytest.approx(float(-(target * scores.log_softmax(1)).sum() / 2), abs=1e-6)
    assert float(outcome.right) == pytest.approx(0.7 + 0.2)


def test_whole_labels_and_shares_of_one_agree():
    torch.manual_seed(0)
    scores, labels = torch.randn(20, 4), torch.randint(0, 4, (20,))
    soft = torch.nn.functional.one_hot(labels, 4).float()
    assert float(right(scores, labels)) == float(right(scores, soft))


def test_a_recipe_takes_a_name_a_list_or_fields():
    deit = ImageRecipe().with_settings(["augmentation.mixup=0", "augmentation=deit"])
    assert deit.augmentation == Augment(**{**PRESETS["deit"], "mixup": 0.0})
    listed = ImageRecipe().with_settings(["augmentation=[flip, crop]"])
    assert listed.augmentation == Augment(flip=0.5, crop=0.08)
    assert listed.augmentation.parts() == ("flip", "crop")
    assert ImageRecipe.model_validate({"augmentation": "3-augment"}).augmentation == Augment(**PRESETS["3-augment"])
    assert ImageRecipe.model_validate({"augmentation": {"shift": 2}}).augmentation == Augment(shift=2)
    assert ImageRecipe(augmentation=Augment(flip=0.5)).with_settings(["augmentation=none"]).augmentation == Augment()


@pytest.mark.parametrize("name", [*PRESETS, *PARTS])
def test_every_name_is_of_fields_that_there_are(name):
    assert Augment(**{**PRESETS, **PARTS}[name]).made()
