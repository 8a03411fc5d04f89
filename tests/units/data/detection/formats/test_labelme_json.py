"""LabelMe JSON: its shapes, groups, and images inside of the file."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from patchword.core.errors import UserError
from patchword.data.detection.formats.labelme import embedded_image
from patchword.data.detection.reading import read_detection
from patchword.data.faults import collect_faults
from support.detection.annotations import HEIGHT, WIDTH, shape, write_image, write_labelme

TRIANGLE = [[1, 1], [9, 1], [9, 7]]


def png(pixels: np.ndarray) -> str:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format="PNG")
    return base64.b64encode(file.getvalue()).decode()


def only(path):
    return read_detection(path).images[0]


def test_shapes(tmp_path):
    write_image(tmp_path / "a.png")
    inner = np.array([[0, 255, 0], [255, 255, 255]], dtype=np.uint8)
    mask = shape([[4, 5], [6, 6]], kind="mask", mask=png(inner))
    circle = shape([[10, 10], [13, 14]], "dog", "circle")
    write_labelme(tmp_path / "a.json", shape(TRIANGLE), shape([[8, 9], [2, 3]], "dog", "rectangle"), circle, mask)
    dataset = read_detection(tmp_path)
    image = dataset.images[0]
    assert dataset.classes == ("cat", "dog")
    assert image.labels.tolist() == [0, 1, 1, 0]
    assert image.boxes[:2].tolist() == [[1, 1, 9, 7], [2, 3, 8, 9]]
    assert np.allclose(image.boxes[2], [5, 5, 15, 15], atol=1e-12)
    assert image.areas[2] == pytest.approx(np.pi * 25, abs=3)
    pasted = np.zeros((HEIGHT, WIDTH), dtype=bool)
    pasted[5:7, 4:7] = inner > 0
    assert np.array_equal(image.mask(3).to_mask(), pasted)
    assert image.areas[3] == 4
    assert image.image == tmp_path / "a.png"
    assert image.where(2).endswith("a.json, shape 3")


def test_a_group_is_one_object(tmp_path):
    write_image(tmp_path / "a.png")
    other = [[20, 20], [30, 20], [30, 22]]
    parts = [shape(TRIANGLE, group_id=1), shape(other, "dog", group_id=1), shape(other, group_id=1), shape(other)]
    image = only(write_labelme(tmp_path / "a.json", *parts))
    assert image.boxes.tolist() == [[1, 1, 30, 22], [20, 20, 30, 22], [20, 20, 30, 22]]
    assert len(image.outlines[0].parts) == 2


def test_an_embedded_image(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (10, 14, 3), dtype=np.uint8)
    file = write_labelme(tmp_path / "a.json", shape(TRIANGLE), imageData=png(pixels), imageHeight=None, imageWidth=None)
    image = only(file)
    assert image.image == file
    assert (image.height, image.width) == (10, 14)
    with Image.open(io.BytesIO(embedded_image(file))) as found:
        assert np.array_equal(np.asarray(found), pixels)
    write_image(tmp_path / "a.png")
    assert only(file).image == tmp_path / "a.png"  # a file beside comes first


def test_lines_and_points_are_left_out_with_a_note(tmp_path):
    write_image(tmp_path / "a.png")
    write_labelme(tmp_path / "a.json", shape(TRIANGLE), shape([[1, 1]], kind="point"))
    with collect_faults() as report:
        assert len(only(tmp_path / "a.json")) == 1
    assert "shape 2: point" in report.doubts[0].line


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (shape(TRIANGLE[:2]), "shape 1: not a polygon: expected three corners x, y or more, got 2 corners"),
        (shape([[1, 1]], kind="rectangle"), "shape 1: a rectangle has two points: got 1"),
        (shape(TRIANGLE, kind="star"), "shape 1: unknown shape_type"),
        (shape(TRIANGLE, label=""), "shape 1: no label"),
        (shape([[1, 1, 1]]), "shape 1, points: not a list of numbers"),
        (shape([[1, 1], [2, 2]], kind="mask", mask="???"), "shape 1, mask: not base64"),
        (shape([[1, 1], [2, 2]], kind="mask", mask="AAAA"), "shape 1: not a mask"),
        (
            shape([[31, 1], [2, 2]], kind="mask", mask=png(np.ones((2, 2), np.uint8))),
            "the mask is outside of the image",
        ),
    ],
)
def test_faulty_shapes_are_named(tmp_path, content, message):
    write_image(tmp_path / "a.png")
    with pytest.raises(UserError, match=message):
        read_detection(write_labelme(tmp_path / "a.json", content))


def test_classes_of_a_list_are_the_only_ones(tmp_path):
    write_image(tmp_path / "a.png")
    (tmp_path / "labels.txt").write_text("__ignore__\n_background_\ndog\ncat\n")
    write_labelme(tmp_path / "a.json", shape(TRIANGLE))
    assert read_detection(tmp_path).classes == ("dog", "cat")
    write_labelme(tmp_path / "a.json", shape(TRIANGLE, "cow"))
    with pytest.raises(UserError, match="shape 1: unknown class: expected dog, cat, got cow"):
        read_detection(tmp_path)
