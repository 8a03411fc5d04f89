"""Questions learned in one language and asked in another: several files, contexts left out, other tests of a run."""

from pathlib import Path

import pytest

from patchword.core.errors import UserError
from patchword.recipes.text.data import read_parts
from patchword.recipes.text.recipe import TextRecipe
from patchword.recipes.text.tasks.all_tasks import task_spec_of
from patchword.studies import STUDIES
from support.material import without_sets
from support.tiny_texts import QUICK, asked, refusal, vocabulary_of, write_questions

ENGLISH = [(f"ada lived in rome for {number} years", [asked(f"e{number}", "where", "rome", 13)]) for number in range(6)]
CHINESE = [(f"他 住 在 家 {number}", [asked(f"c{number}", "哪", "家", 6)]) for number in range(5)]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    without_sets(monkeypatch, tmp_path / "data")
    write_questions(Path("english.json"), ENGLISH)
    write_questions(Path("chinese.json"), CHINESE)
    write_questions(Path("test.json"), CHINESE[:2])


def trained_on(recipe: TextRecipe) -> list[str]:
    parts = read_parts(task_spec_of(recipe))
    return sorted(row.id for row in [*parts.train, *parts.validation])


def test_several_files_are_read_as_one():
    recipe = TextRecipe(task="span", train="english.json, chinese.json", validation="0.2")
    assert trained_on(recipe) == sorted([*(f"e{n}" for n in range(6)), *(f"c{n}" for n in range(5))])
    assert trained_on(recipe.located()) == trained_on(recipe)
    assert all(Path(name).is_absolute() for name in recipe.located().train.split(","))


def test_contexts_of_the_test_are_not_learned_from():
    recipe = TextRecipe(task="span", train="chinese.json", without="test.json", validation="0.4")
    assert trained_on(recipe) == ["c2", "c3", "c4"]


def test_a_study_is_told_its_files():
    study = STUDIES["zero-shot-reading"]().with_settings(
        ["english=english.json", "chinese=chinese.json", "test=test.json", "epochs=1"]
    )
    assert {label: recipe.train for label, recipe in study.runs.items()} == {
        "english": "english.json",
        "chinese": "chinese.json",
        "both": "english.json,chinese.json",
    }
    assert {recipe.test for recipe in study.runs.values()} == {"test.json"}
    assert {recipe.epochs for recipe in study.runs.values()} == {1}


def test_a_file_that_was_not_told_is_asked_for():
    study = STUDIES["zero-shot-reading"]().with_settings(["english=english.json", "test=test.json"])
    with pytest.raises(UserError, match="this study needs chinese="):
        study.check(Path("nowhere"))


def test_a_run_is_tried_on_other_texts_and_keeps_its_own_result(command, tmp_path):
    words = tmp_path / "tokenizer"
    vocabulary_of(["ada", "lived", "in", "rome", "for", "years", "where", *"0123456789他住在家哪"], words)
    fields = (
        "train=english.json",
        "validation=0.3",
        "test=english.json",
        f"tokenizer={words}",
        "epochs=1",
        "length=24",
    )
    assert command("train", "squad", "--set", *QUICK, *fields)[0] == 0
    before = Path("runs/squad/evaluation.json").read_bytes()
    code, output, complaint = command("evaluate", "runs/squad", "test=chinese.json", "language=chinese")
    assert code == 0, complaint
    assert "Test F1" in output
    assert Path("runs/squad/evaluation.json").read_bytes() == before
    assert "nowhere.json" in refusal(command, "evaluate", "runs/squad", "test=nowhere.json")
