"""compare --dense: the table, the files and the measured speed."""

import csv
import json
from dataclasses import replace

import pytest

from patchword.analysis.published import dense_comparison
from patchword.analysis.published.dense import PUBLISHED_DENSE

pytestmark = pytest.mark.usefixtures("quick_meta")


def test_table_and_files(command, tmp_path):
    folder = tmp_path / "dense"
    code, output, _ = command("compare", "--dense", "atss", "detr", "semantic-fpn", "--out", str(folder))
    assert code == 0
    for text in ("47.2", "35.73", "214.3", "arXiv 2103.14030", "97 G at 800 x 1280", "1,000 proposals", "28.51"):
        assert text in output, text
    assert "| atss | swin-tiny |" in (folder / "table.md").read_text()
    rows = list(csv.DictReader((folder / "comparison.csv").open()))
    assert [row["system"] for row in rows] == ["atss", "atss", "detr", "detr"] + ["semantic-fpn"] * 8
    assert rows[1]["parameters"] == "35734548"
    assert (folder / "box-ap-over-macs.png").stat().st_size > 10_000
    assert (folder / "miou-over-macs.png").stat().st_size > 10_000
    assert not (folder / "mask-ap-over-macs.png").exists()


def test_json_with_measured_speed(command, tmp_path, monkeypatch):
    rows = [replace(row, size=(32, 32)) for row in PUBLISHED_DENSE if row.backbone in ("resnet-50", "swin-tiny")]
    monkeypatch.setattr(dense_comparison, "PUBLISHED_DENSE", rows)  # others take seconds to build
    arguments = "--speed", "--seconds", "0", "--device", "cpu", "--json", "--out", str(tmp_path / "dense")
    code, output, _ = command("compare", "--dense", "atss", "upernet", *arguments)
    assert code == 0
    found = json.loads(output)
    assert (len(found["detectors"]), len(found["segmenters"])) == (2, 1)
    assert all(row["measured"]["images_per_second"] > 0 for row in (*found["detectors"], *found["segmenters"]))
    assert found["detectors"][0]["published"]["box_ap"] == 43.5


def test_what_excludes_each_other(command):
    code, _, errors = command("compare", "--speed")
    assert code == 2
    assert "--dense --speed" in errors
    assert command("compare", "--dense", "yolo")[0] == 2
