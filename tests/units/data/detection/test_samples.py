"""Samples are read upright, and their boxes and masks with them."""

import base64

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

from patchword.core.errors import UserError
from patchword.data.detection.orientation import read_orientation, upright_boxes, upright_mask, upright_size
from patchword.data.detection.reading import read_detection
from patchword.data.detection.samples import load_sample
from support.detection.annotations import (
    HEIGHT,
    WIDTH,
    coco_folder,
    coco_image,
    coco_object,
    shape,
    write_coco_file,
    write_image,
    write_labelme,
)


def test_pixels_boxes_and_masks(tmp_path):
    beyond = coco_object(2, bbox=[20.5, 10, 11.9, 14.2], segmentation=[[20.5, 10, 32.4, 10, 32.4, 24.2]])
    image = read_detection(coco_folder(tmp_path, coco_object(1), beyond)).images[0]
    sample = load_sample(image)
    assert torch.equal(sample.pixels.permute(1, 2, 0), torch.from_numpy(np.array(Image.open(tmp_path / "a.png"))))
    assert sample.boxes.tolist() == [[4, 4, 12, 10], [20.5, 10, 32, 24]]
    assert sample.masks is not None
    assert sample.masks[0].sum() == 48
    assert sample.masks.shape == (2, HEIGHT, WIDTH)
    assert load_sample(image, masks=False).masks is None
    assert load_sample(image, channels=1).pixels.shape == (1, HEIGHT, WIDTH)


def test_an_image_without_objects_has_empty_masks(tmp_path):
    sample = load_sample(read_detection(coco_folder(tmp_path)).images[0])
    assert sample.masks is not None
    assert sample.masks.shape == (0, HEIGHT, WIDTH)
    assert sample.boxes.shape == (0, 4)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_masks_and_boxes_turn_as_pillow_turns_pixels(tmp_path, orientation):
    mask = np.zeros((HEIGHT, WIDTH), dtype=bool)
    mask[2:5, 3:13] = True
    path = tmp_path / "a.png"
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(mask).convert("L").save(path, exif=exif)
    with Image.open(path) as image:
        upright = np.asarray(ImageOps.exif_transpose(image)) > 0
    assert read_orientation(path) == orientation
    assert upright_size(path) == upright.shape
    assert np.array_equal(upright_mask(mask, orientation), upright)
    rows, columns = np.flatnonzero(upright.any(1)), np.flatnonzero(upright.any(0))
    box = [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]
    assert upright_boxes(np.array([[3.0, 2, 13, 5]]), mask.shape, orientation).tolist() == [box]


@pytest.mark.parametrize(("size", "expected"), [((HEIGHT, WIDTH), [14, 4, 20, 12]), ((WIDTH, HEIGHT), [4, 4, 12, 10])])
def test_boxes_of_stored_pixels_turn_with_the_image(tmp_path, size, expected):
    write_image(tmp_path / "a.jpg", orientation=6)
    image = coco_image(1, "a.jpg", height=size[0], width=size[1])
    sample = load_sample(read_detection(write_coco_file(tmp_path / "x.json", [image], [coco_object()])).images[0])
    assert sample.size == (WIDTH, HEIGHT)
    assert sample.boxes.tolist() == [expected]
    rows, columns = sample.masks[0].any(1).nonzero()[:, 0], sample.masks[0].any(0).nonzero()[:, 0]
    assert [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1] == expected


def test_an_embedded_image_is_read(tmp_path):
    data = base64.b64encode(write_image(tmp_path / "elsewhere" / "a.png").read_bytes()).decode()
    file = write_labelme(tmp_path / "a.json", shape([[1, 1], [9, 1], [9, 7]]), imageData=data)
    assert load_sample(read_detection(file).images[0]).pixels.shape == (3, HEIGHT, WIDTH)


def test_another_size_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"the size of the image a.png is wrong: expected 32 x 24, got 31 x 24"):
        load_sample(read_detection(coco_folder(tmp_path, coco_object(), width=31)).images[0])
