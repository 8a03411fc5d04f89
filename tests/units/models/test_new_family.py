"""A new family touches its own files and the lines that docs/architecture.md names: a toy is added through these."""

import ast
from types import SimpleNamespace

import pytest
import torch

import patchword
from patchword.analysis import cost
from patchword.analysis.cost import rules
from patchword.core.errors import UserError
from patchword.fusion.rules import fuse
from patchword.models import REGISTRY
from patchword.weights.io import building
from patchword.weights.names import layouts
from support.helpers import pixels, randomise
from support.source_code import SOURCE, files, imported, tree_of
from support.toys import toy_family
from support.toys.worked_examples import documented_files, worked_example

# The lines that a new family adds outside its own files, by the file that the documentation names.
LINES = {
    "models/__init__.py": lambda patch: patch.setattr(REGISTRY, "families", (*REGISTRY.families, toy_family.FAMILY)),
    "weights/names/layouts.py": lambda patch: patch.setattr(
        layouts, "LAYOUTS", (*layouts.LAYOUTS, *toy_family.LAYOUTS)
    ),
    "analysis/cost/rules.py": lambda patch: patch.setitem(rules.RULES, toy_family.Gate, toy_family.gate_cost),
    "weights/io/building.py": lambda patch: patch.setattr(building, "RESIZING", (*building.RESIZING, "table")),
}
# What each line is for.
USES = {
    "models/__init__.py": lambda model, folder: patchword.create("toy-small"),
    "weights/names/layouts.py": lambda model, folder: patchword.save(model, folder, layout="authors"),
    "analysis/cost/rules.py": lambda model, folder: cost.count(model.card),
    "weights/io/building.py": lambda model, folder: patchword.load(patchword.save(model, folder), table=6),
}


@pytest.fixture
def registered(monkeypatch):
    for line in LINES.values():
        line(monkeypatch)


@pytest.fixture
def toy(registered):
    return randomise(patchword.create("toy-small")).eval()


def test_the_documentation_names_these_files():
    """And models/resize.py, for a class of position table that no family has yet; the toy has a known one."""
    assert documented_files("a family") == {*LINES, "models/resize.py"}
    assert all((SOURCE / file).is_file() for file in documented_files("a family"))


@pytest.mark.parametrize("missing", LINES)
def test_every_line_is_needed_for_its_use(missing, toy, tmp_path, monkeypatch):
    USES[missing](toy, tmp_path)
    monkeypatch.undo()
    for file in LINES.keys() - {missing}:
        LINES[file](monkeypatch)
    with pytest.raises((UserError, TypeError)):
        USES[missing](toy, tmp_path)


def test_a_new_family_is_listed_and_created(registered, command):
    assert patchword.list_models("toy-*") == ["toy-small", "toy-deep"]
    assert patchword.create("toy-deep", width=16).card.config["width"] == 16
    with pytest.raises(UserError, match="field 'width' of model 'toy-small': expected a whole number, greater than 0"):
        patchword.create("toy-small", width="wide")
    code, printed, _ = command("models", "toy-*")
    assert (code, "toy-small" in printed, "toy-deep" in printed) == (0, True, True)


def test_a_new_family_runs(toy):
    images = pixels(2, 3, 16, 16)
    assert toy(images).shape == (2, 5)
    assert [tuple(each.shape) for each in patchword.create("toy-small", features=True)(images)] == [(2, 8, 4, 4)]
    assert torch.equal(fuse(toy)(images), toy(images))


@pytest.mark.parametrize("layout", ["patchword", "authors"])
def test_a_new_family_is_saved_and_loaded(toy, layout, tmp_path):
    folder = patchword.save(toy, tmp_path / "toy", layout=layout)
    loaded = patchword.load(folder)
    assert loaded.card == toy.card
    assert torch.equal(loaded(pixels(2, 3, 16, 16)), toy(pixels(2, 3, 16, 16)))


def test_its_own_names_identify_a_file_without_a_config(registered, tmp_path):
    toy = patchword.create("toy-deep")
    patchword.save(toy, tmp_path, layout="authors")
    (tmp_path / "config.json").unlink()
    assert patchword.load(tmp_path / "model.safetensors").card.model == "toy-deep"


def test_its_position_table_is_resized(toy, tmp_path):
    folder = patchword.save(toy, tmp_path)
    assert patchword.load(folder, table=6).stages[0].positions.table.shape == (1, 36, 8)


def test_its_cost_is_counted(toy, command):
    found, variant = cost.count(toy.card), toy_family.FAMILY.variants["small"]
    assert (found.parameters, found.macs) == (variant.parameters, variant.macs)
    code, printed, _ = command("cost", "toy-small", "--steps")
    assert (code, "gate" in printed) == (0, True)


def test_the_table_of_names_follows_the_families(registered, monkeypatch):
    family, variant = REGISTRY.find("toy-small")
    assert (family, variant) == (toy_family.FAMILY, toy_family.FAMILY.variants["small"])
    with pytest.raises(AssertionError, match="several models have the same name: toy-small, toy-deep"):
        REGISTRY.families = (*REGISTRY.families, toy_family.FAMILY)
    monkeypatch.undo()
    with pytest.raises(UserError, match="no model is called 'toy-small'"):
        REGISTRY.find("toy-small")
    assert "toy-small" not in REGISTRY.names()


def test_no_other_code_lists_the_families():
    """No comparison with the name of a family, and no import of a family's file outside models/ and its name table.

    ELMo reads characters and has a recipe kind of its own, which imports it. Packages below models, such as data with
    its augmentation "deit", cannot know the families.
    """
    names = {family.name for family in REGISTRY.families}
    modules = [f"patchword.models.{folder}.{name}" for folder in ("vision", "text", "seq2seq") for name in names]
    found = []
    for path in files(SOURCE):
        place = path.relative_to(SOURCE).as_posix()
        if place.startswith(("core/", "kernels/", "layers/", "data/", "models/", "weights/names/")):
            continue
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Compare | ast.MatchValue):
                constants = {each.value for each in ast.walk(node) if isinstance(each, ast.Constant)}
                found += [f"{place}:{node.lineno} {name}" for name in names & constants]
        for name in imported(tree_of(path)):
            if name.startswith(tuple(modules)) and not name.startswith("patchword.models.text.elmo"):
                found.append(f"{place} {name}")
    assert found == []


def test_the_worked_example_runs(monkeypatch):
    from patchword import layers
    from patchword.models.vision import cswin, pyramid  # the file that the example starts from, and the common parts

    (code,) = worked_example("Add a model family")
    example = SimpleNamespace()
    vars(example).update({**vars(layers), **vars(pyramid), **vars(cswin)})
    exec(compile(code, "stripe.py", "exec"), vars(example))
    monkeypatch.setattr(REGISTRY, "families", (*REGISTRY.families, example.FAMILY))
    model = patchword.create("stripe-tiny", width=16, depths=(1, 1), heads=(2, 4), image=28, patch=2, classes=3)
    assert model.eval()(pixels(2, 3, 28, 28)).shape == (2, 3)
    assert cost.count(model.card).parameters == sum(part.numel() for part in model.parameters())
