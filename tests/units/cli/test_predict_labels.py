"""`patchword predict` and `patchword data check` with label maps."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import patchword
from patchword.core.masks.polygons import fill_polygons
from patchword.data.detection.reading import read_detection
from support.helpers import tiny
from support.segmentation.label_maps import COLORS, draw_rectangles, save_map, write_label_maps
from support.segmentation.segmenters import tiny_segmenter


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return patchword.save(tiny_segmenter(), tmp_path_factory.mktemp("models") / "segmenter")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def photo(path: str, height: int = 40, width: int = 48) -> Path:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(draw_rectangles(np.random.default_rng(len(path)), height, width)[0]).save(path)
    return Path(path)


def test_a_table_lists_the_classes_of_each_image(command, model):
    photo("photos/a.png"), photo("photos/below/b.jpg", 20, 60)
    code, output, _ = command("predict", model, "photos", "--device", "cpu")
    assert code == 0
    rows = [line for line in output.splitlines() if line.startswith("│")]
    assert [row.split("│")[1].strip() for row in rows] == ["photos/a.png", "photos/below/b.jpg"]
    assert "%" in rows[0]


def test_masks_drawings_and_polygons_show_the_same_labels(command, model):
    photo("in/a.png"), photo("in/more/a.jpg", 20, 60)
    words = ("predict", model, "in", "--masks", "out", "--draw", "drawn", "--polygons", "regions.json", "--json")
    code, output, notes = command(*words, "--device", "cpu")
    assert code == 0
    records = [json.loads(line) for line in output.splitlines()]
    assert [(record["path"], record["mask"]) for record in records] == [
        ("in/a.png", "out/a.png"),
        ("in/more/a.jpg", "out/a_2.png"),
    ]
    assert "2 label maps in out; pixel values are classes from 0" in notes
    assert "2 drawn images in drawn" in notes
    assert sorted(path.name for path in Path("drawn").iterdir()) == ["a.jpg", "a.png"]
    content = json.loads(Path("regions.json").read_text())
    assert [category["name"] for category in content["categories"]] == list(COLORS)
    for image, record in zip(content["images"], records, strict=True):
        labels = np.array(Image.open(record["mask"]))
        assert sum(record["share"].values()) == pytest.approx(1)
        found = np.full(labels.shape, 99)
        for one in content["annotations"]:
            if one["image_id"] == image["id"]:
                mask = fill_polygons(one["segmentation"], *labels.shape).to_mask()
                assert mask.sum() == one["area"]
                found[mask] = one["category_id"] - 1
        assert np.array_equal(found, labels)
    assert read_detection(Path("regions.json")).objects == len(content["annotations"])


def test_results_are_written_as_csv_and_json_lines(command, model):
    photo("a.png")
    Path("broken.png").write_bytes(b"nothing")
    words = ("predict", model, "a.png", "broken.png", "--csv", "out.csv", "--jsonl", "out.jsonl", "--device", "cpu")
    code, output, _ = command(*words)
    assert code == 0
    assert "note: no prediction: cannot read the image broken.png" in output
    assert "the classes of 1 image in out.csv" in output
    rows = list(csv.DictReader(Path("out.csv").read_text().splitlines()))
    assert {row["path"] for row in rows} == {"a.png"}
    assert sum(float(row["share"]) for row in rows) == pytest.approx(1, abs=1e-5)
    records = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert records[0]["width"] == 48
    assert "error" in records[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--score", "0.5"), "--score is an option for detectors"),
        (("--coco", "found.json"), "--coco is an option for detectors"),
        (("--masks", "."), "holds images that are read"),
        (("--masks", "same", "--draw", "same"), "the same folder"),
        (("--masks", "a.png"), "a.png is a file"),
    ],
)
def test_a_wrong_option_is_a_message(command, model, words, message):
    photo("a.png")
    code, _, complaint = command("predict", model, "a.png", *words)
    assert code == 2
    assert message in complaint.replace("\n", " ")


def test_other_models_have_no_label_maps(command, tmp_path):
    patchword.save(tiny("vit-exercise"), "classifier")
    code, _, complaint = command("predict", "classifier", photo("a.png"), "--masks", "out")
    assert code == 2
    assert "--masks is an option for segmenters" in complaint


def test_label_maps_are_checked(command):
    folder = write_label_maps(Path("maps"), count=3, inside="train/{images}/{stem}")
    (folder / "train/masks").rename(folder / "train/labels")
    code, output, _ = command("data", "check", "maps")
    assert code == 0
    assert "no faults: 3 images with label maps of 4 classes, ignored values: 255" in output
    save_map(folder / "train/labels/001.png", np.full((40, 48), 11, np.uint8))
    code, _, complaint = command("data", "check", "maps")
    assert code == 2
    assert "maps/train/labels/001.png: pixel values that are no class" in complaint.replace("\n", " ")
    assert command("data", "check", "maps", "ignored=[11,255]")[0] == 0
    assert command("data", "check", "segment-images", "data=maps", "ignored=[11,255]")[0] == 0


def test_masks_may_be_of_instances_or_of_classes(command):
    write_label_maps(Path("maps"), count=3)
    code, output, _ = command("data", "check", "maps")
    assert code == 0
    assert "each value of a mask is one object" in output
    assert "patchword data check segment-images data=maps" in output.replace("\n", " ")
    assert "each value of a mask is one object" not in command("data", "check", "maps", "format=masks")[1]
