"""The verb `data show`, and the pictures it draws."""

import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from patchword.cli.app import app
from patchword.core.card import Normalization
from patchword.core.errors import UserError
from patchword.data.augmentation.augmentation import normalize
from patchword.data.augmentation.randaugment import LISTS
from patchword.reports.plots.augmentations import label_text, operation_rows, other_rows, shown
from support.material import write_picture

runner = CliRunner()
PREPARATION = Normalization((0.4,), (0.2,))


@pytest.fixture
def folder(tmp_path):
    for place in range(8):
        write_picture(tmp_path / "set" / "ab"[place % 2] / f"{place}.png", seed=place, size=(16, 16), mode="RGB")
    return tmp_path / "set"


@pytest.mark.parametrize("augment", ["", "deit", "[flip, three_augment]", "flip,three_augment"])
def test_a_batch_and_the_operations_are_drawn(folder, tmp_path, augment):
    out = tmp_path / "look.png"
    words = ["data", "show", str(folder), "--size", "16", "--count", "4", "--out", str(out)]
    done = runner.invoke(app, [*words, *(["--augmentation", augment] if augment else [])])
    assert done.exit_code == 0, done.output
    for path in (out, tmp_path / "look-operations.png"):
        assert str(path) in done.output
        with Image.open(path) as picture:
            assert picture.format == "PNG"
            assert picture.width > 400


def test_a_single_picture_is_mixed_with_another_one(folder, tmp_path):
    """Not with itself, which would show nothing."""
    words = ["data", "show", str(folder), "--size", "16", "--out"]
    for count in ("1", "2"):
        assert runner.invoke(app, [*words, str(tmp_path / f"{count}.png"), "--count", count]).exit_code == 0
    one, two = ((tmp_path / f"{count}-operations.png").read_bytes() for count in ("1", "2"))
    assert one == two
    assert (tmp_path / "1.png").read_bytes() != (tmp_path / "2.png").read_bytes()


def test_the_same_pictures_twice(folder, tmp_path):
    words = ["data", "show", str(folder), "--size", "16", "--count", "2", "--augmentation", "deit", "--out"]
    for name in ("one.png", "two.png"):
        assert runner.invoke(app, [*words, str(tmp_path / name)]).exit_code == 0
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["digits", "--augmentation", "deti"], "recipe field 'augmentation': expected none, light, deit"),
        (["digits", "--augmentation", "[flip, flop]"], "recipe field 'augmentation'"),
        (["digits", "--out", "look.jpg"], "the figures are PNG files"),
        (["classify-text"], "trains on texts"),
        (["no-such-set"], "there is no data set 'no-such-set'"),
    ],
)
def test_a_mistake_is_explained(words, message):
    done = runner.invoke(app, ["data", "show", *words])
    assert isinstance(done.exception, UserError)
    assert message in str(done.exception)


def test_inputs_are_pixels_again():
    pixels = torch.randint(0, 256, (3, 1, 5, 5), dtype=torch.uint8)
    assert torch.equal(shown(normalize(pixels, PREPARATION), PREPARATION), pixels)


def test_a_label_is_told_with_its_shares():
    classes = ("cat", "dog", "a very long name of a class")
    assert label_text(torch.tensor(1), classes) == "dog"
    assert label_text(torch.tensor([0.25, 0.75, 0.0]), classes) == "dog 75%\ncat 25%"
    assert label_text(torch.tensor([1.0, 0.0, 0.0]), classes) == "cat 100%"


@pytest.mark.parametrize("channels", [1, 3])
def test_every_operation_has_a_row(channels):
    torch.manual_seed(0)
    pixels, other = torch.randint(0, 256, (2, channels, 16, 16), dtype=torch.uint8)
    rows = operation_rows(pixels, (0.5,))
    assert [row.name for row in rows] == list(LISTS["deit"])
    for row in [*rows, *other_rows(pixels, other, PREPARATION)]:
        assert len(row.images) == len(row.caption)
        assert row.images.shape[1:] == pixels.shape
        if channels == 3:
            assert bool((row.images != pixels).any()) or row.name == "autocontrast"
