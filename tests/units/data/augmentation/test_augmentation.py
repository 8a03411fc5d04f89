import pytest
import torch

from patchword.core.card import Normalization
from patchword.data.augmentation.augmentation import Augmentation, normalize
from patchword.data.augmentation.flip_shift_square import BlackSquare, shifted
from patchword.data.augmentation.presets import PRESETS
from patchword.data.augmentation.random_draws import Draws
from patchword.data.augmentation.stage import StageContext

INDEX = torch.arange(200)
ALL = Augmentation(flip=0.5, shift=2, random_erasing=0.5)
DEIT, THREE, LIGHT = (Augmentation(**PRESETS[name]) for name in ("deit", "3-augment", "light"))


@pytest.fixture
def pixels():
    return torch.randint(1, 256, (200, 3, 12, 8), dtype=torch.uint8)  # no black, so that a border or a hole shows


def moved_by_hand(picture: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """A roll, with what came round the edge painted black."""
    rolled = picture.roll((rows, columns), (-2, -1)).clone()
    rolled[:, : max(0, rows)] = 0
    rolled[:, rolled.shape[1] + min(0, rows) :] = 0
    rolled[:, :, : max(0, columns)] = 0
    rolled[:, :, rolled.shape[2] + min(0, columns) :] = 0
    return rolled


def changed(before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    return (before != after).flatten(1).any(1)


def test_without_strength_nothing_happens(pixels):
    assert torch.equal(Augmentation()(pixels, 0, 0, INDEX), pixels)


@pytest.mark.parametrize(
    "augmentation",
    [
        ALL,
        DEIT,
        THREE,
        Augmentation(flip=0.5),
        Augmentation(shift=3),
        Augmentation(random_erasing=0.5),
        Augmentation(crop=0.1),
        Augmentation(color_jitter=0.4),
        Augmentation(three_augment=1.0),
        Augmentation(randaugment=9, operations="paper"),
    ],
    ids=lambda augmentation: ", ".join(type(stage).__name__ for stage in augmentation.stages),
)
@pytest.mark.parametrize("channels", [1, 3])
def test_pictures_stay_pictures(pixels, augmentation, channels):
    pixels = pixels[:, :channels]
    after = augmentation(pixels, 0, 0, INDEX)
    assert (after.shape, after.dtype) == (pixels.shape, torch.uint8)
    assert changed(pixels, after).any()
    assert torch.equal(augmentation(pixels, 0, 0, INDEX), after)


@pytest.mark.parametrize("augmentation", [ALL, DEIT, THREE], ids=["simple", "deit", "three"])
def test_the_given_pixels_are_not_written_to(pixels, augmentation):
    before = pixels.clone()
    augmentation(pixels, 0, 0, INDEX)
    assert torch.equal(pixels, before)


@pytest.mark.parametrize("augmentation", [ALL, DEIT, THREE], ids=["simple", "deit", "three"])
def test_every_epoch_and_seed_changes_them_otherwise(pixels, augmentation):
    first, second, third = (augmentation(pixels, *place, INDEX) for place in ((0, 0), (0, 1), (1, 0)))
    assert changed(first, second).sum() > 100
    assert changed(second, third).sum() > 100


@pytest.mark.parametrize("augmentation", [ALL, DEIT, THREE, LIGHT], ids=["simple", "deit", "three", "light"])
def test_a_sample_is_changed_alike_in_any_batch(pixels, augmentation):
    whole = augmentation(pixels, 4, 7, INDEX)
    batch = torch.tensor([150, 3, 77])
    assert torch.equal(augmentation(pixels[batch], 4, 7, batch), whole[batch])
    assert torch.equal(augmentation(pixels[60:61], 4, 7, torch.tensor([60])), whole[60:61])


@pytest.mark.parametrize("augmentation", [ALL, DEIT], ids=["simple", "deit"])
def test_changes_are_drawn_for_all_samples_at_once_or_for_a_few(pixels, augmentation):
    whole = augmentation.changes(4, 7, INDEX)
    few = augmentation.changes(4, 7, INDEX[50:60])
    for rows in (slice(50, 60), torch.arange(50, 60)):
        after = augmentation.apply(pixels[50:60], whole.part(rows))
        assert torch.equal(after, augmentation.apply(pixels[50:60], few))
    assert torch.equal(augmentation.apply(pixels, whole), augmentation(pixels, 4, 7, INDEX))


def test_flip_is_a_mirror_for_about_its_share(pixels):
    assert torch.equal(Augmentation(flip=1.0)(pixels, 0, 0, INDEX), pixels.flip(-1))
    after = Augmentation(flip=0.25)(pixels, 0, 0, INDEX)
    flipped = changed(pixels, after)
    assert torch.equal(after[flipped], pixels[flipped].flip(-1))
    assert 20 < int(flipped.sum()) < 80


@pytest.mark.parametrize("rows", [-2, 0, 1])
@pytest.mark.parametrize("columns", [-1, 0, 2])
def test_shift_is_a_roll_with_a_black_border(pixels, rows, columns):
    after = shifted(pixels[:2], torch.tensor([rows, 0]), torch.tensor([columns, 0]), most=2)
    assert torch.equal(after[0], moved_by_hand(pixels[0], rows, columns))
    assert torch.equal(after[1], pixels[1])


def test_every_shift_happens(pixels):
    same = pixels[:1].expand(200, -1, -1, -1)
    after = Augmentation(shift=1)(same, 0, 0, INDEX)
    wanted = [moved_by_hand(pixels[0], rows, columns) for rows in (-1, 0, 1) for columns in (-1, 0, 1)]
    which = [[torch.equal(picture, move) for move in wanted].index(True) for picture in after]
    assert set(which) == set(range(9))


def test_a_shift_wider_than_the_picture_leaves_black(pixels):
    after = shifted(pixels[:1], torch.tensor([20]), torch.tensor([0]), most=20)
    assert not after.any()


def test_erase_blanks_one_square_of_a_quarter_of_each_side(pixels):
    after = Augmentation(random_erasing=1.0)(pixels, 0, 0, INDEX)
    blank = (after == 0).all(1)
    assert torch.equal(after.masked_fill(blank[:, None], 0), pixels.masked_fill(blank[:, None], 0))
    assert blank.any(2).sum(1).unique().tolist() == [3]
    assert blank.any(1).sum(1).unique().tolist() == [2]
    assert blank.sum((1, 2)).unique().tolist() == [6]  # so the rows and columns cross everywhere: one square
    assert blank.any(0).all()  # anywhere, the corners too


def test_erase_spares_those_not_chosen(pixels):
    chosen = INDEX % 2 == 0
    square, draws = BlackSquare(0.5), Draws(0, 0, INDEX)
    after = square(pixels, (chosen, *square.plan(draws)[1:]), StageContext(draws, (0.5,)))
    assert torch.equal(changed(pixels, after), chosen)
    share = changed(pixels, Augmentation(random_erasing=0.25)(pixels, 0, 0, INDEX)).sum()
    assert 20 < int(share) < 80


def test_flip_shift_and_erase_are_drawn_apart(pixels):
    """The same draw for all three would give few kinds of changes: the flipped ones would be the erased ones."""
    flipped = changed(pixels, Augmentation(flip=0.5)(pixels, 0, 0, INDEX))
    erased_too = changed(pixels, Augmentation(random_erasing=0.5)(pixels, 0, 0, INDEX))
    both = [int((flipped == a).logical_and(erased_too == b).sum()) for a in (True, False) for b in (True, False)]
    assert min(both) > 25


def test_prepared_takes_a_mean_and_a_spread_a_channel(pixels):
    mean, std = (0.1, 0.2, 0.3), (0.5, 0.25, 2.0)
    ready = normalize(pixels, Normalization(mean, std))
    assert ready.dtype == torch.float32
    for channel in range(3):
        by_hand = (pixels[:, channel].double() / 255 - mean[channel]) / std[channel]
        assert torch.allclose(ready[:, channel].double(), by_hand, atol=1e-6)


def test_prepared_takes_one_mean_for_all_channels(pixels):
    by_hand = (pixels.double() / 255 - 0.5) / 0.5
    assert torch.allclose(normalize(pixels, Normalization((0.5,), (0.5,))).double(), by_hand, atol=1e-6)
