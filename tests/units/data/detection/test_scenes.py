"""Generated scenes: deterministic, with exact boxes, masks and semantic labels."""

import numpy as np
import pytest
import torch

from patchword.core.errors import UserError
from patchword.data.detection.reading import read_detection
from patchword.data.detection.scenes import SceneGenerator, SceneSettings
from patchword.data.detection.sources import SCENES, SIZES, FileSource, open_detection, open_scenes
from patchword.data.detection.transforms.geometry import mask_boxes
from support.detection.annotations import coco_folder, coco_object
from support.material import idx_bytes, without_sets


def garments(count: int = 12, side: int = 28) -> torch.Tensor:
    """Bright rectangles of different sizes on black; the brightness is 250 - index."""
    found = torch.zeros(count, side, side, dtype=torch.uint8)
    for index in range(count):
        found[index, 2 : 12 + index, 4 : 20 + index % 4] = 250 - index
    return found


def generator(**changes) -> SceneGenerator:
    return SceneGenerator(**{"garments": garments(), "labels": torch.arange(12) % 10, "classes": 10} | changes)


def same(one, other) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in vars(one))


def test_a_scene_depends_on_seed_and_index_only():
    first = generator()
    forwards = [first.scene(index) for index in range(6)]
    backwards = [generator().scene(index) for index in reversed(range(6))][::-1]
    assert all(same(one, other) for one, other in zip(forwards, backwards, strict=True))
    assert not any(same(forwards[0], other) for other in forwards[1:])
    assert not same(forwards[0], generator(seed=1).scene(0))
    assert not same(forwards[0], generator(stream=1).scene(0))


def test_boxes_masks_and_semantic_labels_are_exact():
    counts = set()
    for index in range(60):
        scene = generator().scene(index)
        assert scene.pixels.shape == (128, 128)
        assert 1 <= len(scene.labels) <= 6
        assert (scene.masks.sum(axis=0) <= 1).all()  # later garments cover earlier ones
        assert np.array_equal(mask_boxes(torch.from_numpy(scene.masks)).numpy(), scene.boxes)
        for mask, label in zip(scene.masks, scene.labels, strict=True):
            assert (scene.semantic[mask] == label).all()
            assert (scene.pixels[mask] > 0.12 * 255 - 0.5).all()
        assert set(np.unique(scene.semantic)) <= {*range(11)}
        assert (scene.semantic == 10).any()  # the background
        counts.add(len(scene.labels))
    assert counts == {2, 3, 4, 5, 6}


def test_sizes_are_within_their_limits():
    heights = []
    alone = SceneSettings(fewest=1, most=1, clutter=0, brightness=0.0)
    for index in range(80):
        scene = generator(garments=torch.full((1, 28, 28), 255), labels=torch.tensor([4]), settings=alone).scene(index)
        x1, y1, x2, y2 = scene.boxes[0]
        assert x2 - x1 == y2 - y1
        assert np.array_equal(scene.pixels > 0, scene.masks[0])  # nothing else is drawn
        heights.append(y2 - y1)
    assert 20 <= min(heights) < 24
    assert 52 < max(heights) <= 56


def test_dark_pixels_belong_to_no_mask():
    image = torch.full((1, 28, 28), 20)  # 0.08
    image[0, 7:21, 7:21] = 200
    settings = SceneSettings(fewest=1, most=1, clutter=0, brightness=0.0, smallest=1.0, largest=1.0)
    scene = generator(garments=image, labels=torch.tensor([0]), settings=settings).scene(0)
    assert scene.masks.sum() == 14 * 14
    assert set(np.unique(scene.pixels)) == {0, 200}


@pytest.mark.parametrize(("visible", "dropped"), [(0.4, True), (0.0, False)])
def test_covered_objects_are_dropped(visible, dropped):
    settings = SceneSettings(side=56, fewest=6, most=6, smallest=1.5, clutter=0, visible=visible)
    full = generator(garments=torch.full((10, 28, 28), 255), labels=torch.arange(10), settings=settings)
    scenes = [full.scene(index) for index in range(20)]
    assert any(len(scene.labels) < 6 for scene in scenes)
    smallest = min(mask.sum() for scene in scenes for mask in scene.masks)
    assert (smallest < 0.4 * 42 * 42) is not dropped
    if dropped:  # the pixels of a dropped object keep their class
        shown = [set(np.unique(scene.semantic)) - {10} - set(scene.labels.tolist()) for scene in scenes]
        assert any(shown)


def test_clutter_has_no_mask():
    busy, calm = (generator(settings=SceneSettings(clutter=clutter, brightness=0.0)) for clutter in (30, 0))
    assert any((scene.pixels[scene.semantic == 10] > 30).any() for scene in map(busy.scene, range(5)))
    assert not any((scene.pixels[scene.semantic == 10] > 30).any() for scene in map(calm.scene, range(5)))


def test_wrong_garments_are_refused():
    with pytest.raises(UserError, match="one label each"):
        generator(labels=torch.arange(3))
    with pytest.raises(UserError, match="larger than the canvas: expected at most 32 pixels, got 56"):
        generator(settings=SceneSettings(side=32))


# By name


@pytest.fixture
def fashion(tmp_path, monkeypatch):
    """A tiny Fashion-MNIST whose training garments have the brightness 200 and whose test garments have 100."""
    without_sets(monkeypatch, tmp_path)
    folder = tmp_path / "fashion-mnist"
    folder.mkdir()
    labels = np.arange(24) % 10
    for stem, value in (("train", 200), ("t10k", 100)):
        pixels = np.full((24, 28, 28), value)
        (folder / f"{stem}-images-idx3-ubyte").write_bytes(idx_bytes(pixels))
        (folder / f"{stem}-labels-idx1-ubyte").write_bytes(idx_bytes(labels))
    return folder


def test_splits_have_garments_of_their_own(fashion):
    train, validation, test = (open_scenes("fashion-mnist-scenes", split, scenes=5) for split in SIZES)
    assert [len(source.generator.labels) for source in (train, validation, test)] == [22, 2, 24]
    assert validation.generator.labels.tolist() == [1, 3]  # the garments 11 and 23
    scene = test.scene(0)
    assert scene.pixels[scene.masks[0]].max() == 100
    assert train.scene(0).pixels[train.scene(0).masks[0]].max() == 200
    assert not np.array_equal(train.scene(0).boxes, validation.scene(0).boxes)
    assert train.classes[0] == "T-shirt/top"
    assert len(train) == 5
    with pytest.raises(IndexError):
        train.scene(5)


def test_the_number_of_scenes_changes_no_scene(fashion):
    few, many = (open_scenes("fashion-mnist-scenes", "train", scenes=scenes) for scenes in (3, None))
    assert len(many) == 20_000
    assert same(few.scene(2), many.scene(2))


def test_sources_open_by_name_and_path(fashion, tmp_path):
    source = open_detection("fashion-mnist-scenes", "test")
    sample = source.sample(1)
    assert (source.name, len(source)) == ("fashion-mnist-scenes", 2_000)
    assert sample.pixels.shape == (3, 128, 128)
    assert sample.masks.shape == (len(sample), 128, 128)
    assert torch.equal(sample.pixels[0], sample.pixels[2])
    file = coco_folder(tmp_path / "mine", coco_object())
    mine = open_detection(str(file), "train")
    assert isinstance(mine, FileSource)
    assert len(mine) == 1
    assert mine.classes == ("cat", "dog")
    assert len(mine.sample(0)) == 1
    assert len(read_detection(file).images) == 1
    with pytest.raises(UserError, match="no validation split"):
        open_detection(str(file), "validation")
    with pytest.raises(UserError, match="did you mean 'fashion-mnist-scenes'"):
        open_detection("fashion-scenes")


def test_a_missing_data_set_is_named_with_how_to_get_it(tmp_path, monkeypatch):
    without_sets(monkeypatch, tmp_path)
    message = r"is made of fashion-mnist, which is not on this machine\n(.*\n)*.*patchword data get fashion-mnist"
    with pytest.raises(UserError, match=message):
        open_scenes("fashion-mnist-scenes", "train")
    with pytest.raises(UserError, match="no data set of scenes"):
        open_scenes("mnist", "train")
    assert list(SCENES) == ["fashion-mnist-scenes"]
