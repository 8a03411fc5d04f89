"""The lines of a run fit the terminal: columns are left out, numbers are never cut."""

import io
import math

import pytest
from rich.console import Console

from patchword.objectives.metrics.metrics import METRICS
from patchword.recipes.detection.measuring import METRIC as BOX_AP
from patchword.recipes.image_pretraining.reconstruction import METRIC as ERROR_REDUCTION
from patchword.recipes.segmentation.measuring import METRIC as MEAN_IOU
from patchword.training.epoch_lines import duration, epoch_lines, number, step_text
from patchword.training.run_log import RunLog
from patchword.training.state import State

# The metrics that select the best epoch, of the recipes of all kinds.
OF_ALL_KINDS = [*METRICS, "exact", "bleu", BOX_AP, MEAN_IOU, ERROR_REDUCTION]
UNITS = ["images", "texts", "words", "windows", "tokens", "masked words", "predicted words"]
LONGEST = {"loss": 12345.678, "accuracy": 1.0, "validation_loss": 12345.678, "seconds": 359_999.0}


def record_of(metric, epoch=1, score=1.0, **values):
    return {"epoch": epoch, "step": epoch, **LONGEST, **values, f"validation_{metric}": score}


@pytest.mark.parametrize("metric", OF_ALL_KINDS)
@pytest.mark.parametrize("epoch", [1, 1000])
def test_every_row_fits_80_columns_with_all_columns(metric, epoch):
    header, row = epoch_lines(record_of(metric, epoch), metric, 1000, True, 80)
    assert max(len(header), len(row)) <= 80
    assert header.split() == f"epoch loss accuracy val loss val {metric} best time".split()
    expected = "100.00%" if metric in ("accuracy", "f1", "exact", "error_reduction") else "1.0000"
    assert row.split() == [f"{epoch}/1000", "12345.7", "100.00%", "12345.7", expected, "*", "99:59:59"]


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (80, "epoch loss accuracy val loss val accuracy best time"),
        (60, "epoch loss accuracy val loss val accuracy time"),
        (50, "epoch loss val loss val accuracy time"),
        (40, "epoch loss val loss val accuracy"),
        (33, "epoch val loss val accuracy"),
        (10, "epoch val accuracy"),
    ],
)
def test_a_narrow_terminal_has_fewer_columns(width, columns):
    header, row = epoch_lines(record_of("accuracy"), "accuracy", 150, True, width)
    assert header.split() == columns.split()
    assert len(row.split()) == len(columns.replace("val ", "val-").split())
    assert len(header) <= max(width, len(" 12/150  val accuracy"))


def test_the_numbers_of_a_run_stand_below_each_other():
    records = [record_of("accuracy", 1, 0.05, loss=2.5, seconds=5), record_of("accuracy", 150, 1.0, loss=1234.5)]
    lines = [epoch_lines(record, "accuracy", 150, False, 80) for record in records]
    assert lines[0][0] == lines[1][0]
    assert len(lines[0][1]) == len(lines[1][1])


def test_a_task_without_correct_predictions_has_no_accuracy():
    record = {name: value for name, value in record_of("box_ap").items() if name != "accuracy"}
    assert "accuracy" not in epoch_lines(record, "box_ap", 5, False, 80)[0]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("width", [80, 54, 30])
def test_the_position_within_an_epoch_fits(unit, width):
    text = step_text(1.5, 1.0, 123_456.0, unit, 359_999, width)
    assert len(text) <= width
    assert text.startswith("loss 1.5000")
    assert "accuracy" not in step_text(1.5, math.nan, 1.0, unit, 1, 200)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.12345, "0.1235"), (123.45678, "123.457"), (123456.7, "123457"), (3e12, "3e+12"), (math.nan, "nan")],
)
def test_a_large_number_has_fewer_decimals(value, text):
    assert number(value) == text


@pytest.mark.parametrize(("seconds", "text"), [(5, "0:05"), (3599.6, "1:00:00"), (359_999, "99:59:59")])
def test_durations(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("width", [80, 60])
def test_no_line_of_a_run_is_longer_than_the_terminal(tmp_path, monkeypatch, terminal, width):
    monkeypatch.setattr("patchword.training.run_log._LINE_SECONDS", 0)
    monkeypatch.setattr("patchword.training.run_log._BAR_SECONDS", 0)
    shown = io.StringIO()
    console = Console(file=shown, width=width, force_terminal=terminal, color_system=None, soft_wrap=True)
    log = RunLog(tmp_path, console, "predicted words", "error_reduction")
    log.start(State(), 1000, 12345)
    log.step(State(epoch=999, step=12345, batch=12345, seen=10**8), lambda: 12.3456, lambda: 1.0)
    if log.bar:
        log.bar.refresh()
    log.epoch(record_of("error_reduction", 1000), State())
    log.stop()
    lines = [line for part in shown.getvalue().split("\x1b") for line in part.replace("\r", "\n").splitlines()]
    assert any("1000/1000" in line for line in lines)
    assert any("100.00%" in line for line in lines)
    assert any("loss 12.3456" in line for line in lines)
    assert max(map(len, lines)) <= width + len("[1A[2K")


def test_the_header_is_printed_again_after_other_lines_and_after_some_rows(tmp_path, monkeypatch):
    shown = io.StringIO()
    log = RunLog(tmp_path, Console(file=shown, width=80), "images", "accuracy")
    log.start(State(), 50, 10)
    for epoch in range(1, 23):
        log.epoch(record_of("accuracy", epoch), State())
    monkeypatch.setattr("patchword.training.run_log._LINE_SECONDS", 0)
    log.step(State(epoch=22, step=1, batch=1, seen=8), lambda: 1.0, lambda: 1.0)
    log.epoch(record_of("accuracy", 23), State())
    log.stop()
    lines = shown.getvalue().splitlines()
    assert [index for index, line in enumerate(lines) if "val accuracy" in line] == [0, 21, 25]
