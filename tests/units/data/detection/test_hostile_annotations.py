"""Any value at any place of an annotation file is read or is an error of the user, never a traceback."""

import json
import random
import warnings

import pytest

from patchword.core.errors import UserError
from patchword.data.detection.checking import check_detection
from support.detection.annotations import (
    coco_image,
    coco_object,
    shape,
    voc_object,
    write_coco_file,
    write_image,
    write_labelme,
    write_voc,
    write_yolo,
)

NAMES = ["", "x", "a\0b", "y" * 5000, "/" * 5000, "../.."]
ODD = [None, True, -1, 0, 10**400, 1e300, -(10**18), *NAMES, [], [[]], {}, [1]]


def replaced(value, rng: random.Random):
    """Return a JSON value with one odd value at a random place."""
    if isinstance(value, (dict, list)) and value and rng.random() < 0.93:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        place = rng.choice(keys)
        changed = dict(value) if isinstance(value, dict) else list(value)
        changed[place] = replaced(value[place], rng)
        return changed
    return rng.choice(ODD)


def try_check(path) -> None:
    """Check a data set; only an error that names its place may be raised."""
    message = ""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            check_detection(path)
        except UserError as error:
            message = str(error)
    assert not message or str(path.parent) in message


@pytest.mark.parametrize("seed", range(4))
def test_odd_values_in_json(tmp_path, seed):
    rng = random.Random(seed)
    write_image(tmp_path / "a.png")
    lengths = {"size": [24, 32], "counts": [5, 20, 743]}
    objects = [coco_object(1), coco_object(2, segmentation=lengths), coco_object(3, area=None, segmentation=[])]
    coco = write_coco_file(tmp_path / "coco.json", [coco_image()], objects)
    shapes = [shape([[1, 1], [9, 1], [9, 7]]), shape([[4, 5], [6, 6]], "dog", "circle", group_id=3)]
    labelme = write_labelme(tmp_path / "a.json", *shapes)
    for path in (coco, labelme):
        record = json.loads(path.read_text())
        for _ in range(60):
            path.write_text(json.dumps(replaced(record, rng)))
            try_check(path)


@pytest.mark.parametrize("value", ["", "nan", "1e400", "-1e308", "9" * 400, "0x10", "١", "1,5", "&lt;"])
def test_odd_numbers_in_text(tmp_path, value):
    write_yolo(tmp_path / "yolo", a=f"0 0.5 {value} 0.5 0.5\n0 0.1 0.1 {value} 0.1 0.5 0.5\n{value} 0.5 0.5 0.5 0.5\n")
    try_check(tmp_path / "yolo")
    path = write_voc(tmp_path / "voc", "a", voc_object((1, value, 5, 9), "cat", f"<difficult>{value}</difficult>"))
    try_check(path)
