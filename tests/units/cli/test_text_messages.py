"""What a user reads: results at the end of a run, the help of verbs, the list of recipes, folders of several runs."""

import itertools
import re
from pathlib import Path

import pytest
import yaml

from patchword.studies import STUDIES, find_recipe
from support.tiny_texts import QUICK, refusal, vocabulary_of, write_conll, write_table

WORDS = ("good", "bad", "film", "ada", "lives")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    vocabulary_of(WORDS, Path("words"))
    good = [number % 2 == 0 for number in range(20)]
    rows = [(("good" if g else "bad") + " film" * n, "yes" if g else "no") for n, g in enumerate(good)]
    write_table(Path("a.csv"), rows)
    write_table(Path("numbers.csv"), [(text, number / 2) for number, (text, _) in enumerate(rows)])
    write_conll(Path("a.conll"), [[("ada", "B-PER"), ("lives", "O")], [("lives", "O"), ("ada", "B-PER")]] * 5)


def train(recipe: str, *words: object) -> list[object]:
    return ["train", recipe, *QUICK, "tokenizer=words", "epochs=1", *words]


def results(output: str) -> list[str]:
    """the lines behind those of the epochs"""
    return [line for line in output.splitlines() if line.startswith(("Validation", "Test", "Held-out"))]


def test_the_result_of_two_classes_has_no_number_twice_and_names_the_positive_class(command):
    code, output, complaint = command(*train("classify-text", "train=a.csv", "validation=a.csv"))
    assert code == 0, complaint
    lines = results(output)
    names = [re.sub(r"threshold [\d.]+", "threshold", line.partition(":")[0]) for line in lines]
    assert names == [
        "Validation Loss",
        "Validation Accuracy of Class 0 (no)",
        "Validation Accuracy of Class 1 (yes)",
        "Validation Accuracy (Overall)",
        "Validation F1 of class yes",
        "Validation Matthews correlation",
        "Validation Macro F1",
        "Validation ROC AUC",
        "Validation Average precision",
        "Validation Expected calibration error",
        "Validation F1 of class yes at threshold",
    ]
    assert all(re.search(r": \d+\.\d\d%", line) for line in (*lines[1:5], lines[6], *lines[9:]))
    assert all(re.search(r": -?\d\.\d{4}$", line) for line in (lines[5], *lines[7:9]))


def test_the_weights_and_the_device_are_named_before_training(command):
    _, output, _ = command(*train("classify-text", "train=a.csv", "--name", "first"))
    assert re.search(r"^model    bert-tiny, [\d,]+ parameters$", output, re.MULTILINE)
    assert "weights  random: training starts from scratch\n" in output
    assert "device   cpu, float32\n" in output
    words = ("model=runs/first", "train=a.csv", "epochs=1", "device=cpu", "--name", "second")
    _, output, _ = command("train", "classify-text", *words)
    assert re.search(r"^weights  .*runs/first$", output, re.MULTILINE)


def test_shares_of_tags_are_percents_and_correlations_are_numbers(command):
    _, output, _ = command(*train("tag", "train=a.conll", "test=a.conll"))
    assert [line.partition(":")[0] for line in results(output)[1:]] == [
        f"Test {name}" for name in ("Accuracy", "F1", "Precision", "Recall")
    ]
    assert all(line.endswith("%") for line in results(output)[1:])
    _, output, _ = command(*train("classify-text", "train=numbers.csv", "task=number"))
    for line, name in zip(results(output)[1:], ("Pearson", "Spearman"), strict=True):
        assert re.fullmatch(rf"Validation {name} correlation: -?\d\.\d{{4}}", line)


def test_a_folder_of_seeds_names_its_runs(command):
    command(*train("classify-text", "train=a.csv"), "--seeds", 2, "--name", "many")
    for name in ("many", "runs/many"):
        output = refusal(command, "evaluate", name)
        assert "runs/many holds 2 runs: expected one of them: runs/many/seed-0, runs/many/seed-1" in output
        assert "the results of all of them are in runs/many/results.md" in output
    assert command("evaluate", "many/seed-1")[0] == 0


def test_a_finished_run_is_not_lengthened(command):
    words = train("classify-text", "train=a.csv")
    command(*words, "--name", "one")
    output = refusal(command, *words, "epochs=3", "--name", "one", "--resume")
    assert "the learning rate schedule spans all epochs of a run: expected epochs=1, got epochs=3" in output
    onwards = output.partition("a new run from its weights: patchword ")[2].split()
    assert command(*onwards)[0] == 0
    assert Path("runs/one-longer/evaluation.json").is_file()
    other = refusal(command, *words, "epochs=3", "learning_rate=1", "--name", "one", "--resume")
    assert "started with another recipe" in other


@pytest.mark.parametrize(
    "verb",
    ["train", "predict", "fill", "embed", "similar", "compare", "export", "tokenizer train", "tokenizer show"],
)
def test_every_example_of_the_help_has_a_line_of_its_own(command, monkeypatch, verb):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    code, output, _ = command(*verb.split(), "--help")
    lines = [line.strip() for line in output.splitlines()]
    begin = next(number for number, line in enumerate(lines) if re.match("Examples?:$", line))
    examples = [line for line in lines[begin + 1 : lines.index("", begin + 2)] if line]
    assert code == 0
    assert examples
    assert all(line.startswith(f"patchword {verb}") and " | " not in line for line in examples)


def test_a_study_is_printed_with_what_its_runs_share(command):
    code, output, _ = command("recipes", "cat", "glue")
    found = yaml.safe_load(output)
    assert (code, list(found["runs"])) == (0, list(STUDIES["glue"]().runs))
    assert found["shared"]["epochs"] == find_recipe("glue-rte").epochs
    assert found["runs"]["rte"]["glue"] == "rte"
    for label, recipe in STUDIES["glue"]().runs.items():
        assert found["shared"] | found["runs"][label] == recipe.model_dump(mode="json")


def test_the_list_says_what_recipes_and_studies_need(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "250")
    _, output, _ = command("recipes")
    lines = output.splitlines()
    rows = {line.split()[0]: below for line, below in itertools.pairwise(lines) if line.strip()}
    assert "needs train=FILE model=FOLDER" in rows["classify-text"]
    assert "needs train=FOLDER model=FOLDER" in rows["glue-rte"]
    assert "needs train=FOLDER model=FOLDER; 9 runs" in rows["glue"]
    assert "needs train=FILE; 6 runs" in rows["pretraining-or-scratch"]  # it names a model
    assert "needs data=FOLDER" in rows["image-folder-vit"]
