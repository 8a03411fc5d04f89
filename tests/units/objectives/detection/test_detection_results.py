"""Detections as COCO's result list and as CSV."""

import contextlib
import io
import json

import numpy as np
import pytest
from pycocotools.coco import COCO

from patchword.core.errors import UserError
from patchword.core.masks.run_lengths import RunLengths
from patchword.objectives.metrics.detection.records import ImageDetections
from patchword.objectives.metrics.detection.results import coco_results, csv_results, read_coco_results, select
from support.coco.detections import random_case

IDS, CLASSES = (7, 3), (1, 18)


def two_images() -> list[ImageDetections]:
    mask = np.zeros((6, 8), dtype=bool)
    mask[1:3, 2:5] = True
    first = ImageDetections(
        np.array([[2, 1, 5, 3], [0, 0, 7.5, 5.25]]),
        np.array([1, 0]),
        np.array([0.25, 0.75]),
        [RunLengths.from_mask(mask), RunLengths.from_mask(~mask)],
    )
    return [first, ImageDetections(np.zeros((0, 4)), np.zeros(0, dtype=int), np.zeros(0))]


def test_the_result_list_is_the_one_of_coco():
    entries = coco_results(two_images(), IDS, CLASSES)
    assert entries[0] == {
        "image_id": 7,
        "category_id": 18,
        "bbox": [2.0, 1.0, 3.0, 2.0],
        "score": 0.25,
        "segmentation": {"size": [6, 8], "counts": two_images()[0].masks[0].to_text()},
    }
    assert [entry["category_id"] for entry in entries] == [18, 1]


def test_pycocotools_reads_the_result_list():
    coco = COCO()
    coco.dataset = {
        "images": [{"id": number, "height": 6, "width": 8} for number in IDS],
        "annotations": [],
        "categories": [{"id": number, "name": str(number)} for number in CLASSES],
    }
    coco.createIndex()
    with contextlib.redirect_stdout(io.StringIO()):
        loaded = coco.loadRes(json.loads(json.dumps(coco_results(two_images(), IDS, CLASSES))))
    assert loaded.annToMask(loaded.loadAnns(loaded.getAnnIds(catIds=[18]))[0]).sum() == 6


@pytest.mark.parametrize("masks", [False, True])
def test_a_result_list_is_read_as_it_was_written(masks):
    _, found = random_case(1, masks=masks)
    ids = list(range(100, 100 + len(found)))
    text = json.dumps(coco_results(found, ids, (1, 2, 5, 7, 9)))
    for before, after in zip(found, read_coco_results(json.loads(text), ids, (1, 2, 5, 7, 9)), strict=True):
        np.testing.assert_allclose(after.boxes, before.boxes, rtol=0, atol=1e-9)
        assert np.array_equal(after.labels, before.labels)
        assert np.array_equal(after.scores, before.scores)
        if masks and len(before.labels):
            assert all(np.array_equal(a.counts, b.counts) for a, b in zip(after.masks, before.masks, strict=True))


ENTRY = {"image_id": 7, "category_id": 18, "bbox": [0, 0, 1, 1], "score": 0.5}


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({}, "not a result list"),
        ([{"image_id": 7}], "result 0 is not a detection"),
        ([ENTRY, ENTRY | {"image_id": 8}], "result 1, image_id: unknown number: expected 7, 3, got 8"),
        ([ENTRY | {"category_id": True}], "category_id: unknown number"),
        ([ENTRY | {"bbox": [1, 2]}], "bbox of a result"),
        ([ENTRY | {"score": "high"}], "score of a result"),
        ([ENTRY | {"segmentation": [[1, 2]]}], "segmentation of a result"),
    ],
)
def test_a_wrong_result_list_is_named(entries, message):
    with pytest.raises(UserError, match=message):
        read_coco_results(entries, IDS, CLASSES)


def test_the_table_has_a_line_per_detection():
    lines = csv_results(two_images(), ["a, b.png", "c.png"], ["cat", "dog"]).splitlines()
    assert lines[0] == "file,label,score,x1,y1,x2,y2"
    assert lines[1:] == [
        '"a, b.png",dog,0.250000,2.00,1.00,5.00,3.00',
        '"a, b.png",cat,0.750000,0.00,0.00,7.50,5.25',
    ]


def test_selected_are_the_best_first():
    found = two_images()[0]
    both, one = select(found, 0.25), select(found, 0.3)
    assert both.scores.tolist() == [0.75, 0.25]
    assert both.masks[1].area == 6
    assert one.labels.tolist() == [0]
