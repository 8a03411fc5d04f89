import csv
import json
import subprocess
import sys
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image
from torch import nn

from patchword.analysis.published.comparison import LECTURES, chosen, row_of
from patchword.analysis.published.image import PUBLISHED
from patchword.analysis.speed import Speed
from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.models import REGISTRY
from patchword.models.registry import Registry
from patchword.reports.colors import IMAGE_FAMILIES
from patchword.reports.comparison import scatter
from patchword.reports.comparison.comparison import table
from patchword.reports.comparison.image import COLUMNS, ImageComparison
from patchword.reports.plots.labels import Label, place
from patchword.timing import images as timing
from patchword.timing.images import NotMeasuredError, Setting
from support.helpers import image_families, smallest
from support.material import everything_below

THREE = ("deit-tiny", "swin-tiny", "cswin-large")
SETTING = Setting("cpu", "float32", 4, 0.0)
MACHINE = {"device": "cpu", "processor": "some chip", "torch": "9.9"}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def measured(monkeypatch):
    """Nothing is run: a model's answer is looked up here, and may be an exception."""
    answers = {}

    def time_model(name, setting, printed):
        answer = answers.get(name, Speed(setting.batch, 5, 0.5, 3 * 2**20))
        if isinstance(answer, BaseException):
            raise answer
        return answer

    monkeypatch.setattr(timing, "time_model", time_model)
    return answers


def written() -> list[dict[str, str]]:
    return list(csv.DictReader(Path("comparison/comparison.csv").read_text().splitlines()))


# The models


def test_the_lectures_choice_is_there_at_one_size():
    assert len(LECTURES) == len(set(LECTURES)) == 24
    assert chosen([]) == list(LECTURES)
    assert {row_of(name).image for name in LECTURES} == {(224, 224)}
    assert all(name in PUBLISHED for name in LECTURES)


def test_patterns_and_names_mean_each_model_once():
    assert chosen(["swin-tiny", "swin-*-384"]) == ["swin-tiny", *REGISTRY.names("swin-*-384")]
    assert chosen(["swin-tiny", "swin-t*", "swin-tiny"]) == ["swin-tiny", "swin-tiny-384"]


@pytest.mark.parametrize(
    ("word", "message"), [("swin-tinny", "did you mean 'swin-tiny'"), ("swin-?x*", "no model of images matches")]
)
def test_a_word_that_means_nothing_is_an_error(word, message):
    with pytest.raises(UserError, match=message):
        chosen([word])


def test_models_of_texts_are_not_compared():
    assert chosen(["*-tiny"]) == [name for name in REGISTRY.names("*-tiny") if name != "bert-tiny"]
    with pytest.raises(UserError, match="'bert-tiny' reads texts: expected a model of images"):
        chosen(["swin-tiny", "bert-tiny"])
    with pytest.raises(UserError, match="no model of images matches"):
        chosen(["bert-*"])


def test_a_row_has_the_registrys_counts():
    row = row_of("cswin-base")
    assert (row.family, row.size, row.parameters, row.macs) == ("CSWin", "base", 77_382_184, 14_955_348_480)
    assert row.published is PUBLISHED["cswin-base"]
    mini = row_of("swin-mini")
    assert (mini.published.top1, mini.marks()) == (None, {})


# Published and counted


def test_a_figure_far_from_the_count_is_marked():
    assert row_of("cswin-large").marks() == {"MACs": "published 31.5 G, counted 33.13 G, 4.9% below the count"}
    assert row_of("deit-tiny").marks()["MACs"].endswith("3.7% above the count, by rounding")
    assert row_of("swin-small").marks() == {}


def test_a_mark_is_explained_under_the_table():
    text = table(ImageComparison([row_of("cswin-large"), row_of("swin-small")], None, MACHINE))
    assert "| 31.5* |" in text
    assert "| 8.7 |" in text
    assert "- cswin-large, MACs: published 31.5 G" in text
    assert "swin-small, " not in text
    assert "*" not in table(ImageComparison([row_of("swin-small")], None, MACHINE))


def test_sources_are_numbered_once():
    text = table(ImageComparison([row_of(name) for name in ("pvt-tiny", "swin-tiny", "pvt-small")], None, MACHINE))
    numbers = [line.split(" | ")[8] for line in text.splitlines() if " | ImageNet-1k | " in line]
    assert numbers == ["1", "2", "1"]
    assert "\n1. Wang et al. 2021 (arXiv 2102.12122), table 2\n2. Liu et al." in text


# The verb


def test_without_speed_nothing_is_run(command, monkeypatch):
    monkeypatch.setattr(timing, "time_model", lambda *_: pytest.fail("a model was timed"))
    monkeypatch.setattr(Registry, "create", lambda *_, **__: pytest.fail("a model was built"))
    code, printed, complaint = command("compare", *THREE, "--no-speed")
    assert (code, complaint) == (0, "")
    assert {path.name for path in Path("comparison").iterdir()} == {
        "table.md",
        "comparison.csv",
        "comparison.json",
        "top1-over-macs.png",
        "top1-over-macs.svg",
    }
    rows = written()
    assert [row["model"] for row in rows] == list(THREE)
    assert [row["images_per_second"] for row in rows] == ["", "", ""]
    assert [int(row["parameters"]) for row in rows] == [5_717_416, 28_288_354, 173_262_664]
    assert "images/s" not in printed.split("sources:")[0]


def test_everything_is_written(command, measured):
    code, printed, complaint = command("compare", *THREE, "--batch-size", 4, "--device", "cpu")
    assert (code, complaint) == (0, "")
    rows = written()
    assert [row["model"] for row in rows] == list(THREE)
    assert rows[1] | {} == rows[1] | {
        "family": "Swin",
        "published_macs_billions": "4.5",
        "macs": "4490566656",
        "published_top1_percent": "81.3",
        "trained_on": "ImageNet-1k",
        "images_per_second": "8.0",
        "batch": "4",
        "precision": "float32",
        "peak_memory_bytes": str(3 * 2**20),
        "note": "",
    }
    assert "31.5 G" in rows[2]["note"]
    text = Path("comparison/table.md").read_text()
    assert all(word in text for word in ("batch 4", "float32", f"torch {torch.__version__}", "Sources:"))
    for name in ("top1-over-macs", "speed-over-macs"):
        with Image.open(f"comparison/{name}.png") as picture:
            assert picture.width > 800
        words = " ".join(ElementTree.parse(f"comparison/{name}.svg").getroot().itertext())
        assert all(word in words for word in ("DeiT", "Swin", "CSWin", "multiply-accumulates", "large"))
    assert all(word in words for word in ("batch 4", "float32", torch.__version__, "cores"))
    assert printed.index("measuring 3 models takes about") < printed.index("8.0 images/s")
    for name in THREE:
        assert f"│ {name}" in printed
    assert not [path for path in everything_below(Path()) if path.name.startswith(".")]


def test_pictures_of_an_earlier_comparison_do_not_stay(command, measured):
    command("compare", "vit-tiny-16", "--no-speed")
    Path("comparison/speed-over-macs.png").write_bytes(b"old")
    command("compare", "vit-exercise", "--no-speed")
    assert sorted(path.name for path in Path("comparison").iterdir()) == [
        "comparison.csv",
        "comparison.json",
        "table.md",
    ]


def test_one_failure_does_not_lose_the_others(command, measured, undrawn):
    measured["swin-tiny"] = NotMeasuredError("RuntimeError: no kernel [for this]")
    code, printed, _ = command("compare", *THREE, "--device", "cpu")
    assert code == 1
    assert [bool(row["images_per_second"]) for row in written()] == [True, False, True]
    assert "RuntimeError: no kernel [for this]" in printed
    assert (
        "swin-tiny could not be measured: RuntimeError: no kernel [for this]" in Path("comparison/table.md").read_text()
    )
    assert Path("comparison/speed-over-macs.png").is_file()


def test_ctrl_c_keeps_what_was_measured(command, measured, undrawn):
    measured["swin-tiny"] = KeyboardInterrupt()
    code, printed, _ = command("compare", *THREE, "--device", "cpu")
    assert code == 130
    assert [bool(row["images_per_second"]) for row in written()] == [True, False, False]
    assert "stopped" in printed


def test_ctrl_c_before_anything_was_measured_writes_nothing(command, measured):
    measured["deit-tiny"] = KeyboardInterrupt()
    code, printed, _ = command("compare", *THREE, "--device", "cpu", "--out", "here")
    assert code == 130
    assert "nothing was written" in printed
    assert everything_below(Path("here")) == []


def test_json_stands_alone(command, measured, undrawn):
    code, printed, _ = command("compare", *THREE, "--device", "cpu", "--batch-size", 4, "--json")
    answer = json.loads(printed)
    assert code == 0
    assert [model["model"] for model in answer["models"]] == list(THREE)
    assert answer["setting"]["batch"] == 4
    assert answer["models"][1]["measured"]["images_per_second"] == 8.0
    assert answer["models"][1]["counted"] == {"parameters": 28_288_354, "macs": 4_490_566_656}
    assert answer["models"][1]["published"]["top1"] == 81.3
    assert len(answer["models"][2]["remarks"]) == 1
    assert Path("comparison/table.md").is_file()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["swin-tinny"], "no model is called 'swin-tinny'\n  did you mean 'swin-tiny'"),
        (["swin-tiny", "nothing-*"], "no model of images matches 'nothing-*'"),
        (["swin-tiny", "--device", "abacus"], "cannot use device 'abacus'"),
        (["swin-tiny", "--no-speed", "--out", "file/deeper"], "cannot make the folder"),
    ],
)
def test_mistakes_are_refused_before_anything_is_done(command, measured, words, message):
    Path("file").write_text("in the way")
    code, _, complaint = command("compare", *words)
    assert (code, message in complaint) == (2, True), complaint
    assert everything_below(Path()) == [Path("file")]


@pytest.mark.parametrize("words", [["--batch-size", "0"], ["--precision", "float8"], ["--seconds", "-1"]])
def test_impossible_options_are_refused(command, measured, words):
    assert command("compare", "swin-tiny", *words)[0] == 2


# Timing


def test_a_model_is_measured():
    speed = timing.measure("swin-mini", replace(SETTING, batch=3))
    assert (speed.batch, speed.calls) == (3, 3)
    assert speed.rate > 0


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_model_runs_in_the_precision_asked_for(precision):
    model = nn.Conv2d(1, 2, 1)
    model.card = Card("one pixel", {"channels": 1, "image": 2})
    with torch.no_grad():
        answer = timing._call(model, replace(SETTING, precision=precision), torch.device("cpu"))()
    assert answer.shape == (4, 2, 2, 2)
    assert answer.dtype == getattr(torch, precision)


def test_a_model_is_measured_in_a_process_of_its_own():
    """The one test that starts it; it waits for torch."""
    speed = timing.time_model("vit-exercise", SETTING, pytest.fail)
    assert speed.batch == 4
    assert speed.memory is None or 0 < speed.memory < 2**30


def test_too_little_memory_halves_the_batch(monkeypatch):
    asked, printed = [], []

    def ask(name, setting):
        asked.append(setting.batch)
        full = {"failure": "OutOfMemoryError: full", "out_of_memory": True}
        return full if setting.batch > 5 else {"batch": setting.batch, "calls": 3, "seconds": 0.1, "memory": None}

    monkeypatch.setattr(timing, "_ask", ask)
    speed = timing.time_model("swin-tiny", replace(SETTING, batch=20), printed.append)
    assert (speed.batch, asked) == (5, [20, 10, 5])
    assert printed[1] == "swin-tiny: out of memory with batch 10, now with 5"
    rows = [replace(row_of("swin-tiny"), speed=speed)]
    notes = ImageComparison(rows, replace(SETTING, batch=20), MACHINE).notes()
    assert "swin-tiny: batch 5, because of memory" in notes


def test_a_model_too_large_for_one_image_fails(monkeypatch):
    monkeypatch.setattr(timing, "_ask", lambda *_: {"failure": "full", "out_of_memory": True})
    with pytest.raises(NotMeasuredError, match="full"):
        timing.time_model("swin-tiny", SETTING, lambda _: None)


@pytest.mark.parametrize(
    ("code", "output", "failure", "memory"),
    [
        (-9, "", "the system killed it", True),
        (-11, "", "ended with code -11: without a message", False),
        (1, "not json\n", "ended with code 1", False),
        (0, 'chatter\n{"failure": "ValueError: x", "out_of_memory": false}\n', "ValueError: x", False),
    ],
)
def test_the_end_of_a_process_is_told(monkeypatch, code, output, failure, memory):
    monkeypatch.setattr(subprocess, "run", lambda words, **_: subprocess.CompletedProcess(words, code, output, ""))
    answer = timing._ask("swin-tiny", SETTING)
    assert failure in answer["failure"]
    assert answer["out_of_memory"] is memory


@pytest.mark.parametrize(
    ("error", "memory"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried\nmore"), True),
        (RuntimeError("wrong shape"), False),
        (RuntimeError(), False),
    ],
)
def test_the_process_tells_why_it_failed(monkeypatch, capsys, error, memory):
    def fail(*_):
        raise error

    monkeypatch.setattr(timing, "measure", fail)
    monkeypatch.setattr(sys, "argv", ["timing", "swin-tiny", json.dumps(vars(SETTING))])
    timing.main()
    answer = json.loads(capsys.readouterr().out)
    assert answer["out_of_memory"] is memory
    assert answer["failure"].startswith(type(error).__name__)


# Pictures


def test_every_family_has_a_colour_and_a_mark_of_its_own():
    titles = [REGISTRY.find(name)[0].title for name in map(smallest, image_families())]
    assert set(titles) <= IMAGE_FAMILIES.keys()
    assert len({mark for _, mark in IMAGE_FAMILIES.values()}) == len({c for c, _ in IMAGE_FAMILIES.values()})
    assert len({mark for _, mark in IMAGE_FAMILIES.values()}) == len(IMAGE_FAMILIES)


def test_a_picture_of_nothing_is_not_drawn():
    assert scatter.accuracy([row_of("swin-mini")]) == {}
    assert scatter.speed([row_of("swin-tiny")], "") == {}


def test_labels_do_not_cover_each_other():
    figure = Figure(figsize=(8, 5))
    FigureCanvasAgg(figure)
    axes = figure.add_subplot(xlim=(0, 1), ylim=(0, 1))
    places = np.random.default_rng(0).random((30, 2)) * 0.6 + 0.2
    places[1:4] = places[0] + [[0.001, 0], [0, 0.001], [0.002, 0.002]]  # four points in one
    place(
        axes, [Label(x, y, f"label {n}", "black") for n, (x, y) in enumerate(places)], [[tuple(p) for p in places[:5]]]
    )
    for text in axes.texts:
        text.arrowprops = text.arrow_patch = None  # the line to its point is not part of the label
    boxes = [text.get_window_extent() for text in axes.texts]
    assert len(boxes) >= 28
    covered = [one for one, other in combinations(boxes, 2) if one.shrunk(0.98, 0.9).overlaps(other.shrunk(0.98, 0.9))]
    assert covered == []


def test_labels_that_have_no_room_are_left_out():
    figure = Figure(figsize=(2, 2))
    FigureCanvasAgg(figure)
    axes = figure.add_subplot(xlim=(0, 1), ylim=(0, 1))
    place(axes, [Label(0.5, 0.5, "a long label", "black")] * 60, [])
    assert 1 <= len(axes.texts) < 60


def test_the_table_has_a_cell_for_each_column():
    row = replace(row_of("swin-mini"), speed=Speed(4, 3, 0.001, None))
    comparison = ImageComparison([row], SETTING, MACHINE)
    assert len(comparison.cells(row)) == len(COLUMNS)
    assert comparison.cells(row)[-2:] == ["4,000", ""]
    assert comparison.how() == "CPU (some chip), batch 4, float32, torch 9.9"
