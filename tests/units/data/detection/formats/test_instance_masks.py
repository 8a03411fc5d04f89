"""Instance masks in PNG files: values of palettes, borders, classes."""

import numpy as np
import pytest
from PIL import Image

from patchword.core.errors import UserError
from patchword.data.detection.reading import read_detection
from support.detection.annotations import HEIGHT, WIDTH, write_image, write_values


def instances() -> np.ndarray:
    values = np.zeros((HEIGHT, WIDTH), dtype=np.uint8)
    values[2:6, 3:9], values[10:14, 20:30], values[8, 0:5] = 1, 7, 255
    return values


def test_each_value_is_an_object(tmp_path):
    write_image(tmp_path / "images/a.jpg")
    write_values(tmp_path / "masks/a.png", instances().astype(np.uint16) * 100)  # 16 bits
    dataset = read_detection(tmp_path)
    image = dataset.images[0]
    assert dataset.classes == ("object",)
    assert image.labels.tolist() == [0, 0, 0]
    assert image.ids.tolist() == [100, 700, 25500]
    assert image.boxes.tolist() == [[3, 2, 9, 6], [20, 10, 30, 14], [0, 8, 5, 9]]
    assert image.areas.tolist() == [24, 40, 5]
    assert np.array_equal(image.mask(0).to_mask(), instances() == 1)


def test_255_of_a_grey_file_is_an_object(tmp_path):
    write_image(tmp_path / "images/a.jpg")
    write_values(tmp_path / "masks/a.png", np.where(instances() == 255, 255, 0).astype(np.uint8))
    assert read_detection(tmp_path).images[0].boxes.tolist() == [[0, 8, 5, 9]]


@pytest.mark.parametrize("place", ["", "SegmentationObject"])
def test_pascal_palettes_and_classes(tmp_path, place):
    write_image(tmp_path / "JPEGImages/a.jpg")
    write_values(tmp_path / "SegmentationObject/a.png", instances(), palette=True)
    classes = np.where(instances() == 7, 15, 4).astype(np.uint8)
    write_values(tmp_path / "SegmentationClass/a.png", classes, palette=True)
    dataset = read_detection(tmp_path / place)
    assert dataset.classes == ("4", "15")
    assert dataset.class_ids == (4, 15)
    assert dataset.images[0].ids.tolist() == [1, 7]  # 255 is the border
    assert dataset.images[0].labels.tolist() == [0, 1]
    (tmp_path / "classes.txt").write_text("one\ntwo\nthree\nfour\n")
    with pytest.raises(UserError, match=r"object 7: unknown class.*got 15"):
        read_detection(tmp_path / place)


def test_faulty_masks_are_named(tmp_path):
    write_image(tmp_path / "images/a.png")
    file = write_values(tmp_path / "instances/a.png", instances()[:-1])
    with pytest.raises(
        UserError, match=r"a.png: the mask has another size than the image: expected 32 x 24, got 32 x 23"
    ):
        read_detection(tmp_path)
    Image.new("RGB", (WIDTH, HEIGHT)).save(file)
    with pytest.raises(UserError, match="not a mask of instances: expected one value per pixel, got the mode RGB"):
        read_detection(tmp_path)
    (tmp_path / "images/a.png").unlink()
    write_values(file, instances())
    with pytest.raises(UserError, match="its image is missing"):
        read_detection(tmp_path)
