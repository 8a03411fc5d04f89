"""Panoptic quality of files in COCO's format."""

import json

import numpy as np
import pytest
from PIL import Image

from patchword.core.errors import UserError
from patchword.inspection.panoptic import open_panoptic, panoptic_quality

CATEGORIES = [{"id": 7, "name": "cat", "isthing": 1}, {"id": 90, "name": "grass", "isthing": 0}]


def write(path, images):
    """images: name -> (ids, {id: category})"""
    path.with_suffix("").mkdir()
    annotations = []
    for name, (ids, segments) in images.items():
        ids = np.asarray(ids)
        colours = np.stack([ids % 256, ids // 256 % 256, ids // 256**2], axis=-1).astype(np.uint8)
        Image.fromarray(colours).save(path.with_suffix("") / name)
        infos = [{"id": key, "category_id": category, "iscrowd": 0} for key, category in segments.items()]
        annotations.append({"file_name": name, "segments_info": infos})
    path.write_text(json.dumps({"annotations": annotations, "categories": CATEGORIES}))
    return path


@pytest.fixture
def truth(tmp_path):
    left = [[70_000] * 6 + [3] * 4] * 5  # ids above 2^16 need the blue channel
    return write(tmp_path / "truth.json", {"a.png": (left, {70_000: 7, 3: 90}), "b.png": ([[3] * 4] * 2, {3: 90})})


def test_ids_are_read_from_three_channels(truth):
    read = open_panoptic(truth).read("a.png")
    assert set(np.unique(read.ids)) == {3, 70_000}


def test_quality_of_things_and_stuff(truth, tmp_path):
    assert panoptic_quality(truth, truth).means()["all"] == (1, 1, 1)
    moved = [[5] * 5 + [9] * 5] * 5  # IoU 5/6 and 4/5
    found = write(tmp_path / "found.json", {"a.png": (moved, {5: 7, 9: 90}), "b.png": ([[0] * 4] * 2, {})})
    result = panoptic_quality(truth, found)
    means = result.means()
    assert means["things"] == pytest.approx((5 / 6, 5 / 6, 1))
    assert means["stuff"] == pytest.approx((0.8 / 1.5, 0.8, 1 / 1.5))  # the grass of the second image is missed
    assert means["all"].panoptic == pytest.approx((5 / 6 + 0.8 / 1.5) / 2)
    assert list(result.per_category()) == ["cat", "grass"]


def test_wrong_files_are_named(truth, tmp_path, command):
    only = write(tmp_path / "only.json", {"a.png": ([[3] * 10] * 5, {3: 90})})
    with pytest.raises(UserError, match=r"1 are missing, the first is b\.png"):
        panoptic_quality(truth, only)
    other = write(tmp_path / "other.json", {"a.png": ([[3] * 9] * 5, {3: 90}), "b.png": ([[3] * 4] * 2, {3: 90})})
    with pytest.raises(UserError, match=r"a\.png: panoptic maps of different sizes"):
        panoptic_quality(truth, other)
    (tmp_path / "other" / "b.png").unlink()
    with pytest.raises(UserError, match="there is no such file"):
        open_panoptic(other).read("b.png")
    (tmp_path / "boxes.json").write_text('{"annotations": [{"bbox": 1}], "categories": []}')
    code, _, errors = command("panoptic", str(truth), str(tmp_path / "boxes.json"))
    assert code == 2
    assert "segments_info" in errors


def test_the_verb_prints_a_table_and_json(truth, command):
    code, output, _ = command("panoptic", str(truth), str(truth))
    assert code == 0
    assert "100.00" in output
    assert "2 images, 2 categories" in output
    code, output, _ = command("panoptic", str(truth), str(truth), "--json")
    assert json.loads(output)["quality"]["things"] == {"panoptic": 1.0, "segmentation": 1.0, "recognition": 1.0}
