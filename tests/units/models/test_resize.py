"""Weights of one window or one image size, loaded for another."""

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

import patchword
from patchword.core.errors import UserError
from patchword.layers import LearnedPositions, RelativeTable
from patchword.models.resize import fit_resolution
from support.helpers import difference, pixels, randomise


@pytest.fixture
def saved(tmp_path):
    """Saves a model with random weights; answers it and its folder."""

    def save(name: str, **overrides: object):
        model = randomise(patchword.create(name, **overrides)).eval()
        return model, patchword.save(model, tmp_path / "model")

    return save


def tables(model, kind):
    return {name: module.table for name, module in model.named_modules() if isinstance(module, kind)}


def unchanged(before, after) -> set[str]:
    ours, theirs = before.state_dict(), after.state_dict()
    assert ours.keys() == theirs.keys()
    return {name for name in ours if torch.equal(ours[name], theirs[name])}


@pytest.mark.parametrize("window", [4, 9])
@torch.no_grad()
def test_a_swin_of_one_window_is_loaded_for_another(saved, window):
    model, folder = saved("swin-mini")
    other = patchword.load(folder, window=window)
    assert other.card.config["window"] == window
    resized = tables(other, RelativeTable)
    assert len(resized) == 4
    for name, table in tables(model, RelativeTable).items():
        picture = table.T.reshape(1, -1, 13, 13)
        side = min(window, 14 if name.startswith("stages.0.") else 7)  # a window is no larger than its map
        expected = F.interpolate(picture, (2 * side - 1, 2 * side - 1), mode="bicubic", align_corners=False)
        torch.testing.assert_close(resized[name], expected.flatten(2)[0].T if side != 7 else table)
    assert unchanged(model, other) >= {name for name in model.state_dict() if not name.endswith("position.table")}
    scores = other(pixels(2, 1, 28, 28))
    assert scores.isfinite().all()
    assert difference(scores, model(pixels(2, 1, 28, 28))) > 1e-3  # another window is another network


@torch.no_grad()
def test_a_window_does_not_depend_on_a_larger_image(saved):
    model, folder = saved("swin-mini")
    other = patchword.load(folder, image=(56, 84))
    assert unchanged(model, other) == set(model.state_dict())
    assert torch.equal(other(pixels(1, 1, 56, 84)), model(pixels(1, 1, 56, 84)))


@pytest.mark.parametrize("image", [(20, 36), 17])
@torch.no_grad()
def test_a_table_fits_the_window_that_a_small_map_has(saved, image):
    """As in the authors' code, whose files for small images would not load otherwise."""
    model, folder = saved("swin-mini")
    other, size = patchword.load(folder, image=image), (image, image) if isinstance(image, int) else image
    rows, columns = (min(7, -(-side // 4)) for side in size)
    table = tables(other, RelativeTable)["stages.1.encoder.blocks.0.attention.sublayer.patterns.0.position"]
    assert len(table) == (2 * rows - 1) * (2 * columns - 1)
    assert difference(other(pixels(2, 1, *size)), model(pixels(2, 1, *size))) < 1e-5


@pytest.mark.parametrize("image", [(20, 36), 16, (29, 31)])
@torch.no_grad()
def test_a_pvt_loaded_for_another_size_is_the_one_that_resizes_as_it_runs(saved, image):
    model, folder = saved("pvt-mini")
    other, size = patchword.load(folder, image=image), (image, image) if isinstance(image, int) else image
    first, second = tables(other, LearnedPositions).values()
    rows, columns = (-(-side // 2) for side in size)
    assert first.shape == (1, rows * columns, 32)
    assert second.shape == (1, 1 + -(-rows // 2) * -(-columns // 2), 64)
    old = tables(model, LearnedPositions)
    picture = old["stages.0.positions"].transpose(1, 2).view(1, 32, 14, 14)
    expected = F.interpolate(picture, (rows, columns), mode="bilinear", align_corners=False)
    torch.testing.assert_close(first, expected.flatten(2).transpose(1, 2))
    assert torch.equal(second[:, 0], old["stages.1.positions"][:, 0])  # of [CLS]
    assert difference(other(pixels(2, 1, *size)), model(pixels(2, 1, *size))) < 1e-5


@pytest.mark.parametrize("name", ["vit-exercise", "cswin-mini", "pale-mini"])
@pytest.mark.parametrize("scheme", ["learned", "relative"])
@torch.no_grad()
def test_tables_of_groups_that_follow_the_image_are_resized(saved, name, scheme):
    """A stripe is as long as the map, so its offsets are others on another map."""
    model, folder = saved(name, position=scheme)
    other = patchword.load(folder, image=(20, 36))
    kept = unchanged(model, other)
    assert all(name.endswith(".table") for name in set(model.state_dict()) - kept)
    assert len(kept) < len(model.state_dict())
    assert difference(other(pixels(2, 1, 20, 36)), model(pixels(2, 1, 20, 36))) < 1e-5


def test_a_table_of_another_shape_than_the_card_says_is_not_resized_but_listed(saved):
    """Otherwise a file that does not belong to its card would be bent until it fits."""
    model, folder = saved("swin-mini")
    name = next(iter(tables(model, RelativeTable))) + ".table"
    tensors = load_file(folder / "model.safetensors") | {name: torch.zeros(81, 2)}
    assert fit_resolution(tensors, model, patchword.create("swin-mini", window=4))[name].shape == (81, 2)
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(UserError, match="1 tensors differ") as caught:
        patchword.load(folder, window=4)
    assert f"misshapen   {name}: expected (49, 2), got (81, 2)" in caught.value.hint
