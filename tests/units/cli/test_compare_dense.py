"""compare --dense: the table, the files and the measured speed."""

import csv
import json

import pytest

from patchword.analysis.cost import detection

pytestmark = pytest.mark.usefixtures("quick_meta")


def test_table_and_files(command, tmp_path):
    folder = tmp_path / "dense"
    code, output, _ = command("compare", "--dense", "atss", "detr", "--out", str(folder))
    assert code == 0
    for text in ("47.2", "35.73", "214.3", "arXiv 2103.14030", "cannot be built here", "1,000 proposals"):
        assert text in output, text
    assert "| atss | swin-tiny |" in (folder / "table.md").read_text()
    rows = list(csv.DictReader((folder / "comparison.csv").open()))
    assert [row["detector"] for row in rows] == ["atss", "atss", "detr"]
    assert rows[1]["parameters"] == "35734548"
    assert (folder / "box-ap-over-macs.png").stat().st_size > 10_000
    assert not (folder / "mask-ap-over-macs.png").exists()


def test_json_with_measured_speed(command, tmp_path, monkeypatch):
    monkeypatch.setattr(detection, "SIZE", (32, 32))
    arguments = "--speed", "--seconds", "0", "--device", "cpu", "--json", "--out", str(tmp_path / "dense")
    code, output, _ = command("compare", "--dense", "atss", *arguments)
    assert code == 0
    rows = json.loads(output)["detectors"]
    assert all(row["measured"]["images_per_second"] > 0 for row in rows)
    assert rows[0]["published"]["box_ap"] == 43.5


def test_what_excludes_each_other(command):
    code, _, errors = command("compare", "--speed")
    assert code == 2
    assert "--dense --speed" in errors
    assert command("compare", "--dense", "yolo")[0] == 2
