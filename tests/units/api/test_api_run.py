"""Run: metrics as a table, the best weights, the test result; evaluate on other data."""

import json
import shutil

import pytest
import torch

import patchword
from patchword.core.errors import UserError
from patchword.recipes.evaluation import evaluate
from patchword.recipes.run import Run as RecipesRun


@pytest.fixture
def run(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return patchword.Run(shutil.copytree(trained, tmp_path / "runs" / "mine"))


def test_a_run_is_opened_by_its_folder_or_its_name(run):
    assert patchword.Run("mine") == patchword.Run("runs/mine")
    assert repr(patchword.Run("mine")) == "Run('runs/mine')"
    with pytest.raises(UserError, match="nothing is not a run") as caught:
        patchword.Run("nothing")
    assert "known: mine" in str(caught.value)
    with pytest.raises(UserError, match="did you mean 'mine'"):
        patchword.Run("mime")
    with pytest.raises(UserError, match="runs holds 1 runs"):
        patchword.Run("runs")


def test_metrics_are_a_table(run):
    table = run.metrics()
    assert table == RecipesRun(run.folder).metrics()
    assert table[-1]["epoch"] == 1
    lines = repr(table).splitlines()
    assert len(lines) == 2
    assert lines[0].split() == table.columns()
    assert table._repr_html_().count("<tr>") == 2
    (run.folder / "metrics.jsonl").unlink()
    assert repr(run.metrics()) == "no rows"


def test_a_column_that_a_row_lacks_is_empty(run):
    lines = [{"epoch": 1, "loss": 0.5}, {"epoch": 2, "loss": 0.25, "accuracy": 0.75}]
    (run.folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert repr(run.metrics()).splitlines() == [
        "epoch  loss  accuracy",
        "    1   0.5          ",
        "    2  0.25      0.75",
    ]


def test_the_result_is_that_of_the_evaluation(run):
    with pytest.raises(UserError, match=r"is not evaluated yet\ncall patchword\.evaluate"):
        run.evaluation()
    expected = evaluate(RecipesRun(run.folder)).summary()
    found = run.evaluation()
    assert (found.kind, found.part, found.metric) == ("images", "test", "accuracy")
    assert found.score == found.scores["accuracy"] == expected["accuracy"]
    assert found.loss == expected["loss"]
    assert found.examples == expected["examples"]
    confusion = torch.tensor(found.confusion)
    assert found.class_accuracy == pytest.approx(
        {name: float(confusion[n, n] / confusion[n].sum()) for n, name in enumerate(found.classes)}
    )
    assert int(confusion.diag().sum()) / int(confusion.sum()) == found.score
    assert "confusion" not in repr(found)
    assert "accuracy" in found._repr_html_()


def test_evaluate_saves_the_result_and_updates_the_report(run, unpainted, capfd):
    found = patchword.evaluate("mine", device="cpu")
    assert found == run.evaluation()
    assert run.report.is_file()
    assert capfd.readouterr().out == ""


def test_evaluate_on_other_data_changes_no_file(run):
    before = {path: path.stat().st_mtime_ns for path in run.folder.rglob("*")}
    found = patchword.evaluate(run, device="cpu", batch_size=32)
    assert found.metric == "accuracy"
    assert {path: path.stat().st_mtime_ns for path in run.folder.rglob("*")} == before
    with pytest.raises(UserError, match="a recipe has no field 'dta'"):
        patchword.evaluate(run, dta="x")
    with pytest.raises(UserError, match="cannot use device 'gpu'"):
        patchword.evaluate(run, device="gpu")


def test_a_notebook_shows_the_run(run, unpainted):
    assert "accuracy (test)" not in run._repr_html_()
    patchword.evaluate(run, device="cpu")
    page = run._repr_html_()
    assert "runs/mine" in page
    assert "accuracy (test)" in page
    assert "validation_accuracy" in page


def test_the_best_weights_are_a_model(run):
    assert run.model().card.model == run.recipe().model.name


def test_a_run_makes_a_pipeline(run):
    assert run.pipeline(device="cpu") is not None
