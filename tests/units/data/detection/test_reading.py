"""The format of a data set is recognised by its files; two of them are refused with what to type."""

import json

import numpy as np
import pytest

from patchword.core.errors import UserError
from patchword.data.detection.formats.coco_writing import write_coco
from patchword.data.detection.reading import FORMATS, annotated_folders, read_detection, recognised_formats
from support.detection import annotations as make
from support.material import write_classes


def write_each(folder):
    """Write one data set per format; return their names and places."""
    make.write_image(folder / "labelme/a.png")
    make.write_image(folder / "masks/images/a.png")
    make.write_voc(folder / "voc", "a", make.voc_object((5, 5, 12, 10)))
    values = np.zeros((make.HEIGHT, make.WIDTH), dtype="uint8")
    values[4:10, 4:12] = 1
    make.write_values(folder / "masks/masks/a.png", values)
    corners = [[4, 4], [12, 4], [12, 10], [4, 10]]
    make.write_labelme(folder / "labelme/a.json", make.shape(corners))
    make.coco_folder(folder / "coco", make.coco_object())
    make.write_yolo(folder / "yolo", a=f"0 {8 / 32} {7 / 24} {8 / 32} {6 / 24}")
    return {name: folder / name for name in FORMATS}


def test_each_format_is_recognised_and_reads_the_same_box(tmp_path):
    for name, path in write_each(tmp_path).items():
        assert recognised_formats(path) == (name,)
        dataset = read_detection(path)
        assert dataset.format == FORMATS[name].about
        assert np.allclose(dataset.images[0].boxes, [[4, 4, 12, 10]], rtol=0, atol=1e-9), name


def test_each_format_is_written_as_coco_json(tmp_path):
    for name, path in write_each(tmp_path).items():
        dataset = read_detection(path)
        write_coco(dataset, tmp_path / f"out/{name}.json")
        again = read_detection(tmp_path / f"out/{name}.json")
        one, other = dataset.images[0], again.images[0]
        assert again.classes == dataset.classes
        assert again.class_ids == dataset.class_ids
        assert np.allclose(one.boxes, other.boxes, rtol=0, atol=1e-8)
        assert other.image.resolve() == one.image
        assert other.areas.tolist() == one.areas.tolist()
        assert [outline is None for outline in one.outlines] == [outline is None for outline in other.outlines]


@pytest.mark.parametrize(
    "content",
    [
        {"version": "v2.0", "data": [{"paragraphs": [], "images": []}]},
        {"images_of": 3},
        [{"images": []}],
        {"x": '"images": 1'},
    ],
)
def test_other_json_files_are_not_recognised(tmp_path, content):
    (tmp_path / "a.json").write_text(json.dumps(content))
    assert recognised_formats(tmp_path / "a.json") == recognised_formats(tmp_path) == ()


def test_other_folders_and_files_are_not_recognised(tmp_path):
    write_classes(tmp_path / "pets")
    (tmp_path / "pets" / "labels.txt").write_text("cat\ncat\n")
    (tmp_path / "recipe.yaml").write_text("model: vit-tiny-16\ndata: pets\n")
    (tmp_path / "notes.txt").write_text("0 0.5 0.5 1 1")
    (tmp_path / "layout.xml").write_text("<html/>")
    for name in ("pets", "recipe.yaml", "notes.txt", "nowhere", "."):
        assert recognised_formats(tmp_path / name) == ()
    with pytest.raises(UserError, match="no annotations of objects: expected COCO JSON; YOLO text"):
        read_detection(tmp_path / "pets")


def test_the_folder_above_the_annotations_names_the_folder_to_give(tmp_path):
    write_classes(tmp_path / "above/a")
    make.write_voc(tmp_path / "above/inner", "a", make.voc_object((5, 5, 12, 10)))
    with pytest.raises(UserError, match=r"above has no annotations of objects.*\n.*above/inner has annotations"):
        read_detection(tmp_path / "above")
    assert annotated_folders(tmp_path / "above") == [tmp_path / "above/inner"]
    assert annotated_folders(tmp_path / "above/a") == annotated_folders(tmp_path / "nowhere") == []


def test_two_formats_are_refused_with_what_to_type(tmp_path):
    make.coco_folder(tmp_path, make.coco_object())
    make.write_yolo(tmp_path, a="0 0.5 0.5 1 1")
    with pytest.raises(UserError, match=r"in 2 formats.*COCO JSON, YOLO text\nchoose one: format=coco or format=yolo"):
        read_detection(tmp_path)
    assert read_detection(tmp_path, "yolo").format == "YOLO text"
    with pytest.raises(UserError, match="did you mean 'yolo'"):
        read_detection(tmp_path, "yol")
    with pytest.raises(UserError, match="there is no file or folder"):
        read_detection(tmp_path / "nowhere")
