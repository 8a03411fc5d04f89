"""`patchword lecture`: the index, and the check of its small forms."""

import json
from pathlib import Path

import pytest

from patchword.cli.lectures.checking import run_commands
from patchword.lectures import index
from patchword.lectures.index import Deck, Item, Section


def test_items_of_a_word(command):
    code, printed, _ = command("lecture", "pale", "imagenet")
    assert code == 0
    assert "patchword compare --published pale-imagenet" in printed
    assert "published only: ImageNet-1k could not be had" in printed
    assert "published: Pale and others on ImageNet (Wu et al. 2021 (arXiv 2112.14000), ImageNet-1k)" in printed
    assert "items:" not in printed


def test_the_whole_index_has_its_counts(command):
    _, printed, _ = command("lecture")
    assert [line[0] for line in printed.splitlines() if line[:1].isdigit()][:5] == ["1", "2", "3", "4", "5"]
    assert f"{len(index.items())} items: " in printed


def test_one_deck_as_json(command):
    _, printed, _ = command("lecture", "--deck", "4", "glue", "--json")
    (deck,) = json.loads(printed)
    assert deck["deck"] == 4
    found = {item["id"]: item for section in deck["sections"] for item in section["items"]}
    assert found["glue"]["table"]["rows"][-1][0] == "BERT-large"
    assert found["glue-tasks"]["again"]


def test_mistakes(command):
    assert "nothing in the lectures matches 'llama'" in command("lecture", "llama")[2]
    assert "there is no deck 9: expected 1 to 5" in command("lecture", "--deck", "9")[2]
    assert "either --check or --json" in command("lecture", "--check", "--json")[2]


def test_small_forms_are_run(command):
    code, printed, _ = command("lecture", "--check", "exercise")
    assert code == 0, printed
    assert "passed   exercise-cost" in printed
    assert printed.strip().endswith("without a small form")


@pytest.fixture
def one_deck(monkeypatch):
    """A deck of a command that works, one that fails, one whose model is missing, and one without a small form."""

    def item(name: str, *small: str) -> Item:
        return Item(id=name, item=name, command=("patchword demo",), small=small)

    found = (
        item("good", "patchword cost vit-exercise"),
        item("bad", "patchword cost vit-exercise wdith=3", "patchword cost vit-exercise"),
        item("missing", "patchword fill zoo:nothing 'a [MASK]'"),
        item("none"),
    )
    monkeypatch.setattr(index, "decks", lambda: (Deck(1, "One", (Section("Part", found),)),))


def test_a_small_form_that_fails_is_reported(command, one_deck):
    place = Path.cwd()
    code, printed, _ = command("lecture", "--check")
    assert code == 1
    assert "passed   good" in printed
    assert "failed   bad" in printed
    assert "patchword cost vit-exercise wdith=3\n  exit code 2\n" in printed
    assert "no field 'wdith'" in printed
    assert "skipped  missing: " in printed
    assert printed.strip().endswith("1 passed, 1 failed, 1 skipped, 1 without a small form")
    assert Path.cwd() == place


def test_a_fault_of_ours_is_reported_and_not_raised(tmp_path):
    def broken(words: list[str]) -> object:
        raise ZeroDivisionError("a fault")

    assert "ZeroDivisionError: a fault" in run_commands(["patchword cost vit-exercise"], broken, tmp_path)


@pytest.mark.slow
def test_every_small_form_runs(command):
    code, printed, _ = command("lecture", "--check")
    assert (code, " 0 failed" in printed) == (0, True), printed
