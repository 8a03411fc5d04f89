"""Runs of one recipe with several seeds, which show how much of a result is chance."""

import csv
import io
import json
import statistics
from pathlib import Path

import pytest
import torch
from PIL import Image
from rich.console import Console

from patchword.core.errors import UserError
from patchword.data.text.tokenizers.tokenizer import Tokenizer
from patchword.models import REGISTRY
from patchword.recipes.schema.recipe import ModelChoice
from patchword.recipes.text.recipe import TextRecipe
from patchword.reports.comparison.seeds import seeds_grid, seeds_in_words
from patchword.reports.comparison.study import grid, print_results
from patchword.reports.plots.numbers import duration
from patchword.studies import STUDIES, find_recipe
from patchword.studies.seeds import over_seeds, spreads, study_over_seeds
from patchword.studies.spread import Spread
from patchword.studies.study import Result, Study
from patchword.weights import save
from support.material import copied_run

TINY = ["model=bert-tiny", "model.width=16", "model.depth=1", "model.heads=2", "model.hidden=16", "device=cpu"]


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table of texts and a tokenizer."""
    folder = tmp_path_factory.mktemp("texts")
    rows = ["a fine film,good", "a dull film,bad", "fine acting,good", "dull acting,bad"] * 6
    (folder / "train.csv").write_text("\n".join(["text,label", *rows]))
    Tokenizer.train_on([row.partition(",")[0] for row in rows], vocabulary=60).save(folder / "words")
    return folder


def words(texts: Path, *more: object) -> list[object]:
    data = [f"train={texts / 'train.csv'}", f"tokenizer={texts / 'words'}", "epochs=1", "length=8", "batch_size=8"]
    return ["train", "classify-text", *TINY, *data, "--runs", texts / "runs", *more]


def result(run: str, score: float, **more: object) -> Result:
    fields = {"metric": "f1", "part": "test", "measures": {"accuracy": 0.5, "f1": score}}
    return Result(run, "bert-tiny", 1000, 2000, **fields | more, loss=1 - score, epochs=3, seconds=61.0)


def test_seeds_begin_with_the_recipes_own() -> None:
    recipe = find_recipe("digits-vit").with_settings(["seed=7"])
    study = over_seeds("digits", recipe, 3)
    assert {label: run.seed for label, run in study.runs.items()} == {"seed-7": 7, "seed-8": 8, "seed-9": 9}
    assert all(run.expect == recipe.expect for run in study.runs.values())
    assert len({run.model_copy(update={"seed": 0}).to_yaml() for run in study.runs.values()}) == 1


def test_the_spread_is_that_of_a_sample() -> None:
    values = [0.5, 0.7, 0.9, 0.6]
    found = Spread.of(values)
    assert found.mean == pytest.approx(0.675)
    assert found.deviation == pytest.approx(float(torch.tensor(values, dtype=torch.float64).std()))
    assert (found.median, found.lowest, found.highest) == (pytest.approx(0.65), 0.5, 0.9)
    assert Spread.of([0.5]).deviation is None


def test_every_measure_is_in_the_table_and_the_one_that_counts_comes_first() -> None:
    rows = [result("seed-0", 0.5), result("seed-1", 0.7)]
    table = seeds_grid(rows)
    assert list(table.columns) == ["run", "test f1", "test accuracy", "test loss", "epochs", "training time"]
    assert [row[:2] for row in table.below] == [
        ["mean", "60.00%"],
        ["standard deviation", "14.14%"],
        ["median", "60.00%"],
    ]
    assert spreads(rows)["loss"].mean == pytest.approx(0.4)
    assert seeds_in_words(rows) == "test f1 over 2 seeds: mean 60.00%, standard deviation 14.14%, median 60.00%"
    assert seeds_in_words(rows[:1]) == "test f1 over 1 seed: mean 50.00%, median 50.00%"


MANY = ("accuracy", "balanced-accuracy", "f1-macro", "f1-weighted", "top5-accuracy", "ece", "brier")


def many(run: str, but: str = "") -> Result:
    return result(run, 0.9, metric="accuracy", measures={name: 0.9 for name in MANY if name != but})


def test_a_measure_that_an_older_run_lacks_is_left_out() -> None:
    rows = [many("seed-0"), many("seed-1", but="ece")]
    assert list(spreads(rows)) == [*(name for name in MANY if name != "ece"), "loss"]
    assert "test ece" not in seeds_grid(rows).columns
    assert "test brier" in seeds_grid(rows).columns


def test_measures_that_do_not_fit_are_not_printed() -> None:
    rows = [many(f"vit-seed-{seed}") for seed in range(3)]
    for show in (lambda out: seeds_grid(rows).print(out), lambda out: print_results(rows, out)):
        out = io.StringIO()
        show(Console(file=out, width=100))
        printed = out.getvalue()
        assert "…" not in printed
        assert all(word in printed for word in ("vit-seed-2", "accuracy", "90.00%", "loss", "0.1000", duration(61)))
    assert all(name in seeds_grid(rows).markdown() for name in MANY)
    assert seeds_grid(rows).fitting(1000).columns == seeds_grid(rows).columns


def test_a_study_may_compare_runs_with_other_measures() -> None:
    other = result("words", 0.25, metric="pearson", part="validation", measures={"pearson": 0.25})
    table = grid([result("names", 0.5), other])
    assert list(table.columns[4:8]) == ["final f1", "final pearson", "final accuracy", "final loss"]
    assert [list(row[4:7]) for row in table.rows] == [["50.00%", "", "50.00%"], ["", "0.2500", ""]]


def test_seeds_are_trained_brought_together_and_not_repeated(
    command, texts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("patchword.api.evaluation.write_report", lambda run, found: run.folder / "report.html")
    code, output, complaint = command(*words(texts, "--seeds", 2, "--name", "luck"))
    assert (code, complaint) == (0, "")
    folder = texts / "runs" / "luck"
    found = json.loads((folder / "results.json").read_text())
    rows = list(csv.DictReader((folder / "results.csv").open()))
    assert [row["run"] for row in rows] == ["seed-0", "seed-1"] == [run["run"] for run in found["runs"]]
    scores = [json.loads((folder / row["run"] / "evaluation.json").read_text())["accuracy"] for row in rows]
    assert [float(row["accuracy"]) for row in rows] == scores
    assert found["summary"]["accuracy"]["mean"] == pytest.approx(statistics.fmean(scores))
    assert (found["metric"], found["part"]) == ("accuracy", "validation")
    assert "| standard deviation |" in (folder / "results.md").read_text()
    assert Image.open(folder / "results.png").size[0] > 500
    assert "validation accuracy over 2 seeds: mean" in output

    before = (folder / "seed-0" / "model.safetensors").stat().st_mtime_ns
    code, output, _ = command(*words(texts, "--seeds", 3, "--name", "luck", "--resume"))
    assert (code, output.count("(done)")) == (0, 2)
    assert (folder / "seed-0" / "model.safetensors").stat().st_mtime_ns == before
    assert len(json.loads((folder / "results.json").read_text())["runs"]) == 3
    assert "seed-2/report.html" in output


def test_a_seed_that_was_stopped_is_trained_on_although_it_was_evaluated(
    command, trained: Path, tmp_path: Path
) -> None:
    seed = copied_run(trained, tmp_path / "luck" / "seed-0", epochs=2)
    place = ("--seeds", 1, "--name", "luck", "--runs", tmp_path, "--resume")
    code, output, _ = command("train", seed / "recipe.yaml", *place)
    assert (code, output.count("(done)")) == (0, 0)
    assert json.loads((tmp_path / "luck" / "results.json").read_text())["runs"][0]["epochs"] == 2


@pytest.mark.parametrize(
    ("typed", "complaint"),
    [
        (["classify-text", "--seeds", "0"], "--seeds: expected 1 or more, got 0"),
        (["classify-text", "--seeds", "-2"], "--seeds: expected 1 or more, got -2"),
        (["pretraining-or-scratch", "--seeds", "2"], "--seeds: expected a recipe, or a study of single runs"),
        (["classify-text"], "no training texts are given: expected train=FILE"),
    ],
)
def test_what_cannot_be_done_is_refused(command, tmp_path: Path, typed: list[str], complaint: str) -> None:
    code, _, output = command("train", *typed, "--runs", tmp_path / "runs")
    assert (code, complaint in output) == (2, True), output
    assert not (tmp_path / "runs").exists()


def test_seeds_do_not_go_into_the_folder_of_a_single_run(command, texts: Path) -> None:
    single = texts / "runs" / "single"
    single.mkdir(parents=True)
    (single / "recipe.yaml").write_text(TextRecipe().to_yaml())
    code, _, output = command(*words(texts, "--seeds", 2, "--name", "single"))
    assert (code, "holds a single run already" in output) == (2, True)


def test_a_study_takes_a_model_that_is_a_folder(tmp_path: Path) -> None:
    save(REGISTRY.create("bert-tiny", width=16, depth=1, heads=2, hidden=16, vocabulary=60), tmp_path / "trained")
    recipe = TextRecipe(model=ModelChoice(name=str(tmp_path / "trained")))
    Study("One.", "seconds", {"one": recipe}).check(tmp_path / "runs")
    missing = TextRecipe(model=ModelChoice(name=str(tmp_path / "nothing")))
    with pytest.raises(UserError):
        Study("One.", "seconds", {"one": missing}).check(tmp_path / "runs")


def test_the_recipes_of_texts_are_listed_and_copied(command, tmp_path: Path) -> None:
    _, output, _ = command("recipes")
    plain = " ".join(output.replace("│", " ").split())
    assert "needs train=FILE" in plain
    assert "needs train=FOLDER" in plain
    rows = [line.split("│")[1:3] for line in output.splitlines() if line.startswith("│")]
    assert all(about.strip() for _, about in rows if _.strip())
    _, output, _ = command("recipes", "copy", "tag", tmp_path / "mine.yaml")
    assert "mine.yaml train=FILE" in output
    code, output, _ = command("recipes", "cat", "squad")
    assert (code, "task: span" in output) == (0, True)


def test_a_study_from_several_seeds() -> None:
    glue = study_over_seeds(STUDIES["glue"](), 2)
    assert len(glue.runs) == 18
    assert [glue.runs[f"rte-seed-{seed}"].seed for seed in range(2)] == [0, 1]
    rows = [
        Result(f"{task}-seed-{seed}", "m", 1, 1, "accuracy", "validation", {"accuracy": score}, 1.0, 1, 1.0)
        for task, seed, score in (("rte", 0, 0.6), ("rte", 1, 0.7), ("qnli", 0, 0.9), ("qnli", 1, 0.9))
    ]
    assert "GLUE score over rte, qnli: 77.50 " in glue.conclusion(rows)
    with pytest.raises(UserError, match="a study that has seeds already"):
        study_over_seeds(STUDIES["pretraining-or-scratch"](), 2)
    with pytest.raises(UserError, match="expected 1 or more"):
        study_over_seeds(STUDIES["glue"](), 0)
