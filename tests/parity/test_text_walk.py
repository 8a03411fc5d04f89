"""A walk over all fields of the text configs of transformers: each is read right, or refused by name.

`pytest -s` prints how many values of a family are equal, refused and wrong. A field without effect on the outputs, such
as `use_cache`, is changed like any other and must leave them equal.
"""

import logging

import pytest

pytest.importorskip("transformers")

import patchword
from patchword.core.errors import UserError
from patchword.weights.names.text import huggingface_text
from support.config_walk.fields import other_values
from support.config_walk.outcome import counts, outcome, walk
from support.config_walk.text import FAMILIES


@pytest.fixture(autouse=True)
def _quiet(monkeypatch):
    """transformers warns about unusual configs, and shows a progress bar for each file."""
    monkeypatch.setattr(logging.getLogger("transformers"), "disabled", True)


def check(stem, folder, *, all_heads):
    found = list(walk(stem, folder, all_heads=all_heads))
    print(f"{stem}: {counts(found)}")
    assert [f"{one.case}: {one.detail}" for one in found if one.kind == "wrong"] == []
    assert sum(one.kind == "equal" and one.matters for one in found) > 5


@pytest.mark.parametrize("stem", FAMILIES)
def test_every_field_is_read_or_refused_by_name(stem, tmp_path):
    check(stem, tmp_path, all_heads=False)


@pytest.mark.slow
@pytest.mark.parametrize("stem", FAMILIES)
def test_every_field_under_every_head(stem, tmp_path):
    check(stem, tmp_path, all_heads=True)


def test_the_walk_finds_a_field_that_is_read_wrong(tmp_path, monkeypatch):
    """A mutation: all activations are taken for GELU."""
    assert outcome("Bert", "words", {"hidden_act": "relu"}, tmp_path).kind == "equal"
    broken = dict.fromkeys(huggingface_text.ACTIVATIONS, "gelu")
    monkeypatch.setattr(huggingface_text, "ACTIVATIONS", broken)
    assert outcome("Bert", "words", {"hidden_act": "relu"}, tmp_path).kind == "wrong"


def test_a_refusal_counts_only_if_it_names_the_field(tmp_path, monkeypatch):
    assert outcome("Bert", "words", {"hidden_act": "mish"}, tmp_path).kind == "refused"

    def refuse(*_, **__):
        raise UserError("this BERT differs from the paper's")

    monkeypatch.setattr(patchword, "load", refuse)
    assert outcome("Bert", "words", {"hidden_act": "mish"}, tmp_path).kind == "wrong"


def test_a_new_field_needs_another_value():
    with pytest.raises(AssertionError, match="a new field, unheard_of=None"):
        other_values("unheard_of", None)
