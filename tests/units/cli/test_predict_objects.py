"""`patchword predict` with a detector."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import patchword
from patchword.core.errors import UserError
from patchword.pipelines.detection import engine, videos
from patchword.pipelines.detection.videos import Frame
from patchword.reports.detection.colors import class_color
from support.detection.detectors import tiny_detector, two_boxes
from support.helpers import tiny


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return patchword.save(tiny_detector(), tmp_path_factory.mktemp("models") / "detector")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(engine, "detect_images", two_boxes)


def photo(path: str, height: int = 40, width: int = 80) -> Path:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(path)
    return Path(path)


def test_a_table_lists_the_objects_of_each_image(command, model):
    photo("photos/a.png"), photo("photos/below/b.jpg", 20, 60)
    code, output, _ = command("predict", model, "photos")
    assert code == 0
    lines = [line for line in output.splitlines() if line.startswith("│")]
    assert [[cell.strip() for cell in line.strip("│").split("│")] for line in lines] == [
        ["photos/a.png", "cat", "0.90", "0, 0, 40, 40"],
        ["", "car", "0.40", "40, 0, 80, 40"],
        ["photos/below/b.jpg", "cat", "0.90", "0, 0, 30, 20"],
        ["", "car", "0.40", "30, 0, 60, 20"],
    ]


def test_the_score_selects_objects(command, model):
    photo("a.png")
    assert "dog <b>" in command("predict", model, "a.png", "--score", "0.05")[1]
    output = command("predict", model, "a.png", "--score", "0.95")[1]
    assert "no objects" in output
    assert "note: no object has a score of 0.95 or more; a lower --score" in output
    assert "note: no object" not in command("predict", model, "a.png", "--score", "0.85")[1]
    assert command("predict", model, "a.png", "--score", "2")[0] == 2


def test_results_are_written_as_csv_json_and_coco(command, model):
    photo("12.png"), photo("7.png")
    words = ("predict", model, "12.png", "7.png", "--csv", "out.csv", "--jsonl", "out.jsonl", "--coco", "out.json")
    code, output, _ = command(*words)
    assert code == 0
    assert "4 objects in out.csv" in output
    assert "4 objects in out.json; image_id is the number in the file name, category_id counts the classes" in output
    rows = list(csv.DictReader(Path("out.csv").read_text().splitlines()))
    assert rows[1] == {
        "file": "12.png",
        "label": "car",
        "score": "0.400000",
        "x1": "40.00",
        "y1": "0.00",
        "x2": "80.00",
        "y2": "40.00",
    }
    records = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert [record["path"] for record in records] == ["12.png", "7.png"]
    assert records[0]["width"] == 80
    assert records[0]["objects"][0]["label"] == "cat"
    assert records[0]["objects"][0]["box"] == [0, 0, 40, 40]
    assert records[0]["objects"][0]["mask"]["size"] == [40, 80]
    entries = json.loads(Path("out.json").read_text())
    assert [(entry["image_id"], entry["category_id"], entry["file_name"]) for entry in entries] == [
        (12, 1, "12.png"),
        (12, 3, "12.png"),
        (7, 1, "7.png"),
        (7, 3, "7.png"),
    ]
    assert entries[1]["bbox"] == [40, 0, 40, 40]


def test_images_without_numbers_are_counted(command, model):
    photo("a/1.png"), photo("b/1.png")
    output = command("predict", model, "a", "b", "--coco", "out.json")[1]
    assert "image_id counts the images from 1" in output
    assert [entry["image_id"] for entry in json.loads(Path("out.json").read_text())] == [1, 1, 2, 2]


def test_json_is_printed_alone(command, model):
    photo("a.png")
    Path("broken.png").write_bytes(b"nothing")
    code, output, error = command("predict", model, "a.png", "broken.png", "--json", "--draw", "drawn")
    assert code == 0
    records = [json.loads(line) for line in output.splitlines()]
    assert len(records[0]["objects"]) == 2
    assert records[1]["error"].startswith("cannot read the image broken.png")
    assert "note: no prediction: cannot read the image broken.png" in error


def test_drawn_images_are_written(command, model):
    photo("a/one.png"), photo("b/one.png", 700, 900), photo("b/two.JPG")
    code, output, _ = command("predict", model, "a", "b", "--draw", "drawn")
    assert code == 0
    assert "3 drawn images in drawn" in output
    assert sorted(path.name for path in Path("drawn").iterdir()) == ["one.png", "one_2.png", "two.jpg"]
    assert Image.open("drawn/one.png").size == (640, 320)
    large = Image.open("drawn/one_2.png")
    assert large.size == (900, 700)
    assert large.getpixel((0, 699)) == class_color(0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gone.png"], "there is nothing at gone.png"),
        ([], "there are no images to detect objects in"),
        (["empty"], "there are no images to detect objects in"),
        (["broken.png"], "cannot read the image broken.png"),
        (["a.png", "--draw", "."], "holds images that are read, such as a.png"),
        (["a.png", "--draw", "broken.png"], "cannot write to broken.png"),
        (["a.png", "--coco", "empty"], "cannot write empty"),
        (["gone.mp4"], "there is nothing at gone.mp4"),
        (["clip.mp4"], "no reader of videos is installed"),
    ],
)
def test_mistakes_are_named(command, model, monkeypatch, words, message):
    monkeypatch.setattr(videos, "find_spec", lambda name: None)
    photo("a.png")
    Path("empty").mkdir()
    Path("broken.png").write_bytes(b"nothing")
    Path("clip.mp4").write_bytes(b"nothing")
    code, output, error = command("predict", model, *words)
    assert code == 2
    assert message in output + error
    assert "Traceback" not in output + error


def test_frames_of_a_video_are_images(command, model, monkeypatch):
    def frames(path, every):
        if path.name == "broken.mp4":
            raise UserError(f"cannot read the video {path}")
        for number in range(3):
            yield Frame(30 * number, every * number, Image.new("RGB", (80, 40)))

    monkeypatch.setattr(videos, "video_frames", frames)
    monkeypatch.setattr(videos, "require_reader", lambda path: None)
    Path("clip.mp4").write_bytes(b"video")
    Path("broken.mp4").write_bytes(b"video")
    photo("a.png")
    words = ("predict", model, "a.png", "broken.mp4", "clip.mp4", "--every", "0.5", "--draw", "drawn", "--csv", "o.csv")
    code, output, _ = command(*words)
    assert code == 0
    assert "note: no prediction: cannot read the video broken.mp4" in output
    files = [row["file"] for row in csv.DictReader(Path("o.csv").read_text().splitlines())]
    assert files[::2] == ["a.png", "clip.mp4 at 0.00 s", "clip.mp4 at 0.50 s", "clip.mp4 at 1.00 s"]
    drawn = sorted(path.name for path in Path("drawn").iterdir())
    assert drawn == ["a.png", "clip_frame000000.jpg", "clip_frame000030.jpg", "clip_frame000060.jpg"]


def test_options_of_detectors_are_refused_for_classifiers(command):
    folder = patchword.save(tiny("vit-tiny-16", image=32, patch=8, classes=3), "classifier")
    photo("a.png")
    code, output, error = command("predict", folder, "a.png", "--draw", "drawn")
    assert code == 2
    assert "--draw is an option for detectors" in output + error
    assert not Path("drawn").exists()
