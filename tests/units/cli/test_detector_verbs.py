"""models, show and cost for detectors."""

import json

import pytest

from patchword.models.detection import DETECTORS

pytestmark = pytest.mark.usefixtures("quick_meta")
TINY = ("--set", "backbone=resnet-18", "--size", "64x96")


def test_models_lists_detectors(command):
    rows = json.loads(command("models", "*rcnn", "--json")[1])
    assert [row["name"] for row in rows] == ["faster-rcnn", "mask-rcnn", "cascade-mask-rcnn", "sparse-rcnn"]
    assert rows[1] | {"macs": 0} == {
        "name": "mask-rcnn",
        "title": "Mask R-CNN",
        "backbone": "resnet-50",
        "parameters": 44_396_336,
        "macs": 0,
        "input": [3, 800, 1280],
        "paper": "arXiv:1703.06870",
    }
    code, output, _ = command("models", "atss")
    assert code == 0
    assert DETECTORS["atss"].paper in output
    assert "32,295,322" in output
    output = command("models", "*rcnn")[1]
    row = next(line for line in output.splitlines() if "cascade" in line)
    assert [cell.strip() for cell in row.strip("│").split("│")] == [
        "cascade-mask-rcnn",
        "resnet-50",
        "82,231,538",
        "737,567,216,640",
        "3 x 800 x 1280",
        "arXiv:1712.00726",
    ]


def test_the_note_about_box_heads_belongs_to_detectors_with_proposals(command):
    for name, has_note in (("detr", False), ("atss", False), ("mask-rcnn", True)):
        output = " ".join(command("models", name)[1].split())
        assert "any image model as their backbone" in output
        assert ("boxes through each box head" in output) == has_note


def test_a_misspelt_detector_is_suggested(command):
    for verb in ("show", "cost"):
        code, _, complaint = command(verb, "mask-rcn")
        assert code == 2
        assert "did you mean 'mask-rcnn'" in complaint
        assert "did you mean 'resnet-18'" in command(verb, "resnet-1")[2]


def test_show_a_detector(command):
    code, output, _ = command("show", "mask-rcnn", "--set", "backbone=resnet-18")
    assert code == 0
    assert "proposer: Proposer" in output
    assert "1000 x 1024" in output


def test_cost_of_a_detector(command):
    code, output, _ = command("cost", "mask-rcnn", *TINY)
    assert code == 0
    for text in (
        "backbone resnet-18, input 1 x 3 x 64 x 96",
        "neck, output P2, convolution 3 x 3",
        "P2, stride 4: 16 x 24 x 3 = 1,152",
        "boxes through each box head: 1,000",
        "boxes through each mask head: 100",
        "1,000 proposals go through each box head and 100 boxes through each mask head",
    ):
        assert text in " ".join(output.split()), text


def test_cost_of_a_detector_as_json_and_with_steps(command):
    found = json.loads(command("cost", "atss", *TINY, "--json")[1])
    assert found["input"] == [1, 3, 64, 96]
    assert found["anchors"][0] == {
        "name": "P3",
        "stride": 8,
        "rows": 8,
        "columns": 12,
        "per_cell": 1,
        "count": 96,
        "working": "8 x 12 x 1 = 96",
    }
    assert sum(one["macs"] for one in found["sections"]) == found["macs"]["total"]
    _, output, _ = command("cost", "atss", *TINY, "--steps")
    assert "H x W x I x 3 x 3 x A x K = 8 x 12 x 256 x 3 x 3 x 1 x 80" in output


def test_what_a_detector_has_not(command):
    code, _, errors = command("cost", "mask-rcnn", "--block", "1")
    assert code == 2
    assert "is a detector" in errors
    code, _, errors = command("cost", "vit-base-16", "--size", "64x64")
    assert code == 2
    assert "--set image=384" in errors
    code, _, errors = command("cost", "mask-rcnn", "--size", "64")
    assert code == 2
    assert "height x width" in errors
