"""What cost, show and models say of models of texts, and which verbs refuse them."""

import json
import re
from pathlib import Path

import pytest
import torch

import patchword
from patchword.analysis.cost import CONVENTION, blocks_of, count, text_of
from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.reports.run.costs import cost_section
from support.helpers import tiny_text
from support.material import everything_below

pytestmark = pytest.mark.usefixtures("quick_meta")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def card_of(name: str = "bert-tiny", **overrides: object) -> Card:
    with torch.device("meta"):
        return patchword.create(name, **overrides).card


# Counting


def test_a_block_of_bert_is_counted_by_hand():
    cost = count(card_of("bert-base"), "encoder.blocks.0")
    assert cost.parameters == 7_087_872
    assert cost.macs_of("attention") == 2 * 128 * 128 * 768
    assert cost.macs_of("linear") == 128 * (4 * 768 * 768 + 2 * 768 * 3072)
    lines = {line.label: line for line in cost.lines}
    assert lines["query x key"].macs.working() == "h x N x N x d = 12 x 128 x 128 x 64 = 12,582,912"
    assert blocks_of(card_of("bert-base")) == [f"encoder.blocks.{index}" for index in range(12)]


def test_tables_are_held_and_multiply_nothing():
    lines = {line.label: line for line in count(card_of(), "embedding").lines}
    assert lines["vocabulary"].parameters.working() == "V x D = 30522 x 128 = 3,906,816"
    assert lines["positions"].parameters.working() == "P x D = 512 x 128 = 65,536"
    assert lines["segments"].parameters.working() == "S x D = 2 x 128 = 256"
    assert not any(line.macs for line in lines.values())


@pytest.mark.parametrize(
    ("head", "labels"),
    [
        ("pooled", ["pooler"]),
        ("vector", ["pooler"]),
        ("words", ["LM head, transform", "LM head, scores of the vocabulary"]),
        ("next", ["pooler", "next sentence"]),
        ("pretraining", ["LM head, transform", "LM head, scores of the vocabulary", "pooler", "next sentence"]),
        ("classes", ["pooler", "class head"]),
        ("tags", ["tag of each token"]),
        ("span", ["start and end of the answer"]),
    ],
)
def test_the_maps_of_a_head_are_called_what_they_are(head, labels):
    cost = count(card_of(head=head, classes=4), "head")
    assert [line.label for line in cost.lines if line.macs] == labels


def test_words_are_scored_by_a_table_that_is_held_once():
    cost = count(card_of(head="words"), "head.words.output")
    (line,) = cost.lines
    assert line.macs.working() == "N x D x V = 128 x 128 x 30522 = 500,072,448"
    assert line.parameters.value == 30_522


def test_a_text_of_another_length():
    card = card_of("bert-base")
    short, long = (count(card, inputs=text_of(card, tokens)) for tokens in (1, 512))
    assert (short.input, long.input) == ((1, 1), (1, 512))
    assert short.parameters == long.parameters == 109_482_240
    assert long.macs_of("attention") == 512**2 * short.macs_of("attention")  # of the square of the length
    assert long.macs == 12 * 512 * (4 * 768**2 + 2 * 768 * 3072 + 2 * 512 * 768) + 768**2


def test_a_text_that_cannot_be_is_refused():
    with pytest.raises(UserError, match="'bert-tiny' reads at most 512 tokens: got 513"):
        text_of(card_of(), 513)
    with pytest.raises(UserError, match="reads at most 600 tokens: got 0"):
        text_of(card_of(max_length=600), 0)
    with pytest.raises(UserError, match="'vit-exercise' reads images: expected a model of texts"):
        text_of(card_of("vit-exercise"), 5)


# The verbs


def test_cost_tells_a_text_model(command):
    code, output, _ = command("cost", "bert-base")
    assert code == 0
    assert "bert-base, input 1 x 128\n" in output
    assert re.search(r"embedding +0 +23,837,184\n +encoder\.blocks\.0 to 11 +11,173,625,856 +85,054,464\n", output)
    assert re.search(r"head +589,824 +590,592\n", output)
    assert re.search(r"total +11,174,215,680 MACs\n +parameters +109,482,240\n", output)
    assert "per image or text;" in " ".join(output.split())
    _, output, _ = command("cost", "bert-base", "--block", 1)
    assert "3 x N x D x D = 3 x 128 x 768 x 768 = 226,492,416" in output


def test_cost_takes_a_number_of_tokens(command):
    cost = json.loads(
        command("cost", "bert-tiny", "--tokens", 512, "--part", "head", "--set", "head=words", "--json")[1]
    )
    assert (cost["input"], cost["part"]) == ([1, 512], "head")
    assert cost["macs"]["total"] == 512 * 128 * (128 + 30_522)
    assert cost["convention"] == CONVENTION
    _, output, _ = command("cost", "bert-tiny", "--tokens", 5, "--block", 1)
    assert "h x N x N x d = 2 x 5 x 5 x 64 = 3,200" in output
    saved = patchword.save(tiny_text(), "saved")
    assert json.loads(command("cost", saved, "--tokens", 9, "--json")[1])["input"] == [1, 9]


def test_show_and_models_tell_a_text_model(command):
    _, output, _ = command("show", "bert-tiny", "--set", "head=pretraining")
    assert re.search(r"words: Embedding\(30522, 128\) +1 x 128 x 128 +3,906,816\n", output)
    assert re.search(r"0 \.\. 1: Block x 2 +1 x 128 x 128 +396,544\n", output)
    assert re.search(r"output: TiedLinear +1 x 128 x 30522 +30,522\n", output)
    assert re.search(r"input 1 x 128;", output)
    _, output, _ = command("models", "bert-*")
    assert re.search(r"bert-base .* 109,482,240 .* 11,174,215,680 .* 128 .* arXiv:1810\.04805", output)
    assert json.loads(command("models", "bert-tiny", "--json")[1])[0]["input"] == [128]


def test_the_reports_cost_is_of_one_text():
    html = cost_section(card_of(head="classes", classes=2))
    assert "The whole model, bert-tiny, for one text of 128 tokens" in html
    assert "picture" not in html


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["compare", "bert-tiny"], "'bert-tiny' reads texts: expected a model of images"),
        (["compare", "bert-*"], "no model of images matches 'bert-*'"),
        (["cost", "bert-tiny", "--formula"], "'bert-tiny' reads texts: expected a model of images"),
        (["cost", "bert-tiny", "--tokens", "513"], "'bert-tiny' reads at most 512 tokens: got 513"),
        (["cost", "saved", "--tokens", "25"], "'bert-tiny' reads at most 24 tokens: got 25"),
        (["cost", "vit-exercise", "--tokens", "5"], "'vit-exercise' reads images: expected a model of texts"),
        (
            ["cost", "bert-tiny", "--block", "3"],
            "'bert-tiny' has no block 3: expected 1 to 2, or -1 for the last, got 3",
        ),
        (["cost", "bert-tiny", "--set", "head=tags"], "head 'tags' needs field 'classes': expected e.g. classes=2"),
        (["show", "bert-tiny", "--set", "head=spam"], "field 'head' of model 'bert-tiny'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_a_text_model_cannot_do_is_said_in_one_line(command, words, message):
    patchword.save(tiny_text(), "saved")
    before = everything_below(Path.cwd())
    code, output, complaint = command(*words)
    assert (code, output) == (2, "")
    assert complaint.startswith(f"error: {message}")
    assert complaint.count("error:") == 1
    assert everything_below(Path.cwd()) == before


def test_feature_maps_are_of_images():
    with pytest.raises(UserError, match="'bert-tiny' has no feature maps"):
        patchword.create("bert-tiny", features=True)
