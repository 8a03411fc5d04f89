"""Configs and recipes that earlier versions wrote are read under the current names."""

import json
import re

import pytest
import torch
from safetensors.torch import load_file, save_file

import patchword
from patchword.models import REGISTRY
from patchword.models.older_fields import rename_older_fields
from patchword.recipes.schema.recipe import ModelChoice
from support.helpers import pixels, randomise, texts, tiny_text, unequal_tensors

IMAGE = {"position": "positions", "mlp_ratio": "expansion", "mlp_ratios": "expansions"}
TEXT = {"position": "scheme", "max_length": "positions"}


def with_older_names(folder, names):
    """Rewrite the config.json of a saved model as an earlier version wrote it."""
    card = json.loads((folder / "config.json").read_text())
    card["config"] = {names.get(field, field): value for field, value in card["config"].items()}
    (folder / "config.json").write_text(json.dumps(card))
    return card["config"]


@pytest.mark.parametrize("name", ["vit-exercise", "swin-mini", "cswin-mini", "pale-mini", "cvt-mini", "pvt-mini"])
def test_an_image_model_with_older_field_names_loads(name, tmp_path):
    model = randomise(patchword.create(name)).eval()
    patchword.save(model, tmp_path)
    older = with_older_names(tmp_path, IMAGE)
    assert "positions" in older
    assert "position" not in older
    loaded = patchword.load(tmp_path)
    assert loaded.card.config == model.card.config
    images = pixels(2, 1, 28, 28)
    assert torch.equal(loaded(images), model(images))


@pytest.mark.parametrize("name", ["bert-tiny", "gpt2-small", "albert-base"])
def test_a_text_model_with_older_field_names_loads(name, tmp_path):
    model = tiny_text(name, head="tokens").eval()
    patchword.save(model, tmp_path)
    older = with_older_names(tmp_path, TEXT)
    assert (older["positions"], older["scheme"]) == (24, "learned")
    loaded = patchword.load(tmp_path)
    assert loaded.card.config == model.card.config
    assert torch.equal(loaded(texts(9)), model(texts(9)))


@pytest.mark.parametrize(
    ("older", "current"),
    [
        ({"name": "swin-mini", "positions": "none", "expansion": "2"}, {"position": "none", "mlp_ratio": "2"}),
        ({"name": "pvt-mini", "expansions": (2, 2)}, {"mlp_ratios": (2, 2)}),
        ({"name": "bert-tiny", "positions": "64", "scheme": "shaw"}, {"max_length": "64", "position": "shaw"}),
        ({"name": "bert-tiny", "positions": 64}, {"max_length": 64}),
    ],
)
def test_a_recipe_with_older_field_names_builds_the_same_model(older, current):
    choice = ModelChoice.model_validate(older)
    assert choice.overrides() == current
    REGISTRY.configure(choice.name, choice.overrides())


def test_current_fields_stay_as_they_are():
    for name in REGISTRY.names():
        config = vars(REGISTRY.find(name)[1].config)
        assert rename_older_fields(config) == config, name


@pytest.mark.parametrize("has_card", [True, False])
@pytest.mark.parametrize(("name", "renamed"), [("swin-mini", "stem"), ("bert-tiny", "embedding")])
def test_a_file_with_older_tensor_names_loads(name, renamed, has_card, tmp_path):
    model = randomise(patchword.create(name)).eval()
    patchword.save(model, tmp_path)
    path = tmp_path / "model.safetensors"
    older = {re.sub(rf"\b{renamed}\.", "entrance.", key): tensor for key, tensor in load_file(path).items()}
    assert any("entrance" in key for key in older)
    if has_card:
        save_file(older, path)
        loaded = patchword.load(tmp_path)
    else:
        save_file(older, tmp_path / "bare.safetensors")
        loaded = patchword.load(tmp_path / "bare.safetensors", model=name)
    assert unequal_tensors(loaded, model) == []
