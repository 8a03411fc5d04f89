import csv
import io
from pathlib import Path

import pytest
from PIL import Image
from rich.console import Console
from typer.testing import CliRunner

from patchword.cli.app import app
from patchword.core.errors import UserError
from patchword.models import REGISTRY
from patchword.recipes import RECIPES
from patchword.recipes.image.recipe import ImageRecipe
from patchword.reports.comparison.study import print_results, write_curves, write_results
from patchword.studies import STUDIES, find_recipe
from patchword.studies.study import Result, Study, results

QUICK = ["data=digits", "epochs=1", "batch_size=512", "validation=0.1", "device=cpu", "model.image=8"]
BUDGET = (
    "data",
    "validation",
    "augmentation",
    "epochs",
    "batch_size",
    "learning_rate",
    "warmup",
    "weight_decay",
    "label_smoothing",
    "ema_decay",
)


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
    printed = train(runs)
    assert printed.exit_code == 0, printed.output
    return runs / "fashion-mnist-families"


@pytest.mark.parametrize("name", [name for name in STUDIES if name.startswith("fashion-mnist")])
def test_every_run_of_a_study_can_be_built(name):
    study = STUDIES[name]()
    assert len(study.runs) >= 10
    for recipe in study.runs.values():
        REGISTRY.configure(recipe.model.name, recipe.model.overrides())


def test_runs_without_data_are_left_out_and_named(tmp_path):
    folder = tmp_path / "glue/CoLA"
    folder.mkdir(parents=True)
    (folder / "train.tsv").write_text("a\t1\t\tIt rains.\na\t0\t*\tIt rain.\n")
    printed: list[str] = []
    study = STUDIES["glue"]().with_settings([f"train={tmp_path / 'glue'}"])
    assert list(study.possible(printed.append).runs) == ["cola"]
    assert len(printed) == 8
    assert "mrpc is left out: " in "\n".join(printed)
    with pytest.raises(UserError, match="the data of all runs of this study is missing"):
        STUDIES["glue"]().with_settings([f"train={tmp_path / 'nothing'}"]).possible(printed.append)


def test_the_glue_score_is_the_mean_over_tasks_without_wnli():
    def row(run: str, **measures: float) -> Result:
        return Result(run, "bert-tiny", 1, 1, next(iter(measures)), "validation", measures, 1.0, 1, 1.0)

    rows = [row("mrpc", accuracy=0.8, f1=0.9), row("rte", accuracy=0.65), row("wnli", accuracy=0.1)]
    assert "GLUE score over mrpc, rte: 75.00 " in STUDIES["glue"]().conclusion(rows)


def test_a_study_of_pretraining_differs_in_the_weights_alone():
    study = STUDIES["pretraining-or-scratch"]().with_settings(["train=a.csv", "model=runs/mine"])
    recipes = list(study.runs.values())
    assert [recipe.model.from_scratch for recipe in recipes] == [False] * 3 + [True] * 3
    assert {recipe.model.name for recipe in recipes} == {"runs/mine"}
    assert [recipe.seed for recipe in recipes] == [0, 1, 2, 0, 1, 2]
    with pytest.raises(UserError, match=r"there is no model runs/mine: .*\n.*bert-pretrain"):
        study.check(Path("nowhere"))


def test_curves_are_drawn_with_one_colour_for_all_seeds(tmp_path):
    def row(run: str, *history: float) -> Result:
        return Result(run, "m", 1, 1, "accuracy", "test", {"accuracy": 0.5}, 1.0, len(history), 1.0, history)

    rows = [row("with-seed-0", 0.5, 0.6), row("with-seed-1", 0.5, 0.7), row("without-seed-0", 0.4, 0.5)]
    svg, png = write_curves(rows, tmp_path)
    drawn = svg.read_text()
    assert png.stat().st_size > 1000
    assert ">with<" in drawn
    assert ">without<" in drawn
    assert "seed" not in drawn
    assert write_curves([row("once", 0.5)], tmp_path / "other") == []


def test_the_families_have_one_budget_and_a_run_each():
    runs = STUDIES["fashion-mnist-families"]().runs
    assert {REGISTRY.find(recipe.model.name)[0].name for recipe in runs.values()} == {
        family.name for family in REGISTRY.families if family.normalization
    }
    budgets = {tuple(str(getattr(recipe, field)) for field in BUDGET) for recipe in runs.values()}
    assert len(budgets) == 1
    assert all(runs[label] == RECIPES[f"fashion-mnist-{label}"]() for label in runs if label != "vit")


def test_the_positions_differ_in_nothing_else():
    runs = STUDIES["fashion-mnist-positions"]().runs
    for family in ("swin", "cswin"):
        chosen = [recipe for label, recipe in runs.items() if label.startswith(f"{family}-")]
        assert [recipe.model.overrides()["position"] for recipe in chosen] == [
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
    assert "resnet" in out.getvalue()
    assert "174,970" not in out.getvalue()  # the same in all runs: in results.md
    written = {path.name: path for path in write_results("One.", rows, tmp_path / "new", "All is well.")}
    assert written.keys() == {"results.md", "results.json", "results.csv", "results.svg", "results.png"}
    assert "174,970" in written["results.md"].read_text()
    assert written["results.md"].read_text().endswith("All is well.\n")


def test_a_table_fits_and_seeds_are_brought_together():
    def row(run: str, score: float) -> Result:
        measures = {"accuracy": score, "f1": score, "matthews": score}
        return Result(run, "bert-mini", 11_000_000, 436_000_000, "accuracy", "validation", measures, 1.0, 5, 60.0)

    rows = [row(f"pretrained-seed-{seed}", 0.8 + seed / 100) for seed in range(3)]
    rows += [row(f"scratch-seed-{seed}", 0.6) for seed in range(3)]
    out = io.StringIO()
    print_results(rows, Console(file=out, width=80))
    printed = out.getvalue()
    assert all(row.run in printed for row in rows)
    assert "pretrained: accuracy 81.00%, standard deviation 1.00% (3 seeds)" in printed
    assert "scratch: accuracy 60.00%, standard deviation 0.00% (3 seeds)" in printed


def test_a_study_refuses_to_change_what_it_compares():
    with pytest.raises(UserError, match="what this study compares"):
        STUDIES["fashion-mnist-positions"]().with_settings(["model.position=none"])
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
