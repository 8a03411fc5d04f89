"""models, show, cost and export for segmenters."""

import json

import pytest

import patchword
from patchword.cli.models.segmenters import is_segmenter
from patchword.models.segmentation import create_segmenter
from patchword.recipes import find_recipe

pytestmark = pytest.mark.usefixtures("quick_meta")
TINY = ("--set", "backbone=resnet-18", "--size", "64x96")


def test_models_lists_segmenters(command):
    (row,) = json.loads(command("models", "uper*", "--json")[1])
    assert row | {"macs": 0, "parameters": 0} == {
        "name": "upernet",
        "title": "UperNet",
        "backbone": "resnet-50",
        "parameters": 0,
        "macs": 0,
        "input": [3, 512, 512],
        "paper": "arXiv:1807.10221",
    }
    code, output, _ = command("models", "semantic-fpn")
    assert code == 0
    assert "arXiv:1901.02446" in output
    assert f"{28_514_806 - 19_232:,}" in output  # with the stem of the paper's ResNet


def test_a_misspelt_segmenter_is_suggested(command):
    for verb in ("show", "cost"):
        code, _, complaint = command(verb, "upernett")
        assert code == 2
        assert "did you mean 'upernet'" in complaint


def test_show_a_segmenter(command, tmp_path):
    code, output, _ = command("show", "upernet", "--set", "backbone=resnet-18")
    assert code == 0
    assert "pooling: PyramidPooling" in output
    assert "1 x 150 x 128 x 128" in output
    fields = {"backbone": "resnet-18", "backbone_fields": {"width": 8}, "width": 8, "classes": 3}
    folder = patchword.save(create_segmenter("semantic-fpn", **fields), tmp_path)
    code, output, _ = command("show", str(folder))
    assert code == 0
    assert "1 x 3 x 128 x 128" in output


def test_cost_of_a_segmenter(command):
    code, output, _ = command("cost", "upernet", *TINY)
    assert code == 0
    for text in (
        "backbone resnet-18, input 1 x 3 x 64 x 96",
        "head, fusion of the levels",
        "auxiliary head (training only) 0 ",
        "Published FLOPs of UperNet are MACs at 2048 x 512 pixels",
    ):
        assert text in " ".join(output.split()), text


def test_cost_as_json_and_of_a_part(command):
    found = json.loads(command("cost", "semantic-fpn", *TINY, "--json")[1])
    assert found["input"] == [1, 3, 64, 96]
    assert sum(one["macs"] for one in found["sections"]) == found["macs"]["total"]
    part = json.loads(command("cost", "semantic-fpn", *TINY, "--part", "neck", "--json")[1])
    assert part["macs"]["total"] == next(one["macs"] for one in found["sections"] if one["title"] == "neck")
    assert "H * W * I" in command("cost", "semantic-fpn", *TINY, "--part", "neck")[1].replace("x", "*")


def test_options_of_other_models_are_errors(command):
    code, _, complaint = command("cost", "upernet", "--tokens", "3")
    assert code == 2
    assert "'upernet' is a segmenter" in complaint
    code, _, complaint = command("cost", "upernet", "--part", "necks")
    assert code == 2
    assert "no part 'necks'" in complaint


def test_verbs_that_have_no_segmenters_refuse_them(command, tmp_path):
    fields = {"backbone": "resnet-18", "backbone_fields": {"width": 8}, "width": 8, "classes": 3}
    folder = str(patchword.save(create_segmenter("semantic-fpn", **fields), tmp_path / "maps"))
    for words in (("attention", folder, "a.png"), ("attention", "upernet", "a.png"), ("windows", folder)):
        code, _, complaint = command(*words)
        assert code == 2
        assert f"{words[1]} is a segmenter: expected an image classifier" in complaint.replace("\n", " ")
    code, _, complaint = command("windows", "detr")
    assert code == 2
    assert "detr is a detector: expected an image classifier" in complaint


def test_a_run_that_was_fine_tuned_from_a_folder_is_a_segmenter(tmp_path):
    recipe = find_recipe("segment-images").with_settings(["model=runs/before"])
    (tmp_path / "recipe.yaml").write_text(recipe.to_yaml())
    assert is_segmenter(str(tmp_path))
    recipe = find_recipe("detect-objects").with_settings(["model=runs/before"])
    (tmp_path / "recipe.yaml").write_text(recipe.to_yaml())
    assert not is_segmenter(str(tmp_path))
