"""Runs side by side: settings that differ, what cannot be compared, colours by name, curves over each other."""

import re
from pathlib import Path

from patchword.recipes.run_folders.listing import RunSummary
from patchword.reports.colors import BLUE
from patchword.reports.plots.overlaid import Curve, overlaid
from patchword.reports.run_comparison.page import comparison_page
from patchword.reports.run_comparison.table import ComparedRun, comparison_grid, differing_settings, not_comparable
from support.pages import Page


def run(label: str, kind: str = "images", metric: str = "accuracy", **changes: object) -> ComparedRun:
    summary = RunSummary(
        *(label, Path(label), changes.pop("state", "finished")),
        **{"kind": kind, "model": "vit", "epoch": 2, "epochs": 2, "metric": metric, "validation": 0.75, "part": "test"},
        **{"seconds": 60.0, "bytes": 1000, "score": 0.5},
    )
    metrics = [
        {"epoch": epoch, "loss": 1 / epoch, "validation_loss": 2 / epoch, f"validation_{metric}": 0.25 * epoch}
        for epoch in (1, 2)
    ]
    known = {
        "settings": {"epochs": 2, "learning_rate": 0.1},
        "evaluation": {metric: 0.5, "loss": 1.0},
        "data": {"name": "digits", "fingerprint": "a"},
        "device": "cpu",
    }
    return ComparedRun(label, summary, metrics=metrics, parameters=1234, macs=99, **known | changes)


def test_settings_that_are_the_same_are_left_out():
    other = run("b", settings={"epochs": 2, "learning_rate": 0.2, "masked": 0.15})
    assert differing_settings([run("a"), other]) == [["learning_rate", "0.1", "0.2"], ["masked", "-", "0.15"]]


def test_settings_of_one_kind_only_are_counted():
    runs = [run("a"), run("b", "pretraining", settings={"epochs": 9, "masked": 0.15})]
    assert differing_settings(runs) == [["epochs", "2", "9"]]
    assert "2 settings that only some of the kinds have are left out." in not_comparable(runs)


def test_each_measure_has_its_row():
    rows = {row[0]: row[1:] for row in comparison_grid([run("a"), run("b", "pretraining", "perplexity")]).rows}
    assert rows["best validation accuracy"] == ["75.00%", "-"]
    assert rows["test accuracy"] == ["50.00%", "-"]
    assert rows["test perplexity"] == ["-", "0.50"]
    assert rows["parameters"] == ["1,234", "1,234"]
    assert rows["training time"] == ["1\N{NO-BREAK SPACE}min\N{NO-BREAK SPACE}00\N{NO-BREAK SPACE}s"] * 2


def test_what_cannot_be_compared_is_said():
    assert not_comparable([run("a"), run("b")]) == []
    for other, message in (
        (run("b", "text"), "The kinds differ (a: images; b: text)"),
        (run("b", metric="f1"), "The main metrics differ (a: accuracy; b: f1)"),
        (run("b", data={"name": "pets"}), "The data differs (a: digits; b: pets)"),
        (run("b", data={"name": "digits", "fingerprint": "b"}), "The training samples differ"),
        (run("b", device="H200"), "different machines"),
        (run("b", state="stopped"), "Not finished: b."),
    ):
        assert any(message in note for note in not_comparable([run("a"), other])), message


def test_each_run_is_a_line_in_its_colour():
    curves = {"a": Curve([1, 2], [3.0, 1.0]), "b": Curve([1], [2.0])}
    svg = overlaid(curves, "loss", {"a": BLUE, "b": BLUE}).decode()
    assert svg.count(f"stroke: {BLUE}") >= 2
    assert "stroke-dasharray" in svg  # the second of one colour
    assert overlaid(curves, "loss", {"a": BLUE, "b": BLUE}).decode() == svg


def test_the_page_needs_no_network_and_escapes_names():
    page = comparison_page([run("<b>a</b>"), run("b", "text", "f1")])
    read = Page(page)
    assert "<b>a</b>" in read.text
    assert not re.search(r"(src|href)=.https?:", page)
    figures = [dict(found) for tag, found in read.elements if tag == "img"]
    assert len(figures) == 6  # of each run: its metric, and the two losses of its kind
    assert all(one["src"].startswith("data:image/svg+xml") for one in figures)
    assert "What cannot be compared" in read.text


def test_runs_of_one_kind_share_three_figures():
    assert comparison_page([run("a"), run("b")]).count("<img") == 3
    assert comparison_page([run("a", settings={}), run("b")]).count("What cannot be compared") == 0
