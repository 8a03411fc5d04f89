"""Every head of every text family of transformers, and its encoder alone: loaded from there, and saved for there."""

import logging

import pytest
import torch

pytest.importorskip("transformers")

import transformers

import patchword
from patchword.layers.heads.text import Tokens
from support.config_walk.outcome import outcome
from support.config_walk.text import FAMILIES, our_outputs, texts, their_outputs
from support.helpers import difference

FAST = ("Bert", "DistilBert", "GPT2")  # with a pooler, without, and causal
EVERY = [
    pytest.param(stem, head, marks=() if stem in FAST else pytest.mark.slow)
    for stem, family in FAMILIES.items()
    for head in family.heads
]
HEADED = [one for one in EVERY if one.values[1] != "encoder"]
LABELS = {"num_labels": 3}


@pytest.fixture(autouse=True)
def _quiet(monkeypatch):
    """transformers warns about new heads and unread ones, and shows a progress bar for each file."""
    monkeypatch.setattr(logging.getLogger("transformers"), "disabled", True)


def saved(stem, head, folder):
    """A random model of theirs with several classes where its head has them, and its texts."""
    family = FAMILIES[stem]
    model = family.model(head, family.config(**LABELS if head in ("classes", "tags") else {}))
    model.save_pretrained(folder)
    return model, texts(model.config)


def loaded(stem, folder, **options):
    return patchword.load(folder, **options, **({"random": "huggingface"} if stem == "BigBird" else {}))


def reopened(stem, head, folder):
    """Our file, opened with a class of theirs, and the names of the tensors that it lacks."""
    kind = getattr(transformers, stem + FAMILIES[stem].heads[head])
    model, report = kind.from_pretrained(folder, attn_implementation="eager", output_loading_info=True)
    return model.eval(), report["missing_keys"]


@torch.no_grad()
def their_tokens(encoder, text):
    segments = {} if text.segments is None else {"token_type_ids": text.segments}
    return encoder(text.ids, attention_mask=text.mask.long(), **segments).last_hidden_state[text.mask]


def our_tokens(model, text):
    """The tokens before the head."""
    head, model.head = model.head, Tokens()
    (found,) = our_outputs(model, text)
    model.head = head
    return found


@pytest.mark.parametrize(("stem", "head"), EVERY)
def test_a_head_is_equal_in_both_directions(stem, head, tmp_path):
    assert outcome(stem, head, LABELS if head in ("classes", "tags") else {}, tmp_path).kind == "equal"


@pytest.mark.parametrize(("stem", "head"), HEADED)
def test_the_encoder_of_a_headed_file(stem, head, tmp_path):
    """Theirs with a head -> ours without -> theirs without."""
    theirs, text = saved(stem, head, tmp_path / "theirs")
    expected = their_tokens(theirs.base_model, text)
    ours = loaded(stem, tmp_path / "theirs", head="tokens")
    assert difference(our_outputs(ours, text)[0], expected) < 1e-5
    patchword.save(ours, tmp_path / "back", layout="huggingface")
    again, missing = reopened(stem, "encoder", tmp_path / "back")
    assert all("pooler" in name for name in missing)
    assert difference(their_tokens(again, text), expected) < 1e-5


@pytest.mark.parametrize(("stem", "head"), HEADED)
def test_a_new_head_for_an_encoder_alone(stem, head, tmp_path):
    """Theirs without a head -> ours with a new one -> theirs with the same, and without it."""
    theirs, text = saved(stem, "encoder", tmp_path / "theirs")
    expected = their_tokens(theirs, text)
    ours = loaded(stem, tmp_path / "theirs", head=head, **({"classes": 3} if head in ("classes", "tags") else {}))
    assert difference(our_tokens(ours, text), expected) < 1e-5
    patchword.save(ours, tmp_path / "back", layout="huggingface")
    again, missing = reopened(stem, head, tmp_path / "back")
    assert not missing
    found = their_outputs(again, text)
    assert max(difference(*pair) for pair in zip(our_outputs(ours, text), found, strict=True)) < 1e-5
    encoder, missing = reopened(stem, "encoder", tmp_path / "back")
    assert all("pooler" in name for name in missing)
    assert difference(their_tokens(encoder, text), expected) < 1e-5


def test_another_encoder_is_found(tmp_path):
    """A mutation: one weight of a block is changed after loading."""
    theirs, text = saved("Bert", "tags", tmp_path)
    ours = loaded("Bert", tmp_path, head="tokens")
    ours.encoder.blocks[0].attention.sublayer.output.bias.data[0] += 0.1
    assert difference(our_outputs(ours, text)[0], their_tokens(theirs.base_model, text)) > 1e-3
