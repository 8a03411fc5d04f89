"""A recipe kind is one object: a toy kind needs its own file, one entry in kinds.KINDS and one in reports.run.kinds."""

import ast
from pathlib import Path
from typing import Literal

import pytest
import yaml

import patchword
from patchword.core.errors import UserError
from patchword.recipes import RECIPES, kinds
from patchword.recipes.checking import check_data
from patchword.recipes.evaluation import evaluate
from patchword.recipes.image.kind import IMAGES
from patchword.recipes.image.recipe import ImageRecipe
from patchword.recipes.kinds import KINDS, kind_named, kind_of
from patchword.recipes.recipe_kind import RecipeKind
from patchword.recipes.run import Run
from patchword.recipes.sample_names import sample_names
from patchword.recipes.schema.reading import read_recipe
from patchword.recipes.train import build_task, train
from patchword.reports.run import kinds as report_kinds
from patchword.reports.run.kinds import REPORTS, KindReport, result_lines, write_report
from support.material import silent, tiny_recipe


class ToyRecipe(ImageRecipe):
    kind: Literal["toy"] = "toy"


class ToyEvaluation:
    kind = "toy"

    def __init__(self, found):
        self.model, self.found = found.model, found

    def lines(self):
        return ["a toy result"]

    def summary(self):
        return self.found.summary()


TOY = RecipeKind(
    recipe=ToyRecipe,
    build_task=IMAGES.build_task,
    evaluate=lambda run, recipe, device: ToyEvaluation(IMAGES.evaluate(run, recipe, device)),
    check_data=lambda recipe, progress: (f"toy data of {recipe.data}", ()),
    sample_names=lambda task: lambda piece: [f"toy {sample}" for sample in piece.samples.tolist()],
    required_settings=lambda recipe: "toys=FOLDER",
    metric=lambda recipe: "toys per hour",
)


@pytest.fixture
def toy(monkeypatch) -> ToyRecipe:
    """All that a new kind adds outside its own folder."""
    monkeypatch.setattr(kinds, "KINDS", (*KINDS, TOY))
    report = KindReport(html=lambda run, found: f"<p>{run.recipe().kind}</p>")
    monkeypatch.setattr(report_kinds, "REPORTS", {**REPORTS, "toy": report})
    return ToyRecipe.model_validate({**tiny_recipe("epochs=1").model_dump(), "kind": "toy"})


def test_a_new_kind_is_trained_evaluated_and_reported(toy, tmp_path):
    (tmp_path / "toy.yaml").write_text(yaml.safe_dump(toy.model_dump(mode="json")))
    recipe = read_recipe(tmp_path / "toy.yaml")
    assert (type(recipe), recipe.with_settings(["seed=3"]).seed) == (ToyRecipe, 3)
    assert check_data(recipe) == ("toy data of digits", ())
    task = build_task(recipe, silent())
    assert sample_names(task)(next(iter(task.data(0, 0))))[0].startswith("toy ")
    assert train(recipe, tmp_path / "run", silent())
    run = Run(tmp_path / "run")
    found = evaluate(run, "cpu")
    assert result_lines(found) == ["a toy result"]
    assert write_report(run, found).read_text() == "<p>toy</p>"


def test_a_new_kind_is_listed(toy, command, monkeypatch):
    monkeypatch.setitem(RECIPES, "toy", lambda: toy.with_settings(["expect.accuracy=0.5"]))
    code, written, _ = command("recipes")
    assert code == 0
    assert "toys=FOLDER" in written
    assert "toys per" in written


def test_an_unknown_kind_is_refused():
    with pytest.raises(UserError, match=r"recipe field 'kind': expected images or text or .*, got toy"):
        kind_named("toy")


def test_every_kind_has_its_parts():
    assert [kind.name for kind in KINDS] == [kind.recipe().kind for kind in KINDS] == list(dict.fromkeys(REPORTS))
    assert {kind_of(function()).name for function in RECIPES.values()} == {kind.name for kind in KINDS}


def test_no_other_code_lists_the_kinds():
    """No `match` over recipe classes, evaluation classes or task classes anywhere."""
    found = []
    for path in Path(patchword.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.MatchClass) and ast.unparse(node.cls).endswith(("Recipe", "Evaluation", "Task")):
                found.append(f"{path}:{node.lineno}")
    assert found == []
