"""Names from files neither steer a terminal nor are they formulas of a spreadsheet."""

import pytest

from patchword.core.printable import csv_cell, printable


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
