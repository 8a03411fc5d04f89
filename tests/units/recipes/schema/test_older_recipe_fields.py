"""Run folders with older field names load, resume and evaluate; a typed older name gets a hint with the current one."""

import json
import re

import pytest
import yaml

from patchword.core.errors import UserError
from patchword.models import REGISTRY
from patchword.recipes import find_recipe
from patchword.recipes.evaluation import evaluate
from patchword.recipes.run import Run
from patchword.recipes.run_folders.verification import reseal
from patchword.recipes.schema.aliases import ADVICE, ALIASES
from patchword.recipes.schema.older_fields import OLDER_FIELDS, current_name, with_current_names
from patchword.recipes.schema.reading import read_recipe
from patchword.recipes.schema.recipe import field_names
from patchword.recipes.train import train
from support.material import silent, tiny_recipe

RECIPES = ("digits-vit", "classify-text", "bert-pretrain", "translation", "over-vectors", "elmo-pretrain")


def with_older_names(values):
    """The values of a recipe as an earlier version wrote them."""
    older = {outer: {new: old for old, new in names.items()} for outer, names in OLDER_FIELDS.items()}

    def renamed(values, names):
        return {names.get(name, name): value for name, value in values.items()}

    inner = {name: renamed(values[name], older[name]) for name in older if name in values}
    return renamed({**values, **inner}, older[""])


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_with_older_names_is_the_same_recipe(name, tmp_path):
    recipe = find_recipe(name).with_settings(["learning_rate=0.0123", "batch_size=7", "on_nonfinite=skip"])
    older = with_older_names(recipe.model_dump(mode="json"))
    assert {"rate", "batch", "on_bad", "floor"} <= older.keys()
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(older))
    assert read_recipe(tmp_path / "recipe.yaml") == recipe


def test_every_replacement_is_a_field():
    fields = find_recipe("digits-vit").model_dump(), find_recipe("classify-text").model_dump()
    known = {name for values in fields for name in values}
    assert set(OLDER_FIELDS[""].values()) <= known
    for outer in ("augmentation", "teacher", "model"):
        assert set(OLDER_FIELDS[outer].values()) <= fields[0][outer].keys(), outer


def test_a_run_with_older_names_resumes_and_evaluates(tmp_path):
    recipe = tiny_recipe("epochs=2", "ema_decay=0.9", "augmentation.random_erasing=0.25")
    assert train(recipe, tmp_path / "run", silent())
    path = tmp_path / "run" / "recipe.yaml"
    before = evaluate(Run(tmp_path / "run"), "cpu").summary()
    path.write_text(yaml.safe_dump(with_older_names(yaml.safe_load(path.read_text()))))
    reseal(tmp_path / "run")
    assert "rate" in yaml.safe_load(path.read_text())
    assert evaluate(Run(tmp_path / "run"), "cpu").summary() == before
    assert train(recipe, tmp_path / "run", silent(), resume=True)
    assert read_recipe(path) == recipe


def test_a_name_that_is_given_twice_is_reported(tmp_path):
    (tmp_path / "recipe.yaml").write_text("rate: 0.1\nlearning_rate: 0.2\n")
    with pytest.raises(UserError, match=r"has no field 'rate'\ndid you mean 'learning_rate'"):
        read_recipe(tmp_path / "recipe.yaml")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        *(("lr", "learning_rate"), ("rate", "learning_rate"), ("wd", "weight_decay"), ("bs", "batch_size")),
        *(("batch", "batch_size"), ("clip", "clip_norm"), ("average", "ema_decay"), ("learning_rat", "learning_rate")),
        *(("augmentation.erase", "augmentation.random_erasing"), ("model.fresh", "model.from_scratch")),
    ],
)
def test_the_current_name_is_named(typed, meant):
    with pytest.raises(UserError, match=rf"a recipe has no field '{typed}'\ndid you mean '{meant}'"):
        find_recipe("digits-vit").with_settings([f"{typed}=1"])


def test_a_name_of_another_kind_is_no_hint():
    """Recipes of images have no packed sequences."""
    with pytest.raises(UserError, match="a recipe has no field 'rows'") as caught:
        find_recipe("digits-vit").with_settings(["rows=true"])
    assert "packed" not in str(caught.value)


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        *(("img_size", "did you mean 'model.image'"), ("model.img_size", "did you mean 'model.image'")),
        *(("max_epochs", "did you mean 'epochs'"), ("model.lr", "did you mean 'learning_rate'")),
        *(("dropout_rate", "did you mean 'model.dropout'"), ("num_classes", "comes from the data")),
        *(("pretrained", "model=hf:OWNER/REPO"), ("model.pretrained", "`patchword models --pretrained`")),
    ],
)
def test_a_name_of_another_library_gets_a_hint(typed, hint):
    with pytest.raises(UserError, match=re.escape(hint)):
        find_recipe("digits-vit").with_settings([f"{typed}=1"])


def test_every_alias_means_a_field_of_some_recipe():
    values = [find_recipe(name) for name in (*RECIPES, "squad")]
    known = {field for recipe in values for field in field_names(type(recipe))}
    sizes = {
        f"model.{field}"
        for name in ("vit-exercise", "bert-tiny", "swin-tiny")
        for field in REGISTRY.configure(name, {}).__dict__
    }
    assert set(ALIASES.values()) <= known | sizes
    assert not (ALIASES.keys() | ADVICE.keys() - {"weights"}) & known


def test_a_model_that_has_the_field_of_another_library_takes_it():
    """The fields of the model count first."""
    assert find_recipe("bert-pretrain").with_settings(["model.max_length=64"]).model.overrides()["max_length"] == 64


def test_other_names_stay():
    values = json.loads(json.dumps({"kind": "images", "epochs": 3, "augmentation": "deit"}))
    assert with_current_names(values) == values
    assert with_current_names({"augmentation": "three"}) == {"augmentation": "3-augment"}
    assert current_name("epochs") is None


def test_another_width_keeps_the_mlp_ratio_and_the_recipe_holds_it():
    def sizes(recipe):
        return tuple(recipe.model.overrides()[field] for field in ("width", "hidden"))

    changed = find_recipe("digits-vit").with_settings(["model=vit-exercise", "model.width=128"])
    assert sizes(changed) == (128, 512)
    assert sizes(changed.with_settings(["model.width=32"])) == (32, 128)
    kept = changed.with_settings(["model.width=32", "model.hidden=512"])
    assert sizes(kept) == (32, 512)
    assert sizes(kept.with_settings(["model.width=64"])) == (64, 1024)  # the ratio of the recipe


def test_an_mlp_ratio_of_a_recipe_becomes_the_hidden_width():
    def hidden(recipe):
        assert "mlp_ratio" not in recipe.model.overrides()
        return recipe.model.overrides()["hidden"]

    base = find_recipe("digits-vit").with_settings(["model=vit-exercise"])
    assert hidden(base.with_settings(["model.mlp_ratio=2"])) == 128
    wide = base.with_settings(["model.mlp_ratio=2", "model.width=96"])
    assert hidden(wide) == 192
    assert hidden(wide.with_settings(["model.width=32"])) == 64  # the ratio of the recipe
    assert hidden(wide.with_settings(["model.mlp_ratio=3"])) == 288
    assert hidden(wide.with_values({"model.mlp_ratio": 3})) == 288
    with pytest.raises(UserError, match="hidden and mlp_ratio contradict each other"):
        base.with_settings(["model.mlp_ratio=2", "model.hidden=100"])


def test_a_run_whose_recipe_has_no_hidden_width_keeps_that_of_the_model(tmp_path):
    values = find_recipe("digits-vit").model_dump(mode="json")
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump({**values, "model": {"name": "vit-exercise", "width": 128}}))
    assert read_recipe(path).model.overrides()["hidden"] == 512  # a file of the user
    (tmp_path / "data.json").write_text("{}")
    assert read_recipe(path).model.overrides()["hidden"] == 256  # a run of an earlier version
