import csv
import io

import pytest
from PIL import Image
from rich.console import Console
from typer.testing import CliRunner

from patchword.cli.app import app
from patchword.core.errors import UserError
from patchword.models import REGISTRY
from patchword.recipes import RECIPES, STUDIES, find_recipe
from patchword.recipes.image_recipe import ImageRecipe
from patchword.recipes.study import Study, results
from patchword.reports.study import print_results, write_results

QUICK = ["data=digits", "epochs=1", "batch=512", "validation=0.1", "device=cpu", "model.image=8"]
BUDGET = ("data", "validation", "augmentation", "epochs", "batch", "rate", "warmup", "decay", "smoothing", "average")


RUNS = {label: find_recipe(f"fashion-mnist-{label}") for label in ("mixer", "resnet")}


def train(folder, *more: str):
    settings = [word for setting in QUICK for word in ("--set", setting)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(STUDIES, "fashion-mnist-families", lambda: Study("Two.", "seconds", RUNS))
        return CliRunner().invoke(app, ["train", "fashion-mnist-families", *settings, "--runs", str(folder), *more])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a study of two tiny runs."""
    runs = tmp_path_factory.mktemp("runs")
    told = train(runs)
    assert told.exit_code == 0, told.output
    return runs / "fashion-mnist-families"


@pytest.mark.parametrize("name", STUDIES)
def test_every_run_of_a_study_can_be_built(name):
    study = STUDIES[name]()
    assert len(study.runs) >= 10
    for recipe in study.runs.values():
        REGISTRY.configure(recipe.model.name, recipe.model.overrides())


def test_the_families_have_one_budget_and_a_run_each():
    runs = STUDIES["fashion-mnist-families"]().runs
    assert {REGISTRY.find(recipe.model.name)[0].name for recipe in runs.values()} == {
        family.name for family in REGISTRY.families if family.preparation
    }
    budgets = {tuple(str(getattr(recipe, field)) for field in BUDGET) for recipe in runs.values()}
    assert len(budgets) == 1
    assert all(runs[label] == RECIPES[f"fashion-mnist-{label}"]() for label in runs if label != "vit")


def test_the_positions_differ_in_nothing_else():
    runs = STUDIES["fashion-mnist-positions"]().runs
    for family in ("swin", "cswin"):
        chosen = [recipe for label, recipe in runs.items() if label.startswith(f"{family}-")]
        assert [recipe.model.overrides()["positions"] for recipe in chosen] == [
            "none",
            "learned",
            "sinusoidal",
            "relative",
            "conditional",
            "local",
        ]
        plain = {recipe.model_copy(update={"model": ImageRecipe().model}).to_yaml() for recipe in chosen}
        assert len(plain) == 1


def test_a_study_is_not_a_recipe():
    with pytest.raises(UserError, match="a study of several runs"):
        find_recipe("fashion-mnist-families")


def test_a_study_is_one_table_and_one_picture(trained):
    rows = list(csv.DictReader((trained / "results.csv").open()))
    assert [row["run"] for row in rows] == ["mixer", "resnet"]
    assert all(0 <= float(row["accuracy"]) <= 1 and row["epochs"] == "1" for row in rows)
    assert f"{float(rows[1]['accuracy']):.2%}" in (trained / "results.md").read_text()
    assert Image.open(trained / "results.png").size[0] > 500
    assert (trained / "results.svg").read_text().count("mixer") >= 1


def test_runs_that_are_done_are_not_repeated(trained):
    before = (trained / "mixer" / "model.safetensors").stat().st_mtime_ns
    again = train(trained.parent, "--resume")
    assert again.exit_code == 0
    assert again.output.count("(done)") == 2
    assert (trained / "mixer" / "model.safetensors").stat().st_mtime_ns == before


def test_a_study_that_was_begun_is_not_begun_again(trained):
    assert isinstance(train(trained.parent).exception, UserError)


def test_the_table_has_the_runs_that_are_done(trained, tmp_path):
    study = Study("Two.", "seconds", {"vit": RUNS["mixer"], "resnet": RUNS["resnet"]})
    with pytest.raises(UserError, match="no run of"):
        results(study, tmp_path)
    rows = results(study, trained)
    assert [row.run for row in rows] == ["resnet"]
    assert rows[0].parameters == 174_970
    out = io.StringIO()
    print_results(rows, Console(file=out, width=120))
    assert "174,970" in out.getvalue()
    assert len(write_results("One.", rows, tmp_path / "new")) == 4


def test_a_study_refuses_to_change_what_it_compares():
    with pytest.raises(UserError, match="what this study compares"):
        STUDIES["fashion-mnist-positions"]().with_settings(["model.positions=none"])
    with pytest.raises(UserError, match="what this study compares"):
        STUDIES["fashion-mnist-families"]().with_settings(["model=swin-mini"])


def test_a_study_does_not_mix_recipes(trained):
    again = train(trained.parent, "--resume", "--set", "epochs=2")
    assert isinstance(again.exception, UserError)
    assert "another recipe" in str(again.exception)


def test_a_study_is_checked_before_it_trains(tmp_path):
    study = STUDIES["fashion-mnist-families"]().with_settings(["model.heads=[3, 5]"])
    with pytest.raises(UserError):
        study.check(tmp_path)
    assert not any(tmp_path.iterdir())
