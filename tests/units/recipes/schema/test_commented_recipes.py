"""A printed recipe has a comment on every field and reads back to the same recipe."""

from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel

from patchword.recipes import RECIPES, find_recipe
from patchword.recipes.schema.commented import commented_yaml
from patchword.recipes.schema.reading import read_recipe
from patchword.recipes.schema.recipe import ModelChoice
from patchword.studies import STUDIES
from support.toys.worked_examples import ROOT


def comment_of(text, line):
    """The comment behind a line of YAML, or above it."""
    lines = text.splitlines()
    index = lines.index(line)
    if "  # " in line:
        return line.partition("  # ")[2]
    above = []
    while lines[index - 1].strip().startswith("# ") and "----" not in lines[index - 1]:
        index -= 1
        above.insert(0, lines[index].strip().removeprefix("# "))
    return " ".join(above)


def fields_of(kind):
    """The fields of a kind that it supports, with those of inner models."""
    for name, field in kind.model_fields.items():
        if name not in kind.unsupported:
            yield name, field
            inner = field.annotation
            if isinstance(inner, type) and issubclass(inner, BaseModel) and inner is not ModelChoice:
                yield from inner.model_fields.items()


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_reads_back(name, tmp_path):
    recipe = find_recipe(name)
    (tmp_path / "recipe.yaml").write_text(commented_yaml(recipe))
    assert read_recipe(tmp_path / "recipe.yaml") == recipe
    assert read_recipe(tmp_path / "recipe.yaml").to_yaml() == recipe.to_yaml()


@pytest.mark.parametrize("name", RECIPES)
def test_every_field_has_a_comment_that_fits_80_columns(name):
    recipe = find_recipe(name)
    text = commented_yaml(recipe)
    lines = [line for line in text.splitlines() if line and not line.strip().startswith("#")]
    comments = {line: comment_of(text, line) for line in lines}
    assert all(comments.values())
    named = {line.split(":")[0].strip() for line in lines}
    assert named >= {field for field, _ in fields_of(type(recipe))}
    assert not [line for line in text.splitlines() if len(line) > 80 and line.strip().startswith("#")]
    for field, info in type(recipe).model_fields.items():
        described = [text for line, text in comments.items() if line.startswith(f"{field}:")]
        assert field in recipe.unsupported or described[0].startswith(str(info.description).split(" ")[0])


def test_a_comment_has_the_limits_and_the_default_where_the_recipe_has_another_value():
    lines = commented_yaml(find_recipe("fashion-mnist-vit")).splitlines()
    assert "epochs: 150  # passes over the training data [>0]; default: 10" in lines
    assert "  shift: 2  # maximum shift in pixels in each direction [>=0]; default: 0" in lines
    assert "bias_correction: true  # Adam's bias correction; BERT's optimizer has none" in lines
    assert "# [auto | float32 | bfloat16]; default: auto" in lines


def test_the_order_starts_with_what_one_changes_first():
    names = list(yaml.safe_load(commented_yaml(find_recipe("fashion-mnist-vit"))))
    assert names[:7] == ["kind", "model", "data", "validation", "epochs", "batch_size", "patience"]
    assert names[-2:] == ["about", "expect"]


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("detr", {"freeze", "layer_decay", "compile", "activation_checkpointing", "sharding"}),
        ("segment-images", {"freeze", "layer_decay", "compile", "activation_checkpointing", "sharding"}),
        ("elmo-pretrain", {"compile", "activation_checkpointing"}),
    ],
)
def test_fields_that_a_kind_refuses_are_left_out(name, fields):
    recipe = find_recipe(name)
    assert recipe.unsupported == fields
    assert yaml.safe_load(commented_yaml(recipe)).keys() == type(recipe).model_fields.keys() - fields


def test_the_fields_of_the_model_are_named():
    text = commented_yaml(find_recipe("digits-vit"))
    assert "  image: 8  # size of the input image in pixels: one side, or (height, width)" in text
    assert "further fields of vit-exercise: channels, classes, drop_path, width," in text
    assert "further fields of" not in commented_yaml(find_recipe("finetune-images"))
    text = commented_yaml(find_recipe("detr"))
    assert "  backbone: resnet-50  # a model of images of the registry" in text
    assert "further fields of detr: backbone_fields, classes, width, frozen," in text


def test_copies_are_commented(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, shown, _ = command("recipes", "cat", "finetune-images")
    command("recipes", "copy", "finetune-images", "mine.yaml")
    written = Path("mine.yaml").read_text()
    assert shown == written
    assert "patchword train finetune-images.yaml model=WEIGHTS data=FOLDER" in written


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_is_printed_with_comments(name, command):
    code, shown, _ = command("recipes", "cat", name)
    study, values = STUDIES[name](), yaml.safe_load(shown)
    assert code == 0
    assert values["runs"].keys() == study.runs.keys()
    for label, recipe in study.runs.items():
        expected = {k: v for k, v in recipe.model_dump(mode="json").items() if k not in recipe.unsupported}
        assert values["shared"] | values["runs"][label] == expected
    assert "  # ---- Learning rate ----" in shown


@pytest.mark.parametrize("width", [80, 60])
def test_the_list_is_grouped_and_fits(command, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    _, shown, _ = command("recipes")
    lines = [line.rstrip() for line in shown.splitlines()]
    assert max(map(len, lines)) <= width
    titles = [line for line in lines if line and not line.startswith(" ")][:-2]
    assert titles[:3] == ["Images", "Detection", "Segmentation"]
    assert titles[3:7] == ["Text", "Pretraining", "Translation", "Word vectors"]
    assert (len(titles), titles[7].partition(":")[0]) == (8, "Studies")
    names = [line.split()[0] for line in lines if line.startswith("  ") and not line.startswith("   ")]
    assert sorted(names) == sorted([*RECIPES, *STUDIES])
    assert "Two settings differ" not in shown
    assert not [line for line in lines if line.startswith(" " * 34)]


def test_the_worked_example_of_a_kind_states_its_task():
    assert 'task="' in (ROOT / "CONTRIBUTING.md").read_text().partition("AUDIO = RecipeKind(")[2].partition("```")[0]
