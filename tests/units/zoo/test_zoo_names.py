"""Models that come along, by name: zoo:NAME."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import patchword
from patchword.core.errors import UserError
from patchword.recipes.schema.fields import whole_path
from patchword.weights.local_path import is_model_name, local_path
from patchword.zoo import entries
from support.toys.zoo_card import write_card_file


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package patchword_zoo without entries."""
    home = tmp_path / "site" / entries.PACKAGE
    home.mkdir(parents=True)
    (home / "__init__.py").touch()
    monkeypatch.syspath_prepend(home.parent)
    return home


@pytest.fixture
def entry(home: Path) -> Path:
    """An entry, zoo:tiny."""
    folder = home / "tiny"
    patchword.save(patchword.create("vit-exercise", width=16, heads=2, hidden=32, depth=1), folder)
    write_card_file(folder)
    return folder


def test_a_name_is_the_folder_of_its_entry(entry):
    assert local_path("zoo:tiny") == entry
    assert is_model_name("zoo:tiny")
    assert not is_model_name("tiny")
    assert patchword.load("zoo:tiny").card.config["width"] == 16
    assert whole_path("zoo:tiny") == "zoo:tiny"


def test_a_folder_without_a_card_is_no_entry(home):
    (home / "__pycache__").mkdir()
    (home / "notes").mkdir()
    assert not {"__pycache__", "notes"} & entries.entries().keys()


def test_an_unknown_name_is_an_error_with_the_nearest(entry):
    with pytest.raises(UserError, match="did you mean 'tiny'"):
        local_path("zoo:tini")


def test_without_the_package_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(entries, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="pip install patchword-zoo") as error:
        local_path("zoo:bert-mini")
    for name in entries.entries():
        assert f"zoo:{name}" in str(error.value)


def test_only_folders_in_a_home_are_entries(entry, tmp_path):
    assert entries.is_entry(entry)
    copy = tmp_path / "copy"
    write_card_file(copy)
    assert not entries.is_entry(copy)


def test_names_are_found_without_torch():
    code = "import sys; from patchword.zoo.card import read_card; from patchword.zoo.entries import entries; entries()"
    subprocess.run([sys.executable, "-c", f"{code}; assert 'torch' not in sys.modules"], check=True)


def test_the_models_are_listed(entry, command):
    code, listed, _ = command("models", "--zoo", "t*")
    assert code == 0
    for text in ("zoo:tiny", "the task", "90.0% accuracy (test)", "the licence"):
        assert text in listed
    assert json.loads(command("models", "--zoo", "zoo:tiny", "--json")[1])[0]["sample"]["licence"] == "MIT"


def test_the_list_fits_80_columns(home, command, monkeypatch):
    write_card_file(home / "language-model", task="the next word of a text, in English and in three other languages")
    monkeypatch.setenv("COLUMNS", "80")
    lines = command("models", "--zoo")[1].splitlines()
    assert max(map(len, lines)) <= 80
    assert any("zoo:language-model " in line for line in lines)


def test_the_card_of_one_model_is_printed_as_its_page(entry, command):
    (entry / "README.md").write_text("# tiny\n\nIts page.\n")
    code, printed, _ = command("models", "--zoo", "zoo:tiny")
    assert (code, printed) == (0, f"# tiny\n\nIts page.\n\n{entry}\n")


def test_an_empty_zoo_says_how_to_install_it(monkeypatch, tmp_path, command):
    monkeypatch.setattr(entries, "homes", lambda: (tmp_path,))
    code, _, complaint = command("models", "--zoo")
    assert code == 2
    assert "no model of the zoo is installed" in complaint
    assert "pip install ./packages/zoo" in complaint


def test_a_pattern_without_a_match_is_an_error(entry, command):
    code, _, complaint = command("models", "--zoo", "x*")
    assert code == 2
    assert "no model of the zoo matches 'x*'" in complaint
