"""config.json of a saved model: values with which no prediction is right are refused."""

import json

import pytest
import torch

import patchword
from patchword.core.errors import UserError


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    model = patchword.create("vit-exercise", image=8, patch=4, depth=1, width=8, heads=2, classes=3)
    return patchword.save(model, tmp_path_factory.mktemp("saved") / "model")


def loaded_with(saved, folder, **changes):
    """Load a copy of the folder in which some values of config.json are others."""
    folder.mkdir()
    (folder / "model.safetensors").write_bytes((saved / "model.safetensors").read_bytes())
    described = json.loads((saved / "config.json").read_text("utf-8")) | changes
    (folder / "config.json").write_text(json.dumps(described), "utf-8")
    return patchword.load(folder)


@pytest.mark.parametrize("std", [[0.0], [-1.0], [float("nan")], [float("inf")], [], [1.0, 1.0]], ids=str)
def test_a_wrong_std_is_refused(saved, tmp_path, std):
    with pytest.raises(UserError, match="std"):
        loaded_with(saved, tmp_path / "copy", normalization={"mean": [0.5], "std": std})


@pytest.mark.parametrize("mean", [float("nan"), float("inf")], ids=str)
def test_a_wrong_mean_is_refused(saved, tmp_path, mean):
    with pytest.raises(UserError, match="mean of the normalization: expected finite numbers"):
        loaded_with(saved, tmp_path / "copy", normalization={"mean": [mean], "std": [1.0]})


@pytest.mark.parametrize("count", [1, 100])
def test_labels_are_one_per_class(saved, tmp_path, count):
    with pytest.raises(UserError, match=f"labels in config.json: expected one per class .3., or none, got {count}"):
        loaded_with(saved, tmp_path / "copy", labels=[str(label) for label in range(count)])


@pytest.mark.parametrize("version", [99, 0, "1", True, None], ids=repr)
def test_an_unknown_version_is_refused(saved, tmp_path, version):
    with pytest.raises(UserError, match=r"config.json has an unknown version: expected 1"):
        loaded_with(saved, tmp_path / "copy", version=version)


def test_labels_may_be_none(saved, tmp_path):
    model = loaded_with(saved, tmp_path / "copy", labels=[])
    assert model(torch.randn(2, 1, 8, 8)).shape == (2, 3)
