"""windows: the table, the pictures, and that both agree with what the models do."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb
from PIL import Image

import patchword
from patchword.analysis.attention_pattern import (
    KeyReceptiveField,
    attention_patterns,
    block_receptive_fields,
    by_stage,
    computed_density,
    density,
    receptive_fields,
)
from patchword.core.grid import Grid
from patchword.layers import Interlaced, record_attention
from patchword.models import REGISTRY
from patchword.reports.attention_pattern import blocks, depth_of, describe, write_windows
from patchword.reports.attention_pattern.drawing import PADDING, _borders, _rectangles
from patchword.reports.attention_pattern.maps import as_computed, made_into_keys, on_map, receptive_field_map
from patchword.reports.attention_pattern.panels import panels
from patchword.reports.colors import HIGHLIGHT

pytestmark = pytest.mark.usefixtures("quick_meta")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@cache
def of(name, **overrides):
    with torch.device("meta"):
        card = REGISTRY.create(name, **overrides).card
    return attention_patterns(card)


def only(token, tokens):
    return torch.arange(tokens) == token


def relation(pattern):
    """(tokens, keys): which tokens attend to which"""
    tokens = pattern.grid.tokens
    return torch.stack([pattern.attended_keys(only(token, tokens)) for token in range(tokens)])


# The numbers


SWIN = [  # a shifted side is cut into regions of 4, 7, ..., 7 and 3
    (1, (1,), 3, Grid(56, 56), 64, 49, 64 * 49 * 49),
    (1, (2,), 3, Grid(56, 56), 64, 49, (4 * 4 + 7 * 7 * 7 + 3 * 3) ** 2),
    (2, (1,), 6, Grid(28, 28), 16, 49, 16 * 49 * 49),
    (2, (2,), 6, Grid(28, 28), 16, 49, (4 * 4 + 3 * 7 * 7 + 3 * 3) ** 2),
    (3, (1, 3, 5), 12, Grid(14, 14), 4, 49, 4 * 49 * 49),
    (3, (2, 4, 6), 12, Grid(14, 14), 4, 49, (4 * 4 + 7 * 7 + 3 * 3) ** 2),
    (4, (1, 2), 24, Grid(7, 7), 1, 49, 49 * 49),  # one window: the second block is not shifted
]
CSWIN = [
    *2 * [(1, (1,), 1, Grid(56, 56), 56, 56, 56 * 56 * 56)],
    *2 * [(2, (1, 2), 2, Grid(28, 28), 14, 56, 14 * 56 * 56)],
    *2 * [(3, tuple(range(1, 22)), 4, Grid(14, 14), 2, 98, 2 * 98 * 98)],
    (4, (1,), 16, Grid(7, 7), 1, 49, 49 * 49),
]
PALE = [
    *2 * [(1, (1, 2), 1, Grid(14, 14), 2, 98, 2 * 98 * 98)],
    *2 * [(2, (1, 2), 2, Grid(7, 7), 1, 49, 49 * 49)],
]
PVT = [
    (1, (1, 2), 1, Grid(56, 56), 1, 3136, 3136 * 49),
    (2, (1, 2), 2, Grid(28, 28), 1, 784, 784 * 49),
    (3, (1, 2), 5, Grid(14, 14), 1, 196, 196 * 49),
    (4, (1, 2), 8, Grid(7, 7, 1), 1, 50, 50 * 50),
]


@pytest.mark.parametrize(
    ("name", "expected"), [("swin-tiny", SWIN), ("cswin-tiny", CSWIN), ("pale-mini", PALE), ("pvt-tiny", PVT)]
)
def test_the_table_has_the_numbers_worked_out_by_hand(name, expected):
    found = of(name)
    assert [(m.stage, m.blocks, m.heads, m.grid, m.groups, m.size, m.pairs) for m in found] == expected
    scores = sum(len(blocks) * heads * pairs for _, blocks, heads, _, _, _, pairs in expected)
    all_scores = sum(len(blocks) * heads * grid.tokens**2 for _, blocks, heads, grid, *_ in expected)
    assert density(found) == scores / all_scores


def test_a_shifted_window_is_computed_whole_and_met_in_part():
    plain, shifted = of("swin-mini", depths=(2,), heads=(2,))
    assert (plain.pairs, plain.computed, plain.all_pairs) == (9604, 9604, 38416)
    assert (shifted.pairs, shifted.computed) == (5476, 9604)
    assert density([plain, shifted]) == (9604 + 5476) / (2 * 38416)
    assert computed_density([plain, shifted]) == 9604 / 38416


def test_padding_is_computed_and_never_met():
    plain, shifted, *_ = of("swin-mini", image=30)
    assert (plain.grid, plain.computed, plain.pairs) == (Grid(15, 15), 9 * 49 * 49, (2 * 49 + 1) ** 2)
    assert shifted.pairs == (3 * 3 + 7 * 7 + 5 * 5) ** 2
    assert int((plain.queries < 0).sum()) == 21 * 21 - 15 * 15


def test_the_masked_pairs_of_a_shifted_window_are_those_found_by_brute_force():
    pattern = of("swin-mini", image=(28, 42))[1]
    height, width = pattern.grid.height, pattern.grid.width
    assert (height, width) == (14, 21)

    def window(place, side):
        return (place - 3) % side // 7, place < 3  # tokens that came from the other side are for themselves

    places = [(window(row, height), window(column, width)) for row, column in product(range(height), range(width))]
    expected = torch.tensor([[one == other for other in places] for one in places])
    assert torch.equal(relation(pattern), expected)
    assert pattern.pairs == int(expected.sum())
    assert (pattern.computed, pattern.pairs) == (6 * 49 * 49, (16 + 49 + 9) * (16 + 49 + 49 + 9))


def test_a_receptive_field_grows_block_by_block():
    """Worked out by hand: the block next to the output comes last, so the first block has regular windows."""
    stage = by_stage(of("swin-tiny", image=96, depths=(2, 2, 2, 2)))[0]
    assert stage[0].grid.tokens == 24 * 24
    first, second = block_receptive_fields(stage, 0)
    assert (int(first.sum()), int(second.sum())) == (49, 49)  # the shifted window of a corner is a part of the regular
    first, second = block_receptive_fields(stage, 5 * 24 + 5)
    assert (int(first.sum()), int(second.sum())) == (49, 4 * 49)


def test_reduced_keys_hear_the_tokens_that_they_are_made_of():
    pattern = of("pvt-mini")[0]
    assert int(block_receptive_fields([pattern], 0)[0].sum()) == 14 * 14
    made = pattern.key_receptive_field
    rows, columns = made.rows.clone(), made.columns.clone()
    rows[:, 13] = columns[:, 12:] = False  # keys that leave out the last row and two columns
    fewer = replace(pattern, key_receptive_field=KeyReceptiveField(rows, columns))
    expected = torch.zeros(14, 14, dtype=torch.bool)
    expected[:13, :12] = True
    assert torch.equal(fewer.attended_tokens(torch.arange(196) == 195), expected.flatten())
    expected[13, 13] = True  # the token itself, by the residual connection
    assert torch.equal(block_receptive_fields([fewer], 195)[-1], expected.flatten())


MODELS = {
    "swin-mini": [28, 30, (30, 61)],
    "cswin-mini": [28, 31],
    "pale-mini": [28, (37, 20)],
    "pvt-mini": [28, 37],
    "cvt-mini": [28, (37, 30)],
    "vit-exercise": [28],
}


@pytest.mark.parametrize(("name", "image"), [(name, image) for name, images in MODELS.items() for image in images])
def test_tokens_attend_where_the_model_has_weights(name, image):
    """The attention of a model that has just been built is nearly even: it is zero only where tokens do not attend."""
    found = of(name, image=image)
    model = patchword.create(name, image=image).eval()
    channels, sides = model.card.config["channels"], (image, image) if isinstance(image, int) else image
    with torch.no_grad(), record_attention(model) as maps:
        model(torch.zeros(1, channels, *sides))
    for stage in by_stage(found):
        for block in range(1, depth_of(stage) + 1):
            for pattern in (pattern for pattern in stage if block in pattern.blocks):
                attention = maps.pop(0)
                assert torch.equal(relation(pattern), attention.dense()[0].amax(0) > 0)
    assert maps == []


def test_what_reaches_a_token_through_two_blocks_is_the_product_of_both():
    plain, shifted = of("swin-mini", depths=(2,), heads=(2,))
    first, second = relation(plain).float(), relation(shifted).float()
    for token in (0, 5 * 14 + 8, 195):
        steps = receptive_fields([plain, shifted], token)
        assert torch.equal(steps[0], second[token] > 0)
        assert torch.equal(steps[1], second[token] @ first > 0)


def test_what_reaches_a_token_through_all_heads_is_the_union():
    vertical, horizontal = of("cswin-mini")[:2]
    row, column = 5, 8
    expected = torch.zeros(14, 14, dtype=torch.bool)
    expected[:, 8:10] = True
    expected[4:6] = True
    assert torch.equal(receptive_fields([vertical, horizontal], row * 14 + column)[0].view(14, 14), expected)


def test_reduced_keys_are_made_of_the_tokens_below_them():
    pvt = of("pvt-tiny", image=(224, 232))[0]
    assert (pvt.grid, pvt.key_grid) == (Grid(56, 58), Grid(7, 8))
    for number, row in enumerate(pvt.key_receptive_field.rows):
        assert row.nonzero().flatten().tolist() == list(range(8 * number, 8 * number + 8))
    assert pvt.key_receptive_field.columns[7].nonzero().flatten().tolist() == [56, 57]  # the rest of it is padding
    cvt = of("cvt-mini")[0]
    assert (cvt.grid, cvt.key_grid) == (Grid(14, 14), Grid(7, 7))
    for number, column in enumerate(cvt.key_receptive_field.columns):
        assert column.nonzero().flatten().tolist() == [at for at in range(2 * number - 1, 2 * number + 2) if at >= 0]


# The maps


@pytest.mark.parametrize("name", ["swin-mini", "cswin-mini", "pale-mini"])
def test_a_map_shows_each_token_once_and_the_padding_outside(name):
    for pattern in of(name, image=(30, 37)):
        places, padded = pattern.places
        assert sorted(places.flatten().tolist()) == list(range(padded.tokens))
        token = pattern.token_at((3, 4), Grid(15, 19))
        shown = on_map(pattern, token)
        inside = np.zeros((padded.height, padded.width), dtype=bool)
        inside[: pattern.grid.height, : pattern.grid.width] = True
        assert ((shown.hatches == PADDING) == ~inside).all()
        attended_keys = (
            pattern.attended_keys(only(token, pattern.grid.tokens))
            .view(pattern.grid.height, pattern.grid.width)
            .numpy()
        )
        assert (shown.outlined[: pattern.grid.height, : pattern.grid.width] == attended_keys).all()
        assert not shown.outlined[~inside].any()
        assert shown.token == divmod(token, pattern.grid.width)


def test_the_regions_of_a_window_are_apart_on_the_map_and_together_as_computed():
    pattern = of("swin-mini")[1]
    token = 0
    on, computed = on_map(pattern, token), as_computed(pattern, token)
    assert on.token == (0, 0)
    assert computed.token == (11, 11)
    assert on.outlined.sum() == computed.outlined.sum() == 9
    assert on.outlined[:3, :3].all()
    assert computed.outlined[11:, 11:].all()
    corner = computed.hatches[7:, 7:]  # of 4 regions; the largest is the one without hatching
    assert [int((corner == piece).sum()) for piece in range(4)] == [16, 12, 12, 9]
    assert (corner[:4, :4] == 0).all()


def test_the_largest_piece_of_a_window_has_no_hatching():
    shown = on_map(of("swin-mini", image=(28, 38))[1], 0)  # columns 17 and 18 come before 0, 1 and 2
    assert shown.hatches[5].tolist() == [0] * 17 + [1, 1, PADDING, PADDING]


def test_an_unmasked_window_has_one_piece():
    assert not of("swin-mini")[0].regions.any()
    assert not of("pale-mini", image=37)[0].regions.any()


def test_the_receptive_field_is_drawn_over_the_padding_of_the_map():
    plain, shifted, *_ = of("swin-mini", image=30)
    token = 6 * 15 + 6
    steps = receptive_fields([plain, shifted], token)
    shown = receptive_field_map(steps, plain, token)
    assert shown.groups.shape == (21, 21)
    assert int(shown.outlined.sum()) == int(steps[-1].sum()) == 14 * 14
    assert int((shown.hatches == PADDING).sum()) == 21 * 21 - 15 * 15
    assert len(np.unique(shown.colours.reshape(-1, 3), axis=0)) == 3


def test_a_token_has_the_colour_of_its_key():
    pattern = of("pvt-tiny")[0]
    tokens, keys, size = made_into_keys(pattern, pattern.key_receptive_field, 25 * 56 + 30)
    assert size == (8, 8)
    assert (tokens.groups == keys.groups.repeat(8, axis=0).repeat(8, axis=1)).all()
    assert (tokens.frame, keys.frame) == ((24, 24, 8, 8), (3, 3, 1, 1))


def test_one_colour_marks_what_the_query_attends_to_and_all_else_is_grey():
    for pattern in [*of("swin-mini"), *of("pale-mini"), *of("cswin-mini")]:
        shown = on_map(pattern, pattern.token_at((5, 6), Grid(14, 14)))
        assert (shown.colours[shown.outlined] == to_rgb(HIGHLIGHT)).all()
        others = shown.colours[~shown.outlined]
        assert len(others) == 0 or (np.ptp(others, axis=-1) < 0.1).all()


def test_neighbouring_windows_have_two_greys():
    greys = on_map(of("swin-mini")[0], 0).colours
    assert not np.array_equal(greys[3, 10], greys[10, 10])


def test_rectangles_cover_a_map_once_and_borders_run_between_values():
    values = np.array([[1, 1, 2], [1, 1, 2], [3, 1, 2]])
    drawn = np.zeros_like(values)
    for value, row, column, height, width in _rectangles(values):
        drawn[row : row + height, column : column + width] += value
    assert (drawn == values).all()
    assert _borders(np.array([[1]])) == [[(0, 0), (1, 0)], [(0, 1), (1, 1)], [(0, 0), (0, 1)], [(1, 0), (1, 1)]]
    assert [(2, 0), (2, 3)] in _borders(values)  # as long as can be


# Words


def test_attention_patterns_have_descriptions():
    def names(*words, **fields):
        return [describe(pattern) for pattern in of(*words, **fields)]

    assert names("swin-tiny")[-3:-1] == ["windows of 7 x 7", "windows of 7 x 7, shifted by 3"]
    assert names("swin-tiny", image=(224, 300))[-1] == "windows of 7 x 7, 3 to the right"
    assert names("swin-tiny", image=(300, 224))[-1] == "windows of 7 x 7, 3 down"
    assert names("cswin-tiny")[2:4] == ["vertical stripes, 2 wide", "horizontal stripes, 2 high"]
    assert names("pale-tiny")[:2] == ["7 rows, 8 apart", "7 columns, 8 apart"]
    assert names("cvt-mini")[-1] == "all tokens attend to 4 x 4 + 1 keys"
    assert names("vit-exercise") == ["all tokens attend to all tokens"]


def test_interlaced_rows_lie_as_far_apart_as_the_name_says():
    pattern = of("pale-tiny")[0]
    assert isinstance(pattern.partition, Interlaced)
    assert [int(row) for row in pattern.queries[3][::56] // 56] == [3, 11, 19, 27, 35, 43, 51]


def test_blocks_have_names():
    swin = of("swin-small", image=112)
    assert [blocks(pattern, 18) for pattern in swin if pattern.stage == 3] == ["every block"]
    assert [blocks(pattern, 18) for pattern in of("swin-small") if pattern.stage == 3] == ["odd blocks", "even blocks"]
    assert [blocks(pattern, 6) for pattern in of("swin-tiny")[4:6]] == ["blocks 1, 3, 5", "blocks 2, 4, 6"]
    assert [blocks(pattern, 2) for pattern in of("swin-tiny")[:2]] == ["block 1", "block 2"]


def test_a_stage_has_a_panel_per_pattern_and_one_for_all():
    def titles(name, stage):
        chosen = by_stage(of(name))[stage - 1]
        return [panel.title for panel in panels(chosen, chosen[0].grid.prefix)]

    shifted = [
        "windows of 7 × 7",
        "windows of 7 × 7, shifted by 3",
        "as computed, after the roll",
        "after both blocks",
    ]
    assert titles("swin-tiny", 1) == shifted
    assert titles("swin-tiny", 4) == titles("pale-tiny", 4) == ["all tokens attend to all tokens"]
    assert titles("cswin-tiny", 3) == ["vertical stripes, 7 wide", "horizontal stripes, 7 high", "all heads together"]
    assert titles("pvt-tiny", 3) == ["tokens, grouped by their key", "all tokens attend to 7 × 7 keys"]


# The verb


def test_it_writes_both_pictures_and_prints_the_table(command):
    code, output, complaint = command("windows", "swin-mini", "--set", "image=30", "--token", "0,14")
    assert (code, complaint) == (0, "")
    assert re.search(r"1 +15 x 15 +block 2 +2 +windows of 7 x 7, shifted by 3 +9 +49 +13\.6%", output)
    assert "20.4% of all pairs; 69.4% are computed" in output
    assert output.split()[-2:] == ["windows/swin-mini.svg", "windows/swin-mini.png"]
    assert sorted(path.name for path in Path("windows").iterdir()) == ["swin-mini.png", "swin-mini.svg"]
    root = ElementTree.parse("windows/swin-mini.svg").getroot()
    words = " ".join("".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text"))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    for part in (
        "swin-mini, stages 1 to 2: which tokens attend to which",
        "Image of 30 × 30 pixels",
        "stage 2",
        "15 × 15 = 225 tokens",
        "query token",
        "padding",
    ):
        assert part in words
    with Image.open("windows/swin-mini.png") as picture:
        picture.load()
        assert picture.size == (1920, 1080)
        assert picture.mode in ("RGB", "RGBA")
        assert len(picture.convert("RGB").getcolors(1 << 20)) > 20


def words_of(path):
    root = ElementTree.parse(path).getroot()
    return " ".join("".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text"))


def test_the_slide_of_a_stage_names_its_rule_and_its_receptive_field(command):
    code, output, _ = command("windows", "swin-mini", "--stage", "1")
    assert code == 0
    assert output.split()[-2:] == ["windows/swin-mini-stage-1.svg", "windows/swin-mini-stage-1.png"]
    assert "attention density over the blocks and heads of stage 1:" in output
    assert not re.search(r"^ +2 ", output, re.MULTILINE)  # the table has no second stage
    words = words_of("windows/swin-mini-stage-1.svg")
    assert "swin-mini, stage 1 of 2: windows of 7 × 7 and the same shifted by 3" in words
    found = by_stage(of("swin-mini"))[0]
    reached = [int(step.sum()) for step in receptive_fields(found, found[0].token_at((6, 6), Grid(14, 14)))]
    assert f"Receptive field of a token: {reached[0]} tokens after 1 block, {reached[1]} after 2" in words
    assert "as computed" in words
    with Image.open("windows/swin-mini-stage-1.png") as picture:
        assert picture.size == (1920, 1080)
    answer = json.loads(command("windows", "swin-mini", "--stage", "2", "--json")[1])
    assert {row["stage"] for row in answer["patterns"]} == {2}


def test_it_answers_as_json(command):
    code, output, _ = command("windows", "vit-exercise", "--json", "--out", "here/deep", "--token", "6,0")
    answer = json.loads(output)
    assert code == 0
    assert answer["token"] == [6, 0]
    assert (answer["model"], answer["image"], answer["density"]) == ("vit-exercise", 28, 1.0)
    row = answer["patterns"][0]
    assert (row["stage"], row["grid"], row["leading_tokens"], row["blocks"]) == (1, [7, 7], 1, [1, 2, 3, 4])
    assert (row["groups"], row["group_size"], row["pairs"], row["density"]) == (1, 50, 2500, 1.0)
    assert answer["files"] == ["here/deep/vit-exercise.svg", "here/deep/vit-exercise.png"]
    assert all(Path(file).stat().st_size > 1000 for file in answer["files"])


def test_the_same_model_gives_the_same_picture(command):
    for folder in ("one", "two"):
        assert command("windows", "pale-mini", "--out", folder)[0] == 0
    assert Path("one/pale-mini.svg").read_bytes() == Path("two/pale-mini.svg").read_bytes()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["resnet-50"], r"'resnet-50' has no attention.*\n.*convolutions mix each position with its neighbours"),
        (["regnety-4gf"], r"'regnety-4gf' has no attention.*\n.*convolutions"),
        (["mixer-mini"], r"'mixer-mini' has no attention.*\n.*mix every token with every other"),
        (["swin-tini"], r"no model is called 'swin-tini'\n.*did you mean 'swin-tiny'"),
        (["swin-mini", "--token", "14,0"], r"outside the first stage's map: expected .*0 to 13.*, got 14,0"),
        (["swin-mini", "--token", "0,-1"], r"outside the first stage's map"),
        (["swin-mini", "--token", "3"], r"cannot read --token: expected ROW,COLUMN .*, got '3'"),
        (["swin-mini", "--token", "a,b"], r"cannot read --token"),
        (["swin-mini", "--stage", "3"], r"there is no stage 3: expected 1 to 2, got 3"),
        (["swin-mini", "--set", "image=0"], r"'image'"),
        (["swin-mini", "--out", "file"], r"cannot make the folder file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_are_reported_and_nothing_is_written(command, words, message):
    Path("file").write_text("in the way")
    code, output, complaint = command("windows", *words)
    assert (code, output) == (2, "")
    assert re.search(message, complaint)
    assert [path.name for path in Path.cwd().iterdir()] == ["file"]


def test_both_pictures_are_written_or_neither(command):
    Path("windows/vit-exercise.png").mkdir(parents=True)
    code, _, complaint = command("windows", "vit-exercise")
    assert code == 2
    assert "cannot write windows/vit-exercise.png" in complaint
    assert [path.name for path in Path("windows").iterdir()] == ["vit-exercise.png"]


def test_python_users_draw_it_in_one_call():
    card = patchword.create("cvt-mini").card
    assert write_windows(card, attention_patterns(card), (3, 3), Path("mine")) == [
        Path("mine/cvt-mini.svg"),
        Path("mine/cvt-mini.png"),
    ]


def test_help_does_not_wait_for_torch_or_matplotlib():
    script = """
import sys
from typer.testing import CliRunner
from patchword.cli.app import app
answer = CliRunner().invoke(app, ["windows", "--help"])
assert answer.exit_code == 0 and "ROW,COLUMN" in answer.output, answer.output
print({"torch", "matplotlib", "numpy"} & sys.modules.keys() or "none")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == ("none", 0), done.stderr
