import json
from mmap import mmap
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from PIL import Image

import patchword
from patchword.analysis.cost import count
from patchword.analysis.formula import KINDS, Sizes, counted, differences, first_stage, measured
from patchword.analysis.speed import resident, timed
from patchword.cli.models import formula as verb
from patchword.core.card import Card
from patchword.core.errors import UserError

pytestmark = pytest.mark.usefixtures("quick_meta")

CPU = torch.device("cpu")
BY_NAME = {kind.name: kind for kind in KINDS}
EVERY_KIND = pytest.mark.parametrize("kind", KINDS, ids=BY_NAME)
ATTENTION = "stages.0.encoder.blocks.0.attention.sublayer"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def card_of(name: str, **overrides: object) -> Card:
    with torch.device("meta"):
        return patchword.create(name, **overrides).card


# Formula and count


@EVERY_KIND
@pytest.mark.parametrize(
    "sizes",
    [
        Sizes(56, 56, 96),
        Sizes(14, 28, 64, stripe=2),
        Sizes(28, 14, 48, window=14, stripe=7, pale=14),
        Sizes(12, 24, 32, window=4, stripe=3, pale=6),
        Sizes(7, 7, 8, stripe=7),
        Sizes(8, 8, 2, window=1, stripe=1, pale=1),
    ],
    ids=str,
)
def test_the_formula_is_the_count(kind, sizes):
    assert counted(kind, sizes).total == kind.formula(sizes).value
    assert differences(kind, sizes) == []


def test_the_formulas_are_those_of_the_papers():
    h, w, C, M, sw, s = 28, 14, 64, 7, 2, 7  # noqa: N806
    sizes = Sizes(h, w, C, M, sw, s)
    papers = {
        "global": 4 * h * w * C**2 + 2 * (h * w) ** 2 * C,
        "window": 4 * h * w * C**2 + 2 * M**2 * h * w * C,
        "cross-shaped": 4 * h * w * C**2 + sw * (h + w) * h * w * C,
        "pale": 4 * h * w * C**2 + (s * h + s * w + 27) * h * w * C,
    }
    assert {kind.name: kind.formula(sizes).value for kind in KINDS} == papers


@EVERY_KIND
def test_the_four_matrices_cost_the_same_in_every_kind(kind):
    assert counted(kind, Sizes(14, 21, 64)).linear == 4 * 14 * 21 * 64**2


def test_only_the_pale_convolves():
    convolved = {kind.name: counted(kind, Sizes(14, 14, 64)).convolution for kind in KINDS}
    assert convolved == {"global": 0, "window": 0, "cross-shaped": 0, "pale": 27 * 14 * 14 * 64}


@pytest.mark.parametrize(
    ("name", "sizes", "more", "reasons"),
    [
        ("window", Sizes(30, 20, 64), 2 * 49 * (35 * 21 - 600) * 64, ["groups of 7 x 7 pad the map to 35 x 21"]),
        ("cross-shaped", Sizes(9, 10, 64, stripe=3), 9 * 3 * 9 * 2 * 64, ["groups of 9 x 3 pad the map to 9 x 12"]),
        ("window", Sizes(5, 5, 64), -2 * (49 - 25) * 25 * 64, ["groups of 7 x 7 are cut to the map, 5 x 5"]),
    ],
)
def test_a_map_that_the_groups_do_not_divide_differs_and_says_why(name, sizes, more, reasons):
    kind = BY_NAME[name]
    assert counted(kind, sizes).total - kind.formula(sizes).value == more
    assert differences(kind, sizes) == reasons


def test_an_odd_width_is_refused():
    with pytest.raises(UserError, match="33 channels cannot be split over two directions"):
        counted(KINDS[0], Sizes(7, 7, 33))


@pytest.mark.parametrize("channels", [2, 64, 96, 144, 768])
def test_heads_are_even_and_divide_the_width(channels):
    heads = Sizes(7, 7, channels).heads
    assert channels % heads == heads % 2 == 0


# The models' own layers


@pytest.mark.parametrize(
    ("model", "kind", "more"), [("swin-mini", "window", 0), ("cswin-mini", "cross-shaped", 9), ("pale-mini", "pale", 0)]
)
def test_the_models_own_layer_costs_what_the_notes_say(model, kind, more):
    """more: times h x w x C"""
    card = card_of(model)
    sizes = first_stage(card)
    extra = more * sizes.height * sizes.width * sizes.channels
    assert count(card, ATTENTION).macs == BY_NAME[kind].formula(sizes).value + extra


def test_vits_own_layer_counts_a_token_more():
    tokens, width = 7 * 7 + 1, 64
    assert count(card_of("vit-exercise"), ATTENTION).macs == 4 * tokens * width**2 + 2 * tokens**2 * width


@pytest.mark.parametrize(
    ("card", "sizes"),
    [
        (card_of("swin-tiny"), Sizes(56, 56, 96)),
        (card_of("swin-base-384"), Sizes(96, 96, 128, window=12)),
        (card_of("cswin-tiny", stripes=(2, 2, 7, 7), image=(224, 112)), Sizes(56, 28, 64, stripe=2)),
        (card_of("pale-tiny", pales=(5, 7, 7, 7)), Sizes(56, 56, 64, pale=5)),
        (card_of("vit-base-16"), Sizes(14, 14, 768)),
        (card_of("resnet-50"), Sizes(56, 56, 256)),
    ],
    ids=lambda value: value.model if isinstance(value, Card) else "",
)
def test_the_map_is_that_of_the_first_stage(card, sizes):
    assert first_stage(card) == sizes


# Measuring


@pytest.mark.parametrize("seconds", [0, 0.01])
def test_calls_are_repeated_without_gradients(seconds):
    grads = []
    taken = timed(lambda: grads.append(torch.is_grad_enabled()), CPU, seconds)
    assert len(taken) >= 3
    assert len(grads) > len(taken)  # the warm-up is not counted
    assert not any(grads)
    assert sum(taken) >= seconds


@EVERY_KIND
def test_a_layer_can_be_measured(kind):
    assert measured(kind, Sizes(7, 7, 8), CPU, seconds=0) > 0


def test_the_peak_of_memory_is_not_below_what_is_held():
    now = resident()
    if now is None:
        pytest.skip("this system does not tell")
    with mmap(-1, 100_000_000) as fresh:  # pages of its own, unlike a tensor's, which may have been used before
        fresh.write(b"1" * len(fresh))
        held, peak = resident(), resident(peak=True)
    assert held - now > 50_000_000
    assert peak >= held


# The verb


def test_the_formulas_are_printed_with_their_numbers(command):
    code, output, _ = command("cost", "--formula")
    assert code == 0
    for numbers in (
        "2 x 56 x 56 x 56 x 56 x 96 = 2,003,828,736",
        "2 x M x M x h x w x C = 4 x 56 x 56 x 96 x 96 + 2 x 7 x 7 x 56 x 56 x 96 = 145,108,992",
        "sw x (h + w) x h x w x C",
        "(7 x 56 + 7 x 56 + 27) x 56 x 56 x 96 = 359,761,920",
    ):
        assert numbers in output
    assert output.count("  equal\n") == 4
    assert "three times 9" in output


def test_a_difference_is_printed_with_its_reason(command):
    _, output, _ = command("cost", "swin-tiny", "--formula", "--set", "image=[232, 224]")
    assert output.count("  equal\n") == 2
    assert "more than the formula: groups of 7 x 7 pad the map to 63 x 56" in output


def test_the_formulas_as_json(command):
    code, output, _ = command("cost", "cswin-base", "--formula", "--set", "image=384", "--json")
    answer = json.loads(output)
    assert code == 0
    assert (answer["model"], answer["height"], answer["channels"]) == ("cswin-base", 96, 96)
    assert [layer["kind"] for layer in answer["layers"]] == ["global", "window", "cross-shaped", "pale"]
    for layer in answer["layers"]:
        assert layer["counted"]["total"] - layer["formula"]["value"] == layer["difference"]
        assert bool(layer["difference"]) == bool(layer["reasons"])
        assert layer["formula"]["working"].endswith(f"{layer['formula']['value']:,}")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no model was named"),
        (["--formula", "--block", "1"], "--formula counts the first stage only"),
        (["--formula", "--tokens", "9"], "--formula counts the first stage only"),
        (["bert-tiny", "--formula"], "'bert-tiny' reads texts: expected a model of images"),
        (["swin-tiny", "--out", "here"], "--out needs --formula"),
        (["swin-tinny", "--formula", "--out", "here"], "did you mean 'swin-tiny'"),
    ],
)
def test_options_that_do_not_go_together(command, words, message):
    code, _, complaint = command("cost", *words)
    assert (code, message in complaint) == (2, True)
    assert list(Path().iterdir()) == []


def test_the_picture_is_drawn_where_asked(command, monkeypatch):
    sides = []
    monkeypatch.setattr("patchword.analysis.formula.measured", lambda kind, sizes, device: sides.append(sizes) or 0.01)
    code, output, _ = command("cost", "vit-base-16", "--formula", "--out", "drawn")
    assert code == 0
    assert [size.height for size in sides[:4]] == [7, 14, 21, 28]
    assert output.endswith("written: drawn/formula.png\nwritten: drawn/formula.svg\n")
    with Image.open("drawn/formula.png") as picture:
        assert picture.width > 800
    text = " ".join(ElementTree.parse("drawn/formula.svg").getroot().itertext())
    assert all(word in text for word in ("cross-shaped", "multiply-accumulates", "768 channels", "batch 1", "float32"))


@pytest.mark.parametrize(("side", "sides"), [(56, range(14, 113, 14)), (96, range(14, 113, 14)), (3, range(7, 29, 7))])
def test_the_pictures_maps_lie_around_the_models(side, sides):
    assert verb.sides_around(Sizes(side, side, 64)) == sides
