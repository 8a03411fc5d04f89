"""The calculation for a hand-in: derived sizes, sums written out, Markdown, LaTeX and JSON."""

import ast
import json
import operator
import re
import shutil
import subprocess
from functools import cache

import pytest
import torch

import patchword
from patchword.analysis.cost import Cost, block_of, count, text_of
from patchword.analysis.cost.detection import count_detector
from patchword.analysis.cost.groups import Term, in_words, written
from patchword.analysis.cost.segmentation import count_segmenter
from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.models.detection import create_detector
from patchword.models.segmentation import create_segmenter

pytestmark = pytest.mark.usefixtures("quick_meta")

MODELS = [
    *("vit-exercise", "deit-tiny-distilled", "swin-mini", "cswin-mini", "pale-mini", "cvt-mini", "pvt-mini"),
    *("mixer-mini", "resnet-mini", "bert-tiny", "albert-base", "mobilebert", "bigbird-base", "transformer-small"),
    *("lstm-translation-small", "elmo-small", "over-vectors"),
]
DENSE = ["mask-rcnn", "upernet"]


def card_of(name: str, **overrides: object) -> Card:
    with torch.device("meta"):
        return patchword.create(name, **overrides).card


def block(name: str, number: int = 1, **overrides: object) -> Cost:
    card = card_of(name, **overrides)
    return count(card, block_of(card, number))


def workings(cost: Cost) -> list[str]:
    return [size.working() for size in cost.sizes() if size.symbol.derived]


@cache
def whole(name: str) -> Cost:
    """The cost of a whole model; of a dense one, of a small image."""
    with torch.device("meta"):
        if name == "upernet":
            return count_segmenter(create_segmenter(name, backbone="swin-mini").card, size=(64, 96))
        if name == "mask-rcnn":
            return count_detector(create_detector(name, backbone="resnet-18").card, size=(64, 96))
    few = {"depth": 2} if name in ("mobilebert", "bigbird-base") else {}
    return count(card_of(name, **few))


# Sizes


def test_the_exercises_sizes_follow_from_the_image_and_the_config():
    assert workings(block("vit-exercise")) == [
        "N = (H_0 / P) x (W_0 / P) + 1 = (28 / 4) x (28 / 4) + 1 = 7 x 7 + 1 = 50",
        "d = D / h = 64 / 4 = 16",
        "F = 4 x D = 4 x 64 = 256",
    ]


def test_a_distilled_model_has_two_leading_tokens():
    assert "+ 2 = 14 x 14 + 2 = 198" in workings(block("deit-tiny-distilled"))[0]


def test_windows_say_how_many_there_are_and_how_many_tokens_they_have():
    found = workings(block("swin-mini"))
    assert "N = (H_0 / P) x (W_0 / P) = (28 / 2) x (28 / 2) = 14 x 14 = 196" in found
    assert "G = (H / a) x (W / b) = (14 / 7) x (14 / 7) = 2 x 2 = 4" in found
    assert "m = a x b = 7 x 7 = 49" in found


def test_windows_that_do_not_divide_the_map_are_rounded_up():
    found = workings(block("swin-mini", window=5))
    assert "G = ceil(H / a) x ceil(W / b) = ceil(14 / 5) x ceil(14 / 5) = 3 x 3 = 9" in found


def test_directions_share_the_channels():
    found = workings(block("cswin-mini"))
    assert any(one.startswith("d = D / (2 x h) = ") for one in found)
    assert any(one.startswith("m = H x b = ") for one in found)


def test_a_hidden_width_that_the_width_does_not_divide_is_given():
    sizes = {size.letter: size.symbol for size in block("vit-exercise", hidden=100).sizes()}
    assert (sizes["F"].value, sizes["F"].derived) == (100, None)


def test_the_length_of_a_text_is_given():
    card = card_of("bert-tiny")
    sizes = {size.letter: size.symbol for size in count(card, block_of(card, 2), text_of(card, 9)).sizes()}
    assert (sizes["N"].value, sizes["N"].derived) == (9, None)


@pytest.mark.parametrize("name", MODELS)
def test_every_formula_has_the_value_that_is_stated(name):
    """The formulas are worked out again, as a page does that has only the letters and their values."""
    record = json.loads(json.dumps(whole(name).to_json()))
    formulas = [step[what] for step in record["steps"] for what in ("macs", "parameters") if what in step]
    formulas += [size for size in record["sizes"] if "formula" in size]
    for one in formulas:
        assert worked_out(one["formula"], one["symbols"]) == one["value"], one
        assert worked_out(one["numbers"], {}) == one["value"], one


def worked_out(formula: str, letters: dict[str, int]) -> int:
    words = re.sub(r"[A-Za-z0-9_/]+(?= |\)|$)", lambda found: str(letters.get(found[0], found[0])), formula)
    python = re.sub(r" x ", " * ", words)
    return int(_value(ast.parse(python.replace(" / ", " // "), mode="eval").body))


def _value(node: ast.expr) -> int:
    signs = {ast.Add: operator.add, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv}
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.BinOp(left, sign, right):
            return signs[type(sign)](_value(left), _value(right))
        case ast.Call(func=ast.Name(id="ceil"), args=[ast.BinOp(left, _, right)]):
            return -(-_value(left) // _value(right))
    raise AssertionError(ast.dump(node))


# Sums


def test_the_sum_of_a_block_is_written_out():
    text = block("vit-exercise").to_text()
    assert "  614,400 + 160,000 + 160,000 + 204,800 + 819,200 + 819,200 = 2,777,600 MACs\n" in text
    assert "  128 + 12,480 + 4,160 + 128 + 16,640 + 16,448 = 49,984 parameters\n" in text


def test_the_sum_of_a_model_adds_its_parts():
    text = whole("vit-exercise").to_text(steps=False)
    assert "  stem + 4 x block + head\n  = 50,176 + 4 x 2,777,600 + 640 = 11,161,216 MACs\n" in text
    assert "= 1,088 + 64 + 3,200 + 4 x 49,984 + 128 + 650 = 205,066 parameters\n" in text


def test_equal_blocks_are_worked_out_once():
    text = whole("vit-exercise").to_text()
    assert text.count("614,400") == 2  # the step and the sum of the block
    assert "blocks 1 to 4, which are equal; the steps of one (stages.0.encoder.blocks.0 to 3)\n" in text


def test_a_block_that_runs_several_times_says_so():
    text = block("albert-base").to_text()
    assert "query x key, run 12 times" in text
    assert "12 x h x N x N x d = 12 x 12 x 128 x 128 x 64 = 150,994,944\n" in text


@pytest.mark.parametrize("name", MODELS)
def test_the_groups_of_a_model_add_up(name):
    cost = whole(name)
    for what, total in (("macs", cost.macs), ("parameters", cost.parameters)):
        terms = cost.terms(what)
        assert sum(term.times * term.value for term in terms) == total
        assert written(terms).endswith(f"{total:,}")


@pytest.mark.parametrize("name", DENSE)
def test_the_sections_of_a_dense_model_add_up(name):
    cost = whole(name)
    assert in_words(cost.terms("macs")).startswith("backbone + ")
    assert sum(term.value for term in cost.terms("macs")) == cost.macs
    assert sum(one.times * one.total("parameters") for one in cost.groups()) == cost.parameters
    assert "blocks 1 to 2" in cost.to_text()


def test_terms_of_nothing_are_left_out():
    terms = [Term("stem", 1, 5), Term("norm", 1, 0), Term("block", 2, 3)]
    assert (in_words(terms), written(terms)) == ("stem + 2 x block", "5 + 2 x 3 = 11")
    assert (written([Term("head", 1, 1234)]), written([])) == ("1,234", "0")


# Blocks


def test_blocks_count_from_1_through_all_stages():
    card = card_of("swin-mini")
    assert block_of(card, 1) == "stages.0.encoder.blocks.0"
    assert block_of(card, 3) == "stages.1.encoder.blocks.0"
    assert block_of(card, -1) == block_of(card, 4)
    assert count(card, block_of(card, 3)).title == "swin-mini, block 3 of stage 2 (stages.1.encoder.blocks.0)"
    with pytest.raises(UserError, match="'swin-mini' has no block 0: expected 1 to 4, or -1 for the last, got 0"):
        block_of(card, 0)


@pytest.mark.parametrize("number", [0, 1, -1])
def test_a_model_without_blocks_says_what_to_do(number):
    with pytest.raises(UserError, match=r"'elmo-small' has no blocks\n.*patchword show elmo-small.*--part"):
        block_of(card_of("elmo-small"), number)


# Formats


def test_markdown_of_a_block():
    text = block("vit-exercise").to_markdown()
    assert "| N | tokens | (H\\_0 / P) × (W\\_0 / P) + 1 = (28 / 4) × (28 / 4) + 1 = 7 × 7 + 1 = 50 |" in text
    assert "| query × key | h × N × N × d = 4 × 50 × 50 × 16 = 160,000 | - |" in text
    assert "- MACs: 614,400 + 160,000 + 160,000 + 204,800 + 819,200 + 819,200 = **2,777,600**" in text
    assert "biases, norms, softmax and activations are not counted" in text
    assert "- MLP ratio: 4 (hidden 256 / width 64)" in text


@pytest.mark.parametrize("name", [*MODELS, *DENSE])
def test_tables_of_markdown_have_equally_many_columns(name):
    cost = whole(name)
    for table in re.findall(r"(?:^\|.*\n)+", cost.to_markdown(), re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1, table


def test_latex_of_a_block():
    text = block("vit-exercise").to_latex()
    assert (
        r"N &= (H_0 / P) \cdot (W_0 / P) + 1 = (28 / 4) \cdot (28 / 4) + 1 && \text{tokens} \\"
        "\n"
        r"&= 7 \cdot 7 + 1 = 50 \\"
    ) in text
    assert (
        r"& \text{query $\times$ key:} & & h \cdot N \cdot N \cdot d = 4 \cdot 50 \cdot 50 \cdot 16 = 160{,}000 \\"
        in text
    )
    assert r"&\quad + 819{,}200 = \mathbf{2{,}777{,}600}" in text
    assert r"% needs \usepackage{amsmath}" in text


@pytest.mark.parametrize("steps", [True, False])
@pytest.mark.parametrize("name", [*MODELS, *DENSE])
def test_latex_is_balanced_and_escaped(name, steps):
    cost = whole(name)
    text = cost.to_latex(steps)
    opened: list[str] = []
    for kind, environment in re.findall(r"\\(begin|end)\{([a-z*]+)\}", text):
        if kind == "begin":
            opened.append(environment)
        else:
            assert opened.pop() == environment
    assert not opened
    bare = re.sub(r"\\[{}\\]", "", text)
    assert bare.count("{") == bare.count("}")
    outside = re.sub(r"\\begin\{align\*\}.*?\\end\{align\*\}|\$[^$]*\$|^%.*$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert not re.search(r"(?<!\\)[_^#$]", outside), outside
    assert text.isascii()
    for equation in re.findall(r"\\begin\{align\*\}(.*?)\\end\{align\*\}", text, re.DOTALL):
        assert equation.strip()
        assert "\n\n" not in equation  # LaTeX refuses an empty line there


@pytest.mark.parametrize("name", [*MODELS, *DENSE])
def test_lines_of_latex_are_not_wider_than_the_page(name):
    for equation in re.findall(r"\\begin\{align\*\}(.*?)\\end\{align\*\}", whole(name).to_latex(), re.DOTALL):
        for row in equation.strip().split("\\\\\n"):
            assert len(as_read(row)) <= 82, row


def as_read(row: str) -> str:
    """Return a row of an equation about as it is read, without the commands."""
    text = re.sub(r"\\(text|mathbf)\{|\$|\\quad|&|\}|\{(?=,)", "", row)
    return " ".join(re.sub(r"\\(cdot|times|[lr]ceil)", "x", text).split())


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex with amsmath")
@pytest.mark.parametrize("name", ["vit-exercise", "swin-mini", "cswin-mini"])
def test_latex_compiles_and_fits_the_page(name, tmp_path):
    head = "\\documentclass{article}\n\\usepackage{amsmath}\n\\begin{document}\n"
    (tmp_path / "cost.tex").write_text(f"{head}{whole(name).to_latex()}\\end{{document}}\n", encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "cost.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="latin-1", check=False)
    assert done.returncode == 0, done.stdout
    assert "Overfull" not in done.stdout


def test_names_with_special_characters_are_escaped():
    cost = Cost("my_run & 50%", "", (1, 1, 28, 28), whole("vit-exercise").lines)
    assert r"\subsection*{\raggedright Cost of my\_run \& 50\%}" in cost.to_latex()
    assert r"## Cost of my\_run & 50%" in cost.to_markdown()


def test_json_has_formulas_sizes_groups_and_sums():
    record = json.loads(json.dumps(whole("vit-exercise").to_json()))
    (step,) = (one for one in record["steps"] if one["part"] == "head.linear")
    assert step["macs"]["formula"] == "D x K"
    assert step["macs"]["symbols"] == {"D": 64, "K": 10}
    tokens = next(one for one in record["sizes"] if one["symbol"] == "N")
    assert (tokens["formula"], tokens["value"]) == ("(H_0 / P) x (W_0 / P) + 1", 50)
    assert record["sums"]["macs"] == {
        "terms": "stem + 4 x block + head",
        "working": "50,176 + 4 x 2,777,600 + 640 = 11,161,216",
    }
    assert [one["times"] for one in record["groups"]] == [1, 1, 1, 4, 1, 1]
