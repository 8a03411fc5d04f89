"""windows, of a model of texts: the table, the slide, and what cannot be drawn."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

from patchword.analysis.attention_pattern import text_patterns, text_receptive_fields
from patchword.core.card import Card
from patchword.models import REGISTRY
from patchword.reports.attention_pattern import describe_text
from patchword.reports.attention_pattern.text_figure import _field, _matrix
from patchword.reports.colors import HIGHLIGHT

pytestmark = pytest.mark.usefixtures("quick_meta")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def of(name, tokens=0, **fields):
    return text_patterns(Card(name, vars(REGISTRY.configure(name, fields))), tokens)


def words_of(path):
    root = ElementTree.parse(path).getroot()
    return " ".join("".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text"))


def test_patterns_have_descriptions():
    assert [describe_text(one) for one in of("transformer-small", 5)] == [
        "all tokens attend to all tokens",
        "each token attends to itself and to all before it",
        "each token of the target attends to all tokens of the source",
    ]
    assert describe_text(of("bigbird-base", depth=1)[0]) == "blocks of 64: 2 global, 3 in a window, 3 random"
    (plain,) = of("bigbird-base", depth=1, random="huggingface")
    assert describe_text(plain) == "blocks of 64: 2 global, 3 in a window"


def test_the_row_of_the_query_is_marked_where_it_attends():
    found = of("bigbird-base", 2048, heads=2, depth=2, width=4)
    for pattern in found:
        shown = _matrix(pattern, 5, True).shown
        assert np.array_equal(shown.outlined[5], pattern.attends[5].numpy())
        assert shown.outlined.sum() == pattern.attends[5].sum()
        assert (shown.colours[shown.outlined] == to_rgb(HIGHLIGHT)).all()
        assert not shown.hatches.any()
        assert shown.token == (5, 5)
    field = _field(found, 5).shown
    steps = text_receptive_fields(found, 5)
    assert np.array_equal(field.outlined, np.stack([step.numpy() for step in steps]))


def test_masked_pairs_are_hatched():
    (pattern,) = of("gpt", 6, depth=1)
    shown = _matrix(pattern, 2, False).shown
    assert shown.hatches.tolist() == (1 - np.tri(6, dtype=int)).tolist()
    assert shown.outlined[2].tolist() == [True, True, True, False, False, False]


def test_the_slide_and_the_table_of_big_bird(command):
    code, output, complaint = command("windows", "bigbird-base", "--tokens", "2048", "--token", "700", "depth=2")
    assert (code, complaint) == (0, "")
    assert re.search(r"encoder +2,048 +24 patterns .*blocks of 64: 2 global, 3 in a window, 3 random +2\d\.\d%", output)
    assert output.split()[-2:] == ["windows/bigbird-base.svg", "windows/bigbird-base.png"]
    words = words_of("windows/bigbird-base.svg")
    for part in ("bigbird-base: blocks of 64", "2,048 tokens", "layer 1, head 1", "layer 2, head 1", "random blocks"):
        assert part in words
    assert "row 11 attends to 8 of 32 columns" in words
    with Image.open("windows/bigbird-base.png") as picture:
        assert picture.size == (1920, 1080)
        assert len(picture.convert("RGB").getcolors(1 << 20)) > 20


def test_a_part_of_a_translator_is_a_stage(command):
    code, output, _ = command("windows", "transformer-small", "--stage", "2", "--tokens", "8")
    assert code == 0
    assert "decoder" in output
    assert "encoder" not in output
    words = words_of("windows/transformer-small-stage-2.svg")
    assert "decoder (2 of 3 parts): each token attends to itself and to all before it" in words
    assert "later tokens: masked" in words
    answer = json.loads(command("windows", "transformer-small", "--json", "--out", "deep/here")[1])
    assert [row["part"] for row in answer["patterns"]] == ["encoder", "decoder", "memory"]
    assert (answer["tokens"], answer["token"]) == (16, 7)
    assert answer["computed_density"] == 1
    assert answer["density"] == (2 * 256 + 136) / (3 * 256)
    assert all(Path(file).stat().st_size > 1000 for file in answer["files"])


def test_the_same_model_gives_the_same_figure(command):
    for folder in ("one", "two"):
        assert command("windows", "gpt2-small", "depth=1", "--out", folder)[0] == 0
    assert Path("one/gpt2-small.svg").read_bytes() == Path("two/gpt2-small.svg").read_bytes()


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["bert-tiny", "--token", "3,4"], ["0 to 15", "'3,4'"]),
        (["bert-tiny", "--token", "16"], ["0 to 15", "--tokens"]),
        (["bert-tiny", "--stage", "2"], ["no stage 2", "expected 1"]),
        (["transformer-small", "--stage", "4"], ["no stage 4", "1 to 3"]),
        (["bert-tiny", "--tokens", "9999"], ["at most 512"]),
        (["elmo-small"], ["no attention"]),
        (["swin-mini", "--tokens", "16"], ["swin-mini reads images", "--tokens"]),
    ],
)
def test_mistakes_are_explained_and_write_nothing(command, words, parts):
    code, _, complaint = command("windows", *words)
    assert code == 2
    assert all(part in complaint for part in parts)
    assert not Path("windows").exists()
