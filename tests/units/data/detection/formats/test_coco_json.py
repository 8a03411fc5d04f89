"""COCO JSON is read as pycocotools reads it, and written again without a change."""

import contextlib
import io
import json

import numpy as np
import pytest
from pycocotools import mask as coco_masks
from pycocotools.coco import COCO

from patchword.core.errors import UserError
from patchword.core.masks.run_lengths import RunLengths
from patchword.data.detection.formats.coco_writing import write_coco
from patchword.data.detection.reading import read_detection
from patchword.data.detection.records import Polygons
from support.detection.annotations import (
    HEIGHT,
    WIDTH,
    coco_folder,
    coco_image,
    coco_object,
    write_coco_file,
    write_image,
)

MASK = np.zeros((HEIGHT, WIDTH), dtype=bool)
MASK[5:9, 3:20] = True


def several(folder):
    """An object of polygons, one of two parts, a crowd of lengths, one of a compressed string, one without outline."""
    counts = RunLengths.from_mask(MASK)
    text = {"size": [HEIGHT, WIDTH], "counts": counts.to_text()}
    plain = {"size": [HEIGHT, WIDTH], "counts": counts.counts.tolist()}
    parts = [[1, 1, 5.3, 1, 5.3, 5.2], [8, 8, 20.7, 8, 20, 15.1, 8, 14]]
    file = coco_folder(
        folder,
        coco_object(11),
        coco_object(5, category_id=7, segmentation=parts, bbox=[1, 1, 19.7, 14.1], area=60.25),
        coco_object(6, segmentation=plain, iscrowd=1, bbox=[3, 5, 17, 4]),
        coco_object(7, segmentation=text, bbox=[3, 5, 17, 4]),
        coco_object(8, segmentation=[], bbox=[7.76, 0.2, 7.06, 2.9]),
    )
    record = json.loads(file.read_text())
    record["images"].append(coco_image(9, "b.png"))
    write_image(folder / "b.png")
    file.write_text(json.dumps(record))
    return file


def by_pycocotools(file):
    with contextlib.redirect_stdout(io.StringIO()):
        return COCO(str(file))


def test_records(tmp_path):
    dataset = read_detection(several(tmp_path))
    assert dataset.classes == ("cat", "dog")
    assert dataset.class_ids == (3, 7)
    first, second = dataset.images
    assert first.labels.tolist() == [0, 1, 0, 0, 0]
    assert first.ids.tolist() == [11, 5, 6, 7, 8]
    assert first.boxes[1].tolist() == [1, 1, 20.7, 15.1]
    assert first.boxes.dtype == np.float64
    assert first.areas.tolist() == [47.5, 60.25, 47.5, 47.5, 47.5]  # of the file, not of box or mask
    assert first.crowd.tolist() == [False, False, True, False, False]
    assert first.image == tmp_path / "a.png"
    assert first.split == "train"
    assert first.id == 1
    assert len(second) == 0
    assert second.boxes.shape == (0, 4)
    assert (first.has_masks, second.has_masks, dataset.has_masks) == (False, True, False)
    assert dataset.summary == "2 images (1 without objects), 5 objects of 2 classes, boxes, COCO JSON"


def test_masks_equal_those_of_pycocotools(tmp_path):
    file = several(tmp_path)
    theirs, image = by_pycocotools(file), read_detection(file).images[0]
    for index, id in enumerate(image.ids.tolist()[:4]):
        assert np.array_equal(image.mask(index).to_mask(), theirs.annToMask(theirs.anns[id]))
    with pytest.raises(UserError, match="annotation 8 has no outline"):
        image.mask(4)


def test_a_written_file_is_read_as_the_same(tmp_path):
    file = several(tmp_path)
    write_coco(read_detection(file), tmp_path / "deep" / "er" / "out.json")
    again, first = json.loads((tmp_path / "deep/er/out.json").read_text()), json.loads(file.read_text())
    assert [one["bbox"] for one in again["annotations"]] == [one["bbox"] for one in first["annotations"]]
    for key in ("id", "image_id", "category_id", "area", "iscrowd"):
        assert [one[key] for one in again["annotations"]] == [one[key] for one in first["annotations"]]
    old, new = read_detection(file).images, read_detection(tmp_path / "deep/er/out.json").images
    assert [image.image.resolve() for image in new] == [image.image for image in old]
    for one, other in zip(old, new, strict=True):
        assert np.array_equal(one.boxes, other.boxes)
        assert all(np.array_equal(one.mask(k).counts, other.mask(k).counts) for k in range(len(one)) if one.outlines[k])
        assert [isinstance(outline, Polygons) for outline in one.outlines] == [
            isinstance(outline, Polygons) for outline in other.outlines
        ]


def test_pycocotools_reads_a_written_file(tmp_path):
    write_coco(read_detection(several(tmp_path)), tmp_path / "out.json")
    theirs = by_pycocotools(tmp_path / "out.json")
    assert theirs.getAnnIds(iscrowd=True) == [6]
    assert coco_masks.area(theirs.annToRLE(theirs.anns[7])) == MASK.sum()


def test_a_box_is_taken_from_the_outline_if_the_file_has_none(tmp_path):
    dataset = read_detection(coco_folder(tmp_path, coco_object(bbox=None, area=None)))
    assert dataset.images[0].boxes.tolist() == [[4, 4, 12, 10]]
    assert dataset.images[0].areas.tolist() == [48]


def test_a_folder_with_one_file_per_split(tmp_path):
    for split, name in (("train2017", "a.png"), ("val2017", "b.png")):
        write_image(tmp_path / "images" / split / name)
        write_coco_file(tmp_path / f"annotations/instances_{split}.json", [coco_image(1, name)], [coco_object(1)])
        write_coco_file(tmp_path / f"annotations/captions_{split}.json", [coco_image(1, name)], [])
    dataset = read_detection(tmp_path)
    assert [image.image for image in dataset.images] == [
        tmp_path / "images/train2017/a.png",
        tmp_path / "images/val2017/b.png",
    ]
    assert dataset.splits == ("train", "validation")
    assert [image.image.name for image in dataset.part("validation").images] == ["b.png"]
    with pytest.raises(UserError, match="no test split: expected train or validation"):
        dataset.part("test")
    write_coco(dataset, tmp_path / "joined.json")  # both files count from 1
    assert [one["id"] for one in json.loads((tmp_path / "joined.json").read_text())["annotations"]] == [1, 2]


def test_images_of_equal_names_are_those_of_the_split_and_the_nearest(tmp_path):
    for place in ("set/images/train", "set/images/val", "other", "set/annotations"):
        write_image(tmp_path / place / "a.png")
    (tmp_path / "set/annotations/a.png").unlink()
    file = write_coco_file(tmp_path / "set/annotations/val.json", [coco_image()], [coco_object()])
    assert read_detection(file).images[0].image == tmp_path / "set/images/val/a.png"
    names = [coco_image(id, f"{name}.png") for id, name in enumerate("ab", 1)]
    file = write_coco_file(tmp_path / "mine/x.json", names, [coco_object()])
    write_image(tmp_path / "mine/a.png")
    write_image(tmp_path / "other/b.png")  # more of the files, but in the folder of another data set
    assert [image.image.parent.name for image in read_detection(file).images] == ["mine", "mine"]


@pytest.mark.parametrize(("near", "expected"), [("ab", "set"), ("a", "images")])
def test_a_folder_with_few_of_the_images_is_not_taken(tmp_path, near, expected):
    for name in "abc":
        write_image(tmp_path / f"set/images/{name}.png")
    for name in near:
        write_image(tmp_path / f"set/{name}.png")
    names = [coco_image(id, f"{name}.png") for id, name in enumerate("abc", 1)]
    file = write_coco_file(tmp_path / "set/x.json", names, [coco_object()])
    assert {image.image.parent.name for image in read_detection(file).images} == {expected}


def test_several_files_without_splits_are_refused(tmp_path):
    for name in ("first", "second"):
        write_coco_file(tmp_path / f"{name}.json", [coco_image()], [coco_object()])
    with pytest.raises(UserError, match=r"several COCO files.*first.json, second.json\n.*type the file that you mean"):
        read_detection(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"category_id": 4}, "annotation 1: unknown class: expected 3 cat, 7 dog, got category_id 4"),
        ({"image_id": 8}, "annotation 1: its image is not in the list of images: got image_id 8"),
        ({"segmentation": [[1, 2, 3, 4]]}, "annotation 1: not a polygon: expected three corners x, y or more, got 2 c"),
        ({"segmentation": [[1, 2, 3, 4, 5, 6, 7]]}, "got 7 numbers"),
        ({"segmentation": {"size": [4, 4], "counts": [3, 2]}}, "annotation 1: the run lengths do not fit"),
        ({"segmentation": {"size": [4, 4], "counts": [3, "x"]}}, "annotation 1: annotation|counts: not a finite"),
        ({"segmentation": {"size": [10**9, 10**9], "counts": [3]}}, "not the size of an image"),
        ({"segmentation": {"counts": [3]}}, "annotation 1, size: not a list of numbers"),
        ({"segmentation": "x"}, "not a segmentation"),
        ({"bbox": [1, 2, 3]}, "annotation 1, bbox: not a list of numbers: expected 4 numbers"),
        ({"bbox": [1.0, 2.0, 3.0, float("inf")]}, "annotation 1, bbox: not a finite number"),
        ({"bbox": [1, 2, 3, float("nan")]}, "annotation 1, bbox: not a finite number"),
        ({"bbox": None, "segmentation": None}, "annotation 1, bbox: not a list of numbers"),
    ],
)
def test_faulty_objects_are_named(tmp_path, changes, message):
    with pytest.raises(UserError, match=message):
        read_detection(coco_folder(tmp_path, coco_object(**changes)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"images": [], "annotations": [], "cat', "cannot read .*json: expected a JSON file"),
        ('{"images": [], "annotations": []}', "no list 'categories'"),
        ('{"images": [3], "annotations": [], "categories": []}', r"images\[0\]: not an object"),
        ('{"images": [{"id": 1}], "annotations": [], "categories": []}', "image 1: no file_name"),
        ('{"images": [], "annotations": [], "categories": [{"id": 1}, {"id": 1}]}', "category 1: the number is used"),
    ],
)
def test_malformed_files_are_named(tmp_path, text, message):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(UserError, match=message):
        read_detection(tmp_path / "a.json")
