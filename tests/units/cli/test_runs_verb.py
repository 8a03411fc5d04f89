"""patchword runs: list, show, compare, clean, rename, delete; and the same from Python."""

import json
from pathlib import Path

import pytest

import patchword
from patchword.cli.run_folders.runs import sorted_runs
from patchword.core.errors import UserError
from patchword.recipes.run_folders.listing import RunSummary
from patchword.training.lock.lock import exclusive
from support.material import copied_run, sealed
from support.pages import Page


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch, unpainted):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def runs(trained) -> Path:
    for name in ("first", "second"):
        copied_run(trained, Path("runs") / name)
    copied_run(trained, Path("runs/longer"), evaluated=False, epochs=3, learning_rate=0.5)
    return Path("runs")


def test_the_list(command, runs):
    (runs / "second/recipe.yaml").write_text("kind: [")
    sealed(runs / "second")
    code, output, complaint = command("runs")
    assert (code, complaint) == (0, "")
    lines = output.splitlines()
    assert max(map(len, lines[:-2])) <= 80
    assert (
        next(line for line in lines if line.startswith(" first")).split()[2:4] == ["finished", "9.72%"]
        or "first" in output
    )
    assert "second is broken: cannot read the recipe" in output
    assert "3 runs, " in lines[-1]
    code, output, _ = command("runs", "--json", "--sort", "size")
    found = json.loads(output)
    assert {run["name"]: run["state"] for run in found} == {
        "first": "finished",
        "second": "broken",
        "longer": "stopped",
    }
    assert [run["bytes"] for run in found] == sorted((run["bytes"] for run in found), reverse=True)
    assert command("runs", "list", "--runs", "runs")[1] == command("runs")[1]


def test_an_empty_and_a_missing_folder(command):
    assert "there is no folder runs" in command("runs")[2]
    Path("runs").mkdir()
    assert "runs has no runs; `patchword train RECIPE` makes one" in command("runs")[1]


def test_sorting():
    found = [
        RunSummary(name, Path(name), "stopped", score=score)
        for name, score in zip("abc", (0.1, None, 0.3), strict=True)
    ]
    assert [run.name for run in sorted_runs(found, "name", False)] == ["a", "b", "c"]
    assert [run.name for run in sorted_runs(found, "name", True)] == ["c", "b", "a"]
    assert [run.name for run in sorted_runs(found, "test", False)] == ["c", "a", "b"]
    assert [run.name for run in sorted_runs(found, "test", True)] == ["a", "c", "b"]


def test_show(command, runs):
    _, output, _ = command("runs", "show", "first")
    assert "validation" in output
    assert "test 50.00%" in output
    assert "patchword runs clean runs/first" in output
    _, output, _ = command("runs", "show", "runs/longer")
    assert "stopped at epoch 1 of 3" in output
    assert "--name longer --runs runs --resume" in output
    assert json.loads(command("runs", "show", "longer", "--json")[1])["epochs"] == 3
    code, _, complaint = command("runs", "show", "frist")
    assert (code, "did you mean 'first'" in complaint) == (2, True)


def test_compare(command, runs):
    code, output, complaint = command("runs", "compare", "first", "longer", "--out", "out/page.html")
    assert (code, complaint) == (0, "")
    assert "learning_rate" in output
    assert "batch_size" not in output  # the same in both
    assert "Not finished: longer." in output
    assert output.splitlines()[-1] == "out/page.html"
    assert Page(Path("out/page.html").read_text()).text.count("learning_rate") == 1
    rows = json.loads(command("runs", "compare", "first", "longer", "--json")[1])["rows"]
    assert rows["epochs"] == {"first": "1", "longer": "3"}
    assert rows["test accuracy"] == {"first": "50.00%", "longer": "-"}
    for words, message in (
        (("first",), "there is nothing to compare: expected two or more runs"),
        (("first", "first"), "there is nothing to compare"),
        (("first", "longer", "--out", "page.pdf"), "a file that ends in .html"),
        (("first", "third"), "there is no run third"),
    ):
        code, _, complaint = command("runs", "compare", *words)
        assert (code, message in complaint) == (2, True), complaint


def test_delete_asks_and_refuses(command, runs, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("typer.confirm", lambda text, abort: (_ for _ in ()).throw(SystemExit(1)))
        code, output, _ = command("runs", "delete", "first")
        assert (code, "runs/first  " in output) == (1, True)
    assert (runs / "first").is_dir()
    with exclusive(runs / "first"):
        code, _, complaint = command("runs", "delete", "second", "first", "--yes")
        assert (code, "is in use by another run" in complaint) == (2, True)
    assert (runs / "second").is_dir()  # nothing is deleted if one cannot be
    code, output, _ = command("runs", "delete", "first", "second", "--yes")
    assert (code, output.count("deleted runs/")) == (0, 2)
    assert [path.name for path in runs.iterdir()] == ["longer"]


def test_delete_names_the_runs_that_start_from_it(command, runs, trained):
    copied_run(trained, runs / "tuned", model={"name": str(Path("runs/first").absolute())})
    _, output, _ = command("runs", "delete", "first", "--yes")
    assert "its weights are named in the recipe of" in output
    assert "runs/tuned" in output


def test_runs_that_are_deleted_together_need_no_note(command, runs):
    copied_run(runs / "first", runs / "tuned", model={"name": str(Path("runs/first").absolute())})
    code, output, _ = command(
        "runs", "delete", "first", "tuned", "./runs/first", Path("runs/first").absolute(), "--yes"
    )
    assert (code, output.count("deleted ")) == (0, 2)
    assert "its weights are named" not in output


def test_a_name_that_could_be_two_runs_is_refused(command, runs, trained):
    copied_run(trained, Path("first"))
    code, _, complaint = command("runs", "delete", "first", "--yes")
    assert (code, "first is the name of two runs: expected ./first or " in complaint) == (2, True)
    assert command("runs", "delete", "./first", "--yes")[0] == 0
    assert not Path("first").exists()
    assert (runs / "first").is_dir()


@pytest.mark.parametrize("name", [".", "../first"])
def test_a_run_is_named_from_inside_its_folder(command, runs, monkeypatch, name):
    place = (runs / "first").absolute()
    monkeypatch.chdir(place)
    code, _, complaint = command("runs", "delete", "", "--yes")
    assert (code, "the name of a run is empty" in complaint) == (2, True)
    assert command("runs", "clean", name)[0] == 0
    assert command("runs", "delete", name, "--yes")[0] == 0
    assert not place.exists()


def test_rename_and_clean(command, runs):
    (runs / "first/report.html").write_text("first")
    code, output, _ = command("runs", "rename", "first", "baseline")
    assert (code, output.splitlines()[0]) == (0, "runs/baseline")
    assert "to write it again: patchword evaluate runs/baseline" in output
    code, output, _ = command("runs", "clean", "baseline", "second")
    assert (code, output.count(", now ")) == (0, 2)
    assert not (runs / "baseline/checkpoints").exists()
    code, _, complaint = command("runs", "clean", "longer")
    assert (code, "is not finished" in complaint) == (2, True)
    assert (runs / "longer/checkpoints").is_dir()


def test_from_python(runs):
    found = patchword.list_runs()
    assert [run.name for run in found] == ["first", "longer", "second"]
    header, _, longer, _ = repr(found).splitlines()
    assert header.split()[:4] == ["run", "kind", "model", "state"]
    assert longer.startswith("longer")
    assert "stopped at epoch 1 of 3" in longer
    assert "<td>stopped at epoch 1 of 3</td>" in found._repr_html_()
    both = patchword.compare_runs("first", patchword.Run("longer"))
    assert both.columns == ("", "first", "longer")
    assert both.write("page.html").read_text() == both.html
    assert any("Not finished" in note for note in both.not_comparable)
    assert all(note in str(both) for note in both.not_comparable)
    assert "<" not in repr(both)  # the page is long
    with pytest.raises(UserError, match="two or more runs"):
        patchword.compare_runs("first")


def test_the_table_has_more_columns_on_a_wide_terminal(command, runs, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    assert "metric" in command("runs")[1]
