"""`patchword --help` lists every verb in a panel by task, each on one line of 80 columns."""

import pytest

from patchword.cli.app import app

PANELS = ["Options", "Start here", "Train and use", "Models", "Measure", "Look inside", "Text", "Data"]


@pytest.fixture
def page(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, printed, _ = command("--help")
    assert code == 0
    return printed.splitlines()


def names():
    return [one.name for one in (*app.registered_commands, *app.registered_groups)]


def test_the_panels_are_these(page):
    assert [line.strip("╭╮─ ") for line in page if line.startswith("╭")] == PANELS


def test_every_verb_has_one_line(page):
    rows = [line for line in page if line.startswith("│") and not line.startswith(("│  ", "│ -"))]
    assert sorted(line.split()[1] for line in rows) == sorted(names())
    first = next(index for index, line in enumerate(page) if "Start here" in line)
    assert len([line for line in page[first:] if line.startswith("│")]) == len(names())  # no line is wrapped
    assert all(line.rstrip(" │").endswith(".") for line in rows)


def test_the_long_help_stays(command):
    _, printed, _ = command("cost", "--help")
    assert "Count the parameters and MACs of a model, a block or any part, and show" in printed
