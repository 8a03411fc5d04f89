"""Heads of transformers' text classes that have no counterpart here: refused by name."""

import pytest

pytest.importorskip("transformers")

import transformers

import patchword
from patchword.core.errors import UserError
from support.config_walk.outcome import outcome
from support.config_walk.text import FAMILIES
from support.helpers import randomise


def message(kind, stem, folder, **changed):
    """The error of a saved model of theirs."""
    randomise(getattr(transformers, stem + kind)(FAMILIES[stem].config(**changed))).save_pretrained(folder)
    with pytest.raises(UserError) as caught:
        patchword.load(folder)
    return str(caught.value)


@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize("stem", ["OpenAIGPT", "GPT2"])
def test_two_heads_of_gpt(stem, projected, tmp_path):
    """Without a projection the second head has no tensors, and the file looks like one of a language model."""
    assert f"{stem}DoubleHeadsModel" in message("DoubleHeadsModel", stem, tmp_path, summary_use_proj=projected)


@pytest.mark.parametrize("kind", ["ForMultipleChoice", "ForQuestionAnswering"])
def test_heads_of_xlm(kind, tmp_path):
    assert "unsupported head: expected XLMWithLMHeadModel, XLMForQuestionAnsweringSimple" in message(
        kind, "XLM", tmp_path
    )
    assert f"got XLM{kind}" in message(kind, "XLM", tmp_path)


@pytest.mark.parametrize("labels", [1, 3])
@pytest.mark.parametrize(
    ("stem", "kind"),
    [(stem, "ForQuestionAnswering") for stem in ("Bert", "Roberta", "Albert", "MobileBert", "Ernie")]
    + [("XLM", "ForQuestionAnsweringSimple"), ("Albert", "ForPreTraining")],
)
def test_other_than_two_outputs(stem, kind, labels, tmp_path):
    found = message(kind, stem, tmp_path, num_labels=labels)
    assert f"unsupported head: expected 2 labels in id2label, got {labels} outputs" in found


@pytest.mark.parametrize("labels", [1, 3])
@pytest.mark.parametrize(
    ("stem", "head"), [("GPT2", "span"), ("BigBird", "span"), ("Bert", "pretraining"), ("Bert", "next")]
)
def test_heads_with_two_outputs_whatever_the_labels_are(stem, head, labels, tmp_path):
    assert outcome(stem, head, {"num_labels": labels}, tmp_path).kind == "equal"
