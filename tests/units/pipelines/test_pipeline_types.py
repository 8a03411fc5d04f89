"""What an editor sees: no result of a pipeline is Any, and the help text names every method."""

import inspect
from typing import get_type_hints

import pytest

import patchword
from patchword.pipelines import Attention, Fillings, Pipeline, Prediction, Predictions
from patchword.pipelines.tables import text_table

RESULTS = [Attention, Fillings, Pipeline, Prediction, Predictions]


@pytest.mark.parametrize("owner", RESULTS, ids=lambda owner: owner.__name__)
def test_every_result_has_a_type_that_is_not_any(owner):
    members = [value.fget if isinstance(value, property) else value for value in vars(owner).values()]
    made = ("__init__", "__setattr__", "__delattr__", "__eq__", "__hash__", "__replace__")  # of a dataclass
    functions = [member for member in members if inspect.isfunction(member) and member.__name__ not in made]
    assert functions
    for function in functions:
        assert "Any" not in str(get_type_hints(function)["return"]), function.__qualname__


def test_the_help_teaches():
    assert "hf:OWNER/REPO" in patchword.pipeline.__doc__
    for name in ("detect", "embed", "attention", "tag", "answer", "fill", "generate", "translate", "cost"):
        assert f"p.{name}(" in patchword.Pipeline.__doc__
        assert getattr(patchword.Pipeline, name).__doc__


def test_a_table_is_a_text_in_a_notebook_too(monkeypatch, capsys):
    """rich would display the table by itself, above the HTML that the notebook shows."""
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert "cat" in text_table([{"label": "cat"}])
    assert capsys.readouterr().out == ""
