"""YOLO text files: fractions of the image, boxes and polygons, names in YAML or classes.txt."""

import numpy as np
import pytest

from patchword.core.errors import UserError
from patchword.data.detection.formats.yolo import label_file
from patchword.data.detection.reading import read_detection
from patchword.data.detection.records import Polygons
from patchword.data.faults import collect_faults
from support.detection.annotations import HEIGHT, WIDTH, write_image, write_yolo


def test_boxes_and_polygons(tmp_path):
    folder = write_yolo(tmp_path, a="1 0.5 0.5 0.25 0.5\n\n0 0.25 0.25 0.5 0.25 0.5 0.75\n", b="")
    (folder / "classes.txt").write_text("cat\ndog\n")
    dataset = read_detection(folder)
    first, second = dataset.images
    assert dataset.classes == ("cat", "dog")
    assert first.labels.tolist() == [1, 0]
    assert first.boxes.tolist() == [[12, 6, 20, 18], [8, 6, 16, 18]]
    assert first.outlines[0] is None
    assert isinstance(first.outlines[1], Polygons)
    assert first.outlines[1].parts[0].tolist() == [[8, 6], [16, 6], [16, 18]]
    assert first.areas[0] == 96
    assert first.areas[1] == first.mask(1).area
    assert first.where(1) == f"{folder / 'labels' / 'a.txt'}, line 3"
    assert len(second) == 0  # no label file: an image without objects


def test_sizes_are_those_of_the_upright_image(tmp_path):
    folder = write_yolo(tmp_path, a="0 0.5 0.5 1 1")
    (folder / "images/a.png").unlink()
    write_image(folder / "images/a.jpg", orientation=6)
    assert read_detection(folder).images[0].boxes.tolist() == [[0, 0, HEIGHT, WIDTH]]


def test_names_and_folders_of_a_yaml_file(tmp_path):
    write_yolo(tmp_path / "train", a="5 0.5 0.5 1 1")
    write_yolo(tmp_path / "valid", b="2 0.5 0.5 1 1")
    yaml = tmp_path / "data.yaml"
    yaml.write_text("train: ../train/images\nval: valid/images\nnames:\n  2: cat\n  5: dog\n")  # as Roboflow writes it
    dataset = read_detection(tmp_path)
    assert dataset.classes == ("cat", "dog")
    assert dataset.class_ids == (2, 5)
    assert [(image.split, image.labels.tolist()) for image in dataset.images] == [("train", [1]), ("validation", [0])]
    assert len(read_detection(yaml).images) == 2
    yaml.write_text("train: nowhere\nnames: [cat]\n")
    with pytest.raises(UserError, match=r"data.yaml: there is no folder 'nowhere'"):
        read_detection(tmp_path)


def test_a_list_of_images(tmp_path):
    write_yolo(tmp_path, a="0 0.5 0.5 1 1", b="0 0.5 0.5 1 1")
    (tmp_path / "some.txt").write_text("images/b.png\n")
    (tmp_path / "data.yaml").write_text("train: some.txt\nnames: [cat]\n")
    assert [image.image.name for image in read_detection(tmp_path).images] == ["b.png"]


def test_splits_of_folders_without_yaml(tmp_path):
    for split in ("train", "val"):
        write_image(tmp_path / "images" / split / "a.png")
        (tmp_path / "labels" / split).mkdir(parents=True)
        (tmp_path / "labels" / split / "a.txt").write_text("1 0.5 0.5 1 1")
    with collect_faults() as report:
        dataset = read_detection(tmp_path)
    assert dataset.splits == ("train", "validation")
    assert dataset.classes == ("0", "1")
    assert "no names of the classes" in [doubt.kind for doubt in report.doubts]


def test_label_files_beside_the_images(tmp_path):
    write_image(tmp_path / "a.png")
    (tmp_path / "a.txt").write_text("0 0.5 0.5 0.5 0.5")
    (tmp_path / "classes.txt").write_text("cat")
    assert read_detection(tmp_path).images[0].boxes.tolist() == [[8, 6, 24, 18]]


def test_the_last_folder_named_images_is_replaced(tmp_path):
    found = label_file(tmp_path / "images" / "set" / "images" / "train" / "images.jpg")
    assert found == tmp_path / "images" / "set" / "labels" / "train" / "images.txt"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("2 0.5 0.5 1 1", "line 1: unknown class: expected 0 cat, 1 dog, got 2"),
        ("-1 0.5 0.5 1 1", "unknown class"),
        ("0.5 0.5 0.5 1 1", "line 1, class: not a whole number"),
        ("0 0.5 0.5 1 x", "line 1: not a finite number"),
        ("0 0.5 0.5 1 1 0.9", "line 1: 6 numbers.*\n.*the score"),
        ("0 0.5 0.5", "line 1: not a polygon"),
        ("0 0.5 0.5 1 1 0.9 0.1 0.2", "got 7 numbers"),
    ],
)
def test_faulty_lines_are_named(tmp_path, line, message):
    write_yolo(tmp_path, a=line)
    (tmp_path / "classes.txt").write_text("cat\ndog")
    with pytest.raises(UserError, match=message):
        read_detection(tmp_path)


def test_a_label_file_without_image_is_named(tmp_path):
    write_yolo(tmp_path, a="0 0.5 0.5 1 1", b="0 0.5 0.5 1 1")
    (tmp_path / "images/b.png").unlink()
    with pytest.raises(UserError, match=r"labels/b.txt: its image is missing"):
        read_detection(tmp_path)


def test_images_without_any_label_file_are_refused(tmp_path):
    write_yolo(tmp_path, a="")
    (tmp_path / "data.yaml").write_text("train: images\nnames: [cat]\n")
    with pytest.raises(UserError, match=r"no label files of images: expected files such as .*labels/a.txt"):
        read_detection(tmp_path)


def test_polygons_keep_their_precision(tmp_path):
    write_yolo(tmp_path, a="0 0.123456 0.2 0.7 0.2 0.7 0.654321")
    corners = read_detection(tmp_path).images[0].outlines[0].parts[0]
    assert np.allclose(corners[0], (0.123456 * WIDTH, 0.2 * HEIGHT), rtol=0, atol=1e-12)
