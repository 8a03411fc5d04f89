import json

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import patchword
from patchword.analysis.cost import CONVENTION, blocks_of, count, lines_of
from patchword.analysis.cost.expression import Symbol, symbol
from patchword.analysis.cost.rules import RULES, Call
from patchword.analysis.shapes import part_tree
from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.core.grid import sides
from patchword.core.scope import Scope
from patchword.layers import (
    Attention,
    Block,
    Encoder,
    FeedForward,
    LinearProjection,
    Pattern,
    Residual,
    ScaledDotProduct,
    reference_attention,
)
from patchword.models import REGISTRY
from support.helpers import smallest

pytestmark = pytest.mark.usefixtures("quick_meta")

N, D = symbol("N", 50, "tokens"), symbol("D", 64, "width")
BLOCK = "stages.0.encoder.blocks.0"


def card_of(name: str, **overrides: object) -> Card:
    with torch.device("meta"):
        return patchword.create(name, **overrides).card


# Expressions


@pytest.mark.parametrize(
    ("expression", "working"),
    [
        (3 * N * D * D, "3 x N x D x D = 3 x 50 x 64 x 64 = 614,400"),
        (N * D + D, "N x D + D = 50 x 64 + 64 = 3,264"),
        (3 * (D * D + D), "3 x (D x D + D) = 3 x (64 x 64 + 64) = 12,480"),
        ((N + 1) * (D + 2), "(N + 1) x (D + 2) = (50 + 1) x (64 + 2) = 3,366"),
        (N + D + 1, "N + D + 1 = 50 + 64 + 1 = 115"),
        (D, "D = 64"),
        (D / 4, "D / 4 = 64 / 4 = 16"),
        (D / (2 * symbol("h", 4, "heads")), "D / (2 x h) = 64 / (2 x 4) = 8"),
        ((N / 5) * (D / 4) + 1, "(N / 5) x (D / 4) + 1 = (50 / 5) x (64 / 4) + 1 = 10 x 16 + 1 = 161"),
        ((N / 7) * 3, "ceil(N / 7) x 3 = ceil(50 / 7) x 3 = 8 x 3 = 24"),
        (symbol("H", 1000, "many"), "H = 1,000"),
        (2 * symbol("H", 1000, "many"), "2 x H = 2 x 1000 = 2,000"),
    ],
)
def test_an_expression_remembers_how_it_was_written(expression, working):
    assert expression.working() == working


def test_symbols_are_gathered_through_sums_and_products():
    assert (3 * N * D + D).symbols == {"N": Symbol(50, "tokens"), "D": Symbol(64, "width")}


# The figures of the exercise and of the papers


def test_the_exercises_block_is_counted_by_hand():
    cost = count(card_of("vit-exercise"), BLOCK)
    assert cost.parameters == 49_984
    assert cost.macs_of("linear") == 2_457_600
    assert cost.macs_of("attention") == 320_000
    assert cost.macs_of("convolution") == 0
    assert cost.macs == 2_777_600
    lines = {line.label: line for line in cost.lines}
    assert lines["query, key, value"].macs.working() == "3 x N x D x D = 3 x 50 x 64 x 64 = 614,400"
    assert lines["query, key, value"].parameters.working() == "3 x (D x D + D) = 3 x (64 x 64 + 64) = 12,480"
    assert lines["query x key"].macs.working() == "h x N x N x d = 4 x 50 x 50 x 16 = 160,000"
    assert lines["weights x value"].macs.value == 160_000
    assert lines["output projection"].macs.working() == "N x D x D = 50 x 64 x 64 = 204,800"
    assert lines["feed-forward, up"].macs.working() == "N x D x F = 50 x 64 x 256 = 819,200"
    assert lines["feed-forward, down"].parameters.working() == "F x D + D = 256 x 64 + 64 = 16,448"
    assert [line.label for line in cost.lines].count("norm: scale and shift") == 2
    assert cost.symbols()["N"] == ((50,), "tokens")
    assert cost.symbols()["d"] == ((16,), "width of a head")
    assert cost.to_json()["symbols"]["d"] == {"value": 16, "meaning": "width of a head"}


def test_a_letter_of_a_pyramid_has_a_value_for_each_stage():
    cost = count(card_of("swin-mini"))
    assert cost.symbols()["N"] == ((14 * 14, 7 * 7), "tokens")
    assert cost.to_json()["symbols"]["N"] == {"value": [14 * 14, 7 * 7], "meaning": "tokens"}


@pytest.mark.parametrize(
    ("name", "parameters", "macs"),
    [
        ("vit-exercise", 205_066, 11_161_216),
        ("vit-base-16", 86_567_656, 17_563_828_224),
        ("deit-small-distilled", 22_436_432, 4_624_140_288),
    ],
)
def test_whole_models_cost_what_the_papers_say(name, parameters, macs):
    cost = count(card_of(name))
    assert (cost.parameters, cost.macs) == (parameters, macs)


FIRST = {smallest(REGISTRY.find(name)[0].name) for name in REGISTRY.names()}  # of each family


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in FIRST else [pytest.mark.slow]) for name in REGISTRY.names()]
)
def test_every_variant_costs_what_its_row_says(name):
    """The contracts hold every row against torch's own count, this one our working against the row."""
    cost, variant = count(card_of(name)), REGISTRY.find(name)[1]
    assert (cost.parameters, cost.macs) == (variant.parameters, variant.macs)


# Against torch

SMALL = {"depth": 2, "width": 48, "heads": 3, "hidden": 80, "patch": 4, "image": 16, "classes": 5}
CONFIGS = [
    ("vit-exercise", {}),
    ("vit-tiny-16", SMALL),
    ("vit-tiny-16", {**SMALL, "image": (8, 24), "channels": 1}),
    ("vit-tiny-16", {**SMALL, "position": "sinusoidal"}),
    ("vit-tiny-16", {**SMALL, "image": 4}),  # one patch
    ("vit-tiny-16", {**SMALL, "heads": 1, "hidden": 7, "classes": 1}),
    ("deit-tiny", SMALL),
    ("deit-tiny-distilled", SMALL),
    ("deit-tiny-distilled", {**SMALL, "image": (12, 4), "position": "sinusoidal"}),
]


@pytest.mark.parametrize(("name", "overrides"), CONFIGS, ids=str)
def test_the_count_is_torchs_own(name, overrides):
    card = card_of(name, **overrides)
    with torch.device("meta"):
        model = patchword.create(name, **overrides)
        images = torch.empty(1, card.config["channels"], *sides(card.config["image"]))
    with reference_attention(model), FlopCounterMode(display=False, depth=None) as counter:
        model(images)
    cost = count(card)
    assert 2 * cost.macs == counter.get_total_flops()
    assert cost.parameters == sum(parameter.numel() for parameter in model.parameters())
    by_part = counter.get_flop_counts()
    parts = {f"Pyramid.{name}": name for name, _ in model.named_modules() if name}
    compared = 0
    for theirs, ours in parts.items():
        if theirs in by_part and not ours.endswith("joint"):  # the joint weight is counted with its projection
            assert 2 * cost.below(ours).macs == sum(by_part[theirs].values()), ours
            compared += 1
    assert compared > 10


@pytest.mark.parametrize(("name", "overrides"), CONFIGS[1::3], ids=str)
def test_parts_add_up(name, overrides):
    card = card_of(name, **overrides)
    whole = count(card)
    with torch.device("meta"):
        model = patchword.create(name, **overrides)
    for part in ("stages.0", "stages.0.encoder", BLOCK, f"{BLOCK}.attention", "head", "norm"):
        cost = count(card, part)
        assert cost.lines == whole.below(part).lines
        assert cost.parameters == sum(parameter.numel() for parameter in model.get_submodule(part).parameters())
    top = [count(card, part) for part in ("stages", "norm", "head")]
    assert sum(cost.macs for cost in top) == whole.macs
    kinds = ("linear", "attention", "convolution", "other")
    assert sum(whole.macs_of(kind) for kind in kinds) == whole.macs


@pytest.mark.parametrize(
    ("bias", "groups", "stride", "label"),
    [
        (True, 1, 1, "convolution 3 x 5"),
        (False, 1, 2, "convolution 3 x 5"),
        (True, 4, 1, "grouped 3 x 5"),
        (True, 8, 1, "depthwise 3 x 5"),
    ],
)
def test_convolutions_are_torchs_own(bias, groups, stride, label):
    with torch.device("meta"):
        layer = nn.Conv2d(8, 16, (3, 5), stride, padding=1, groups=groups, bias=bias)
        images = torch.empty(1, 8, 20, 14)
    with FlopCounterMode(display=False) as counter:
        answer = layer(images)
    (line,) = RULES[nn.Conv2d]("mix", layer, Call((images,), answer))
    assert 2 * line.macs.value == counter.get_total_flops()
    assert line.parameters.value == sum(parameter.numel() for parameter in layer.parameters())
    assert (line.label, line.kind) == (label, "convolution")


def test_a_convolution_says_whose_it_is():
    labels = {line.label for line in count(card_of("cvt-mini")).lines if line.kind == "convolution"}
    each = {f"{name}, depthwise 3 x 3" for name in ("query", "key", "value")}
    assert labels == {"convolution 3 x 3", *each}


@pytest.mark.parametrize("bias", [True, False])
def test_a_linear_layer_of_any_name_has_a_rule(bias):
    layer = nn.Linear(6, 9, bias=bias)
    (line,) = RULES[nn.Linear]("some.mixing", layer, Call((), layer(torch.zeros(1, 5, 6))))
    assert line.label == "mixing"
    assert line.macs.working() == "N x I x O = 5 x 6 x 9 = 270"
    assert line.parameters.value == sum(parameter.numel() for parameter in layer.parameters())


def test_counting_does_not_need_the_weights():
    cost = count(card_of("vit-huge-14", depth=2, hidden=10**7))  # 200 GB, had they been made
    assert cost.parameters > 5 * 10**10


def test_the_models_device_is_left_alone():
    count(card_of("vit-exercise"))
    assert torch.get_default_device() == torch.device("cpu")


# Refusals


def test_a_part_without_a_rule_is_an_error_and_not_a_zero(monkeypatch):
    monkeypatch.delitem(RULES, LinearProjection)
    monkeypatch.delitem(RULES, nn.Linear)
    with pytest.raises(TypeError, match=r"no rule counts Linear at 'stages\.0\.encoder\.blocks\.0.*RULES"):
        count(card_of("vit-exercise"))


def test_a_rule_that_miscounts_is_caught(monkeypatch):
    monkeypatch.setitem(RULES, nn.LayerNorm, lambda *_: [])
    with pytest.raises(AssertionError, match=r"the rules count \d+ parameters, the model has 205066"):
        count(card_of("vit-exercise"))


def test_attention_without_its_rule_is_an_error(monkeypatch):
    """It has no weights that would give its absence away."""
    monkeypatch.delitem(RULES, ScaledDotProduct)
    with pytest.raises((AssertionError, TypeError), match="rule"):
        count(card_of("vit-exercise"))


def test_an_unknown_part_names_the_nearest():
    with pytest.raises(UserError, match=r"has no part 'stages\.0\.encodr'\ndid you mean 'stages\.0\.encoder'"):
        count(card_of("vit-exercise"), "stages.0.encodr")


def test_blocks_are_listed_in_order():
    names = [f"stages.0.encoder.blocks.{index}" for index in range(12)]
    assert blocks_of(card_of("deit-tiny")) == names


# For other programs and other verbs


def test_json_says_the_same():
    cost = count(card_of("vit-exercise"), BLOCK)
    printed = json.loads(json.dumps(cost.to_json()))
    assert printed["parameters"] == 49_984
    assert printed["macs"] == {"linear": 2_457_600, "attention": 320_000, "convolution": 0, "total": 2_777_600}
    assert printed["input"] == [1, 1, 28, 28]
    assert printed["convention"] == CONVENTION
    assert sum(step["macs"]["value"] for step in printed["steps"] if "macs" in step) == 2_777_600
    assert sum(step["parameters"]["value"] for step in printed["steps"] if "parameters" in step) == 49_984
    used = {letter for step in printed["steps"] for kind in ("macs", "parameters") if kind in step
            for letter in step[kind]["working"].split(" = ")[0] if letter.isalpha() and letter != "x"}  # fmt: skip
    assert used == printed["symbols"].keys()


@pytest.mark.parametrize(("name", "overrides"), CONFIGS, ids=str)
def test_the_tree_has_the_models_shapes(name, overrides):
    card = card_of(name, **overrides)
    root = part_tree(card)
    prefix = 2 if card.config.get("distilled") else 1
    height, width = (side // card.config["patch"] for side in sides(card.config["image"]))
    assert root.parameters == count(card).parameters
    assert root.output == (1, card.config["classes"])
    (stages,) = (child for child in root.children if child.name == "stages")
    shapes = [shape for part in walk(stages) if (shape := part.output) and part.kind == "Block"]
    assert shapes == [(1, prefix + height * width, card.config["width"])] * card.config["depth"]


def walk(part):
    yield part
    for child in part.children:
        yield from walk(child)


def test_alike_parts_are_seen_to_be_alike():
    root = part_tree(card_of("vit-tiny-16", **SMALL))
    first, second = (part for part in walk(root) if part.kind == "Block")
    assert first.same_as(second)
    attention, feed_forward = first.children
    assert not attention.same_as(feed_forward)


def test_a_part_that_runs_twice_multiplies_twice_and_holds_once():
    """Two patterns share one core, and an encoder may run one block many times."""
    tokens, scope = torch.randn(1, 5, 8), Scope()
    encoder = Encoder([Block(only=Residual(FeedForward(8, 16), nn.LayerNorm(8)))], order=[0, 0, 0])
    lines = lines_of(encoder, tokens, scope)
    assert sum(line.macs.value for line in lines if line.macs) == 3 * 2 * 5 * 8 * 16
    assert sum(line.parameters.value for line in lines if line.parameters) == 8 * 16 + 16 + 16 * 8 + 8 + 16
    lines = lines_of(Attention(8, 2, patterns=[Pattern(), Pattern()]), tokens, scope)
    assert sum(line.macs.value for line in lines if line.kind == "attention") == 2 * 5 * 5 * 8
