"""Names from files neither steer a terminal nor are they formulas of a spreadsheet."""

import os
from pathlib import Path

import pytest

from patchword.core.printable import csv_cell, path_text, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("T-shirt/top", "T-shirt/top"),
        ("\x1b[2Kgone", "\\x1b[2Kgone"),
        ("\x9b1A", "\\x9b1A"),
        ("over\rwritten\x07", "over\\rwritten\\x07"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("two\tcolumns\nand lines", "two\tcolumns\nand lines"),
        ("größer 猫 🐈", "größer 猫 🐈"),
    ],
)
def test_control_characters_are_shown(text, shown):
    assert printable(text) == shown


@pytest.mark.parametrize("text", ["=cmd|' /C calc'!A0", "+1+cmd", "-2+3", "@SUM(1)", "\t=1", "\r=1"])
def test_a_formula_is_a_text(text):
    assert csv_cell(text) == f"'{text}"


@pytest.mark.parametrize("value", ["Bag", "-0.25", "+3e-4", "-inf", "", "a=b", 7, 0.5, None])
def test_other_cells_stay(value):
    assert csv_cell(value) == value


@pytest.mark.parametrize(
    ("path", "shown"), [(b"caf\xc3\xa9/a b.png", "café/a b.png"), (b"caf\xe9.png", "caf\\xe9.png")]
)
def test_a_path_is_text_that_a_file_takes(path, shown):
    text = path_text(Path(os.fsdecode(path)))
    assert text == shown
    text.encode()
